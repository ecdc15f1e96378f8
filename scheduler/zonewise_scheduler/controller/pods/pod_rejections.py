"""Pods that a kubelet has rejected although the queue placed them: what the kubelet assigned elsewhere was not known.

The job makes a replacement, which goes to the same node. Its room is that of the rejected pod, and the next report of
the node shows what is free. Where the node rejects a replacement as well, the workload is evicted whole. It waits for a
backoff, and is placed anew by the reports of that time. So no gang runs in part for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod

MAX_REJECTIONS = 2
"""So many rejections by one node end an admission."""


class PodRejection(NamedTuple):
    """A kubelet has rejected a pod of a workload."""

    workload: str
    """Its key."""
    pod: str
    node: str
    reason: str
    """status.reason of the pod: "TopologyAffinityError", ..."""
    message: str

    @property
    def text(self) -> str:
        """Return what happened, as a sentence without its end."""
        return f"the kubelet of {self.node} rejected pod {self.pod}: {self.reason}: {self.message}"


class PodRejections:
    """Rejections that were observed since the admission of each workload.

    A pod that was rejected when it was observed first counts for nothing: it may be of an earlier admission. So a
    restart begins anew to count, and so does a change of the leader.
    """

    def __init__(self) -> None:
        self._by_workload: dict[str, list[PodRejection]] = {}
        self._new: list[PodRejection] = []

    def observe(self, old: ManagedPod | None, pod: ManagedPod) -> bool:
        """Take the states of a pod before and after a change; return whether a kubelet has rejected it by that."""
        if old is None or old.rejection or not pod.rejection:
            return False
        rejection = PodRejection(pod.workload_key, pod.name, pod.node, pod.rejection, pod.rejection_message)
        self._by_workload.setdefault(pod.workload_key, []).append(rejection)
        self._new.append(rejection)
        return True

    def take_new(self) -> list[PodRejection]:
        """Return the rejections since the last call."""
        taken, self._new = self._new, []
        return taken

    def decisive(self, workload: str) -> PodRejection | None:
        """Return the rejection that ends the admission of a workload; None: none does."""
        counts: dict[str, int] = {}
        for rejection in self._by_workload.get(workload, ()):
            counts[rejection.node] = counts.get(rejection.node, 0) + 1
            if counts[rejection.node] == MAX_REJECTIONS:
                return rejection
        return None

    def clear(self) -> None:
        """Forget all rejections: of what was admitted since them, a replica that does not lead takes no note."""
        self._by_workload.clear()
        self._new.clear()

    def end_admission(self, workload: str) -> None:
        """Forget the rejections of a workload that has no quota any more."""
        self._by_workload.pop(workload, None)

"""Pods that a kubelet has rejected although the queue placed them: the kubelet's other assignments were not known.

The job creates a replacement, which goes to the same node. The planner counts it instead of the rejected pod, and the
next report of the node shows what is free. If the node rejects a replacement too, the whole workload is evicted. After
a backoff it is placed again, based on the reports of that time. So no gang runs incomplete for long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod

MAX_REJECTIONS = 2
"""Number of rejections by one node that end an admission."""


class PodRejection(NamedTuple):
    """The rejection of a workload's pod by a kubelet."""

    workload: str
    """Key of the workload."""
    pod: str
    node: str
    reason: str
    """status.reason of the pod: "TopologyAffinityError", ..."""
    message: str

    @property
    def text(self) -> str:
        """Return a description of the rejection, as a sentence without a full stop."""
        return f"the kubelet of {self.node} rejected pod {self.pod}: {self.reason}: {self.message}"


class PodRejections:
    """Rejections observed since each workload was admitted.

    A pod that was already rejected when first observed does not count, since it may belong to an earlier admission. So
    the count starts from zero after a restart or a change of the leader.
    """

    def __init__(self) -> None:
        self._by_workload: dict[str, list[PodRejection]] = {}
        self._new: list[PodRejection] = []

    def observe(self, old: ManagedPod | None, pod: ManagedPod) -> bool:
        """Record a pod's states before and after a change, and return whether a kubelet has just rejected it."""
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
        """Return the rejection that ends the admission of a workload; None: there is none."""
        counts: dict[str, int] = {}
        for rejection in self._by_workload.get(workload, ()):
            counts[rejection.node] = counts.get(rejection.node, 0) + 1
            if counts[rejection.node] == MAX_REJECTIONS:
                return rejection
        return None

    def clear(self) -> None:
        """Forget all rejections. A replica that does not lead does not notice which workloads are admitted later."""
        self._by_workload.clear()
        self._new.clear()

    def end_admission(self, workload: str) -> None:
        """Forget the rejections of a workload that no longer has quota."""
        self._by_workload.pop(workload, None)

"""The pods of all started jobs, as observed and as they will be once the pending patches are applied.

| observed pod             | assumed ungated | counts as             |
|--------------------------|-----------------|-----------------------|
| held                     | no              | held                  |
| held                     | yes             | ungated to its domain |
| not held, after that held | either         | not held              |
| deleted                  | either          | gone                  |

A removed gate never returns, so an observation that shows it again is outdated. An assumption ends when its patch
fails. A failed patch has changed nothing: a patch is idempotent, and is repeated until its outcome is known. This class
matches Kueue's store of expectations by UID (pkg/util/expectations), but also keeps the domain of each pod.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.reverse_index import ReverseIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.pods.ungate import Ungating


class ManagedPods:
    """Keeps observed and assumed pods. See the module docstring."""

    def __init__(self) -> None:
        self._pods: dict[str, ManagedPod] = {}
        """Observed pods by UID."""
        self._assumed: dict[str, ManagedPod] = {}
        self._workloads: ReverseIndex[str, str] = ReverseIndex()
        """Workload of each pod, by UID."""
        self._nodes: ReverseIndex[str, str] = ReverseIndex()
        """Node of each pod that may run there, by UID: no gate holds it, and it has not ended."""

    def observe(self, pod: ManagedPod) -> None:
        """Record a pod from a watch.

        Responses to patches are not recorded: they are not needed, and may be older than what the watch shows.
        """
        old = self._pods.get(pod.uid)
        if old is not None and pod.is_held and not old.is_held:
            return
        if old is not None and old.workload_key != pod.workload_key:
            self.remove(pod.uid)
        if not pod.is_held or pod.is_terminated:
            self._assumed.pop(pod.uid, None)
        self._pods[pod.uid] = pod
        self._workloads.change(pod.uid, (pod.workload_key,))
        self._index_node(pod.uid)

    def observed(self, uid: str) -> ManagedPod | None:
        """Return a pod as last observed; None: it no longer exists, or belongs to no workload."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Record the deletion of a pod, managed or not."""
        self._assumed.pop(uid, None)
        self._pods.pop(uid, None)
        self._index_node(uid)
        self._workloads.change(uid, ())

    def assume(self, ungating: Ungating) -> None:
        """Count a pod as ungated from now on, because its patch is being written."""
        self._assumed[ungating.pod.uid] = ungating.pod_after
        self._index_node(ungating.pod.uid)

    def forget(self, uid: str) -> None:
        """Count a pod as it was observed, because its patch has failed."""
        self._assumed.pop(uid, None)
        self._index_node(uid)

    def on_node(self, node: str) -> Sequence[ManagedPod]:
        """Return the pods of a node that no gate holds and that have not ended."""
        return [self._assumed.get(uid) or self._pods[uid] for uid in self._nodes.sources(node)]

    def _index_node(self, uid: str) -> None:
        pod = self._assumed.get(uid) or self._pods.get(uid)
        node = ""
        if pod is not None and not pod.is_held and not pod.is_terminated:
            with suppress(FieldError):  # an affinity that the API server would reject names no node
                node = pinned_node(pod)
        self._nodes.change(uid, (node,) if node else ())

    def of_workload(self, key: str) -> Sequence[ManagedPod]:
        """Return the pods of a Workload; `key`: its namespace and name."""
        return [self._assumed.get(uid) or self._pods[uid] for uid in self._workloads.sources(key)]

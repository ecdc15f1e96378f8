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
        self._by_workload: dict[str, dict[str, None]] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        """UIDs, by node, of the pods that may run there: no gate holds them, and they have not ended."""
        self._node_of: dict[str, str] = {}

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
        self._by_workload.setdefault(pod.workload_key, {})[pod.uid] = None
        self._index_node(pod.uid)

    def observed(self, uid: str) -> ManagedPod | None:
        """Return a pod as last observed; None: it no longer exists, or belongs to no workload."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """Record the deletion of a pod, managed or not."""
        self._assumed.pop(uid, None)
        pod = self._pods.pop(uid, None)
        self._index_node(uid)
        if pod is None:
            return
        uids = self._by_workload[pod.workload_key]
        del uids[uid]
        if not uids:
            del self._by_workload[pod.workload_key]

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
        return [self._assumed.get(uid) or self._pods[uid] for uid in self._by_node.get(node, ())]

    def _index_node(self, uid: str) -> None:
        pod = self._assumed.get(uid) or self._pods.get(uid)
        node = ""
        if pod is not None and not pod.is_held and not pod.is_terminated:
            with suppress(FieldError):  # an affinity that the API server would reject names no node
                node = pinned_node(pod)
        old = self._node_of.pop(uid, "")
        if old and old != node:
            del self._by_node[old][uid]
            if not self._by_node[old]:
                del self._by_node[old]
        if node:
            self._node_of[uid] = node
            self._by_node.setdefault(node, {})[uid] = None

    def of_workload(self, key: str) -> Sequence[ManagedPod]:
        """Return the pods of a Workload; `key`: its namespace and name."""
        return [self._assumed.get(uid) or self._pods[uid] for uid in self._by_workload.get(key, ())]

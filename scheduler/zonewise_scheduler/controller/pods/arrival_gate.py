"""Decide which pods may be sent to their nodes now, so that no kubelet rejects a pod because others arrived first.

A kubelet gives each pod the best zones at the moment of its arrival, and the planner's placement assumes an order. Pods
that are ungated at once may arrive in any order. So a pod remains held while another order would make its kubelet
reject a pod that the planner has placed there (ZoneAllocations.admits_next).

A pod that was sent counts as arrived once the node's report includes it, or SETTLED seconds after its kubelet admits
it. After HELD_LIMIT seconds a held pod is sent anyway, because the pods that it waits for may never arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.controller.pods.managed_pods import ManagedPods
    from zonewise_scheduler.controller.pods.pod_context import PodContext
    from zonewise_scheduler.controller.pods.ungate import Ungating

SETTLED = 2.0
"""Seconds after its admission when a pod counts as arrived. Our agent reports it some tenths of a second later."""
HELD_LIMIT = 30.0
"""Seconds for which a pod can be held."""
PERIOD = 1.0
"""Seconds between two checks of all held pods, since SETTLED or HELD_LIMIT may have passed."""


class ArrivalGate:
    """Holds pods back until they can arrive in any order. See the module docstring."""

    def __init__(self, pods: ManagedPods) -> None:
        """Use the pods of all workloads; those that are being ungated must count as ungated."""
        self._pods = pods
        self._held_since: dict[str, float] = {}
        """Time since which each pod has been held, by UID."""
        self._waiting: dict[str, dict[str, None]] = {}
        """Keys of the workloads with held pods, by node."""
        self._due_at = 0.0

    def take_due(self, nodes: Iterable[str], now: float) -> list[str]:
        """Return the workloads whose held pods must be checked again; `nodes`: the nodes that have changed."""
        if now >= self._due_at:
            nodes, self._due_at = list(self._waiting), now + PERIOD
        return [key for node in nodes for key in self._waiting.pop(node, ())]

    def lets_pass(self, ungating: Ungating, context: PodContext) -> bool:
        """Return whether a pod may be sent to its node now.

        The caller must count the pod as sent before it checks the next one.
        """
        pod, node = ungating.pod, ungating.pin.node
        if not node:
            return True
        sent = _count(self._pods.on_node(node), context.now)
        passes = context.admits_next((pod.workload_key, pod.pod_set), node, sent)
        if passes or context.now >= self._held_since.setdefault(pod.uid, context.now) + HELD_LIMIT:
            self._held_since.pop(pod.uid, None)
            return True
        self._waiting.setdefault(node, {})[pod.workload_key] = None
        return False

    def forget(self, uid: str) -> None:
        """Forget a pod that no longer exists."""
        self._held_since.pop(uid, None)


def _count(pods: Iterable[ManagedPod], now: float) -> dict[tuple[str, str], SentPods]:
    sent: dict[tuple[str, str], SentPods] = {}
    for pod in pods:
        key = pod.workload_key, pod.pod_set
        count, settled = sent.get(key, (0, 0))
        sent[key] = SentPods(count + 1, settled + (0 < pod.started <= now - SETTLED))
    return sent

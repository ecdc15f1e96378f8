"""Predicts whether a kubelet admits a pod once some of the node's pods have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.predicate import compute_pod_resource_request
from zonewise_scheduler.nodes.node.node_info import add_resources, available, lacks
from zonewise_scheduler.nodes.preemption.release import memory_zones, release

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState, Resource
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod


_UNCOUNTED = 1 << 62
"""Available amount of a resource that does not count."""


def available_to(node: OccupiedNode, shape: PodShape) -> Resource | None:
    """Return what a node has available to a pod; None: do not check."""
    if node.info is None:
        return None
    free = available(node.info)
    requested = compute_pod_resource_request(shape).scalar_resources
    uncounted = {name: _UNCOUNTED for name, _ in requested if lacks(node.info, name)}
    return free._replace(scalar_resources=tuple(sorted((dict(free.scalar_resources) | uncounted).items())))


class Admissions:
    """Predictions for one node and one pod, with the number of admissions computed.

    A pod that is assumed may reach its kubelet before or after the victims have ended. The pod must be admitted in both
    cases.
    """

    def __init__(self, node: OccupiedNode, shape: PodShape) -> None:
        self.computed = 0
        self._node = node
        self._shape = shape
        self._available_before = available_to(node, shape)
        self._terminating = tuple(pod for pod in node.pods if pod.terminating and pod.holdings is not None)

    def admitted(self, victims: Sequence[RunningPod]) -> bool:
        """Return whether the kubelet surely admits the pod after the victims and the terminating pods have ended."""
        node = self._node
        ended = (*self._terminating, *victims)
        uids = {pod.uid for pod in ended}
        held_zones = node.unattributed
        for pod in node.pods:
            if pod.uid not in uids:
                held_zones |= memory_zones(pod.holdings)
        available = self._available(ended)
        holdings = [*node.leaving, *(pod.holdings for pod in ended if pod.holdings is not None)]
        if not self._admits(release(node.state, holdings, held_zones | self._assumed_zones()), available):
            return False
        if not node.assumed:
            return True
        after = _after(release(node.reported, holdings, held_zones), node.assumed)
        return after is not None and self._admits(after, available)

    def _admits(self, state: NodeState, available: Resource | None) -> bool:
        self.computed += 1 + len(self._node.nominated)
        after = _after(state, self._node.nominated)
        if after is None:
            return False
        verdict = admit(after, self._shape, available)
        return verdict.admitted and not verdict.uncertain

    def _available(self, ended: Sequence[RunningPod]) -> Resource | None:
        available = self._available_before
        if available is not None:
            for pod in ended:
                available = add_resources(available, pod.requests)
            for shape in self._node.nominated:
                available = add_resources(available, compute_pod_resource_request(shape), -1)
        return available

    def _assumed_zones(self) -> int:
        """Return the zones in which assumed pods hold memory."""
        reported, state = self._node.reported, self._node.state
        zones = state.memory_assigned & ~reported.memory_assigned
        rows = zip(state.kind.zones, reported.memory_free, state.memory_free, strict=False)
        for zone, before, after in rows if self._node.assumed else ():
            zones |= (before != after) << zone
        return zones


def _after(state: NodeState, shapes: Iterable[PodShape]) -> NodeState | None:
    """Return the state after pods have arrived in their order, or None if the kubelet rejects one of them."""
    after: NodeState | None = state
    for shape in shapes:
        after = None if after is None else admit(after, shape).after
    return after

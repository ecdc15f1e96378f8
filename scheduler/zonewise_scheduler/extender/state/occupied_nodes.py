"""Builds nodes with their pods and the resources that each pod holds, from the cache's parts.

A kubelet releases a terminating pod, and its agent reports that, before the API server shows the end of the pod. The
pod's requests still count then, but it holds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.nrt.holdings import UNATTRIBUTED, Holdings, holdings_key
from zonewise_scheduler.nodes.assumed.exclusive_resources import holds_resources
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.nodes.preemption.release import memory_zones
from zonewise_scheduler.nodes.preemption.types import OccupiedNode, RunningPod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.objects.running_pods import NodePod, RunningPods
    from zonewise_scheduler.extender.state.node_infos import NodeInfos
    from zonewise_scheduler.extender.state.nominations import Nominations
    from zonewise_scheduler.nodes.assumed.ledger import Ledger
    from zonewise_scheduler.nodes.node.node_info import NodeInfo


class OccupiedNodes:
    """See the module. The caller holds the lock of the parts."""

    def __init__(self, ledger: Ledger, infos: NodeInfos, running: RunningPods, nominations: Nominations) -> None:
        self._ledger = ledger
        self._infos = infos
        self._running = running
        self._nominations = nominations

    def get(
        self,
        name: str,
        uid: str,
        priority: int,
        budgets_of: Callable[[str, str, tuple[tuple[str, str], ...]], tuple[str, ...]] | None = None,
    ) -> OccupiedNode | None:
        """Return a node as seen by the pod `uid` of a priority, or None if holdings or report are unknown.

        `budgets_of` returns the PodDisruptionBudgets of a pod, by namespace, name and labels.
        """
        occupancy = self._ledger.occupancy(name)
        if occupancy is None:
            return None
        held = occupancy.holdings
        on_node = self._running.on_node(name)
        released = {each.pod.uid for each in on_node if each.fields.terminating and each.pod.uid in occupancy.unlisted}
        assumed = {each: shape for each, shape in occupancy.assumed if each not in released}
        if uid in assumed:
            return None  # the pod is being bound to this node
        state = self._after(occupancy.reported, assumed.values()) if released else occupancy.state
        observed = [each for each in on_node if each.pod.uid not in assumed]
        pods = tuple(self._running_pods(observed, held, occupancy.state.kind, budgets_of, released))
        unattributed = memory_zones(held[UNATTRIBUTED]) if UNATTRIBUTED in held else 0
        nominated = [
            each
            for each in self._nominations.on_node(name, besides=uid, priority=priority)
            if each.preemptor.uid not in assumed  # the pod counts already
        ]
        return OccupiedNode(
            name=name,
            reported=occupancy.reported,
            state=state,
            assumed=tuple(assumed.values()),
            pods=pods,
            unattributed=unattributed,
            leaving=tuple(_leaving(observed, held)),
            nominated=tuple(each.preemptor.shape for each in nominated),
            info=self._info(name),
        )

    def _after(self, state: NodeState, shapes: Iterable[PodShape]) -> NodeState:
        """Return a node's state after pods have arrived; a pod that is rejected takes nothing."""
        for shape in shapes:
            state = self._ledger.admit(state, shape).after or state
        return state

    def _info(self, name: str) -> NodeInfo | None:
        info = self._infos.get(name)
        return None if info is None or info.allocatable == NO_RESOURCES else info

    def _running_pods(
        self,
        observed: Iterable[NodePod],
        held: Mapping[str, Holdings],
        kind: NodeKind,
        budgets_of: Callable[[str, str, tuple[tuple[str, str], ...]], tuple[str, ...]] | None,
        released: Set[str],
    ) -> Iterable[RunningPod]:
        keyed = [(holdings_key(each.pod.namespace, each.pod.name), each) for each in observed]
        counts: dict[str, int] = {}
        for key, _ in keyed:
            counts[key] = counts.get(key, 0) + 1
        for key, (pod, fields) in keyed:
            holdings = held.get(key) if counts[key] == 1 else None
            if holdings is None and (pod.uid in released or not holds_resources(kind, pod.shape)):
                holdings = Holdings()
            yield RunningPod(
                pod.uid, pod.namespace, pod.name, pod.shape, self._infos.requests(pod.uid), fields.priority,
                pod.started if pod.started is not None else float("inf"), holdings, fields.terminating,
                budgets_of(pod.namespace, pod.name, fields.labels) if budgets_of is not None else (), fields.static,
            )  # fmt: skip


def _leaving(observed: Iterable[NodePod], held: Mapping[str, Holdings]) -> Iterable[Holdings]:
    """Yield the report's holdings of pods that are gone from the API: its next version lacks them."""
    known = {holdings_key(each.pod.namespace, each.pod.name) for each in observed}
    yield from (holdings for key, holdings in held.items() if key not in known and key != UNATTRIBUTED)

"""A cluster of simulated kubelets, and the extender's cache that observes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from support.clock import Clock
from support.ledger_kubelets import SINGLE, Kubelet, node_kind, pod_shape
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.report.node_report import NodeReport
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, PendingPod
from zonewise_scheduler.nodes.node.node_info import NodeInfo

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.placing.placer import ScheduleResult
    from zonewise_scheduler.nodes.assumed.types import Misprediction

KIND = node_kind(SINGLE, gpus=0)
"""Two zones of eight CPUs."""
FALLBACK, TIMEOUTS = FallbackPolicy(), LedgerTimeouts()
HALF, FIVE_CPUS, WHOLE = pod_shape((4, 0)), pod_shape((5, 0)), pod_shape((8, 0))


def candidates(*names: str) -> CandidateNodes:
    return CandidateNodes(ExtenderArgs({}, node_names=msgspec.Raw(msgspec.json.encode(names))))


def pod(name: str, shape: PodShape = HALF) -> PendingPod:
    return PendingPod(f"uid-{name}", "lab", name, shape)


class CacheHarness:
    """A cluster of simulated kubelets, and the cache that observes it."""

    def __init__(self, *names: str, fallback: FallbackPolicy = FALLBACK, timeouts: LedgerTimeouts = TIMEOUTS) -> None:
        self.clock = Clock()
        self.mispredictions: list[Misprediction] = []
        self.cluster = ExtenderCache(self.clock, timeouts, fallback, self.mispredictions.append)
        self.kubelets: dict[str, Kubelet] = {}
        self.observed: dict[str, ObservedPod] = {}
        """By pod UID."""
        self.bound: set[str] = set()
        self.deleted: set[str] = set()
        self.bound_elsewhere = False
        """Whether another scheduler has bound a pod."""
        for name in names:
            self.kubelets[name] = Kubelet(name, idle_node(KIND))
            self.cluster.update_node(None, NodeInfo(name))
            self.report(name)

    def report(self, name: str) -> None:
        self.cluster.update_report(None, PublishedReport(self.kubelets[name].report(), self.clock()))

    def remove_report(self, name: str) -> None:
        self.cluster.update_report(PublishedReport(NodeReport(name, None, (), ()), None), None)

    def select(self, pending: PendingPod, *names: str) -> ScheduleResult:
        return self.cluster.select_and_assume(pending, candidates(*(names or self.kubelets)))

    def observe(self, pending: PendingPod, node: str = "", **more: Any) -> None:
        self.deleted.discard(pending.uid)
        old = self.observed.get(pending.uid)
        self.observed[pending.uid] = ObservedPod(*pending, node=node, **more)
        self.cluster.update_pod(old, self.observed[pending.uid])

    def delete(self, pending: PendingPod) -> None:
        self.deleted.add(pending.uid)
        self.cluster.update_pod(self.observed.pop(pending.uid, ObservedPod(*pending)), None)

    def bind(self, pending: PendingPod, node: str) -> bool:
        """Bind a pod and let its kubelet admit or reject it; return whether it was admitted."""
        self.bound.add(pending.uid)
        self.observe(pending, node)
        verdict = self.kubelets[node].decide(pending)
        if not verdict.admitted:
            self.observe(pending, node, phase="Failed", reason=verdict.reason, message=verdict.message)
        return verdict.admitted

    def assumed_pods(self) -> dict[str, list[str]]:
        """Return the names of the assumed pods by node."""
        nodes: Any = self.cluster.view.dump()["nodes"]
        return {name: [pending.removeprefix("lab/") for pending in node["inFlight"]] for name, node in nodes.items()}

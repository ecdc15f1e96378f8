"""A cluster whose pods have priorities, and whose reports have the holdings of each pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.extender_caches import LARGE_NODE, DirectCluster
from support.ledger_kubelets import pod_shape
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.disruption_budgets import DisruptionBudgets
from zonewise_scheduler.extender.objects.running_pods import VictimFields
from zonewise_scheduler.extender.preemption.preemption_planner import PreemptionPlanner
from zonewise_scheduler.nodes.preemption.types import Preemptor

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Resource
    from zonewise_scheduler.admission.pod import PodShape

FIVE, SIX = pod_shape((5, 0)), pod_shape((6, 0))


class PreemptionCluster(DirectCluster):
    """A cluster whose reports have the holdings of each pod, and whose pods have priorities."""

    def __init__(self, *names: str, allocatable: Resource = LARGE_NODE) -> None:
        super().__init__(*names, allocatable=allocatable)
        for name, kubelet in self.kubelets.items():
            kubelet.lists_holdings = True
            self.report(name)
        self.budgets = DisruptionBudgets(self.clock)
        self.planner = PreemptionPlanner(self.cache.state, self.budgets, FallbackPolicy())

    def run(self, name: str, shape: PodShape, node: str, priority: int = 0, **fields: bool) -> None:
        """Run a pod on a node and publish the node's report."""
        self.create(name, shape, priority=priority)
        self.bound[name] = node
        assert self.arrive(name)
        self.observe(name, victim=VictimFields(priority, (("app", name),), **fields), started=self.clock())
        self.report(node)

    def wait(self, name: str, shape: PodShape, priority: int = 10) -> Preemptor:
        """Create a pod that every node rejects."""
        pod = self.create(name, shape, priority=priority)
        assert self.filter(name).node == ""
        return Preemptor(*pod, priority)

    def end(self, name: str) -> None:
        super().end(name)
        self.report(self.bound[name])


def fragmented(allocatable: Resource = LARGE_NODE) -> PreemptionCluster:
    """Return two nodes of two zones of eight CPUs, each with a pod of five CPUs."""
    cluster = PreemptionCluster("n", "m", allocatable=allocatable)
    for name, node, priority in (("a", "n", 2), ("b", "n", 1), ("c", "m", 2), ("d", "m", 3)):
        cluster.run(name, FIVE, node, priority)
    return cluster

"""A cluster of simulated kubelets, and the extender's cache, which binds pods itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from support.clock import Clock
from support.ledger_kubelets import SINGLE, Kubelet, node_kind, pod_shape
from zonewise_scheduler.admission.node import NodeKind, Resource, idle_node
from zonewise_scheduler.extender.cache import ExtenderCache
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.objects.api_objects import ObservedPod, PublishedReport
from zonewise_scheduler.extender.objects.scheduling_spec import SchedulingSpec
from zonewise_scheduler.extender.types import CandidateNodes, ExtenderArgs
from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts, PendingPod
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.node.node_info import NodeInfo, PodInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.placing.placer import PodPlacement, ScheduleResult
    from zonewise_scheduler.nodes.assumed.types import Misprediction

KIND = node_kind(SINGLE, gpus=0)
"""Two zones of eight CPUs."""
LARGE_NODE = Resource(1_000_000, 1 << 50, 1000, 0)


def candidates(names: Sequence[str]) -> CandidateNodes:
    return CandidateNodes(ExtenderArgs({}, node_names=msgspec.Raw(msgspec.json.encode(names))))


class DirectCluster:
    """A cluster in which pods are created, filtered, placed by passes, bound, and admitted or rejected by kubelets."""

    def __init__(
        self, *names: str, kind: NodeKind = KIND, allocatable: Resource = LARGE_NODE, direct_binding: bool = True
    ) -> None:
        self.clock = Clock()
        self.mispredictions: list[Misprediction] = []
        self.cache = ExtenderCache(
            self.clock, LedgerTimeouts(), FallbackPolicy(), self.mispredictions.append, direct_binding=direct_binding
        )
        self.kubelets: dict[str, Kubelet] = {}
        self.pods: dict[str, PendingPod] = {}
        self.specs: dict[str, SchedulingSpec] = {}
        self.bound: dict[str, str] = {}
        """Node by pod name."""
        self.arrived: set[str] = set()
        """Names of the pods that a kubelet has admitted or rejected."""
        self.rejected: list[str] = []
        for name in names:
            self.kubelets[name] = Kubelet(name, idle_node(kind))
            self.cache.update_node(None, NodeInfo(name, allocatable=allocatable))
            self.report(name)

    def create(self, name: str, shape: PodShape, **spec: Any) -> PendingPod:
        """Create a pod; the cache observes it."""
        pod = self.pods[name] = PendingPod(f"uid-{name}", "lab", name, shape)
        cpus = sum(container.milli_cpus for container in shape.containers)
        plain = SchedulingSpec(created=self.clock(), constraints=Constraints(Resource(cpus, 0, 1, 0)))
        self.specs[name] = plain._replace(**spec)
        self.observe(name)
        return pod

    def observe(self, name: str, **fields: Any) -> None:
        """Update the cache with the pod's current state."""
        node = self.bound.get(name, "")
        requests = PodInfo(self.specs[name].constraints.requests) if node else None
        scheduling = None if node else self.specs[name]
        self.cache.update_pod(
            None,
            ObservedPod(
                *self.pods[name],
                node=node,
                scheduling=scheduling,
                info=requests,
                group=self.specs[name].group,
                **fields,
            ),
        )

    def filter(self, name: str, *nodes: str) -> ScheduleResult:
        """Filter a pod as kube-scheduler does."""
        return self.cache.select_and_assume(self.pods[name], candidates(nodes or tuple(self.kubelets)))

    def run_pass(self) -> dict[str, str]:
        """Run passes until no more pods fit; return the node of each placed pod by pod name."""
        placed: dict[str, str] = {}
        while placements := self.cache.place_waiting():
            placed |= {placement.pod.name: placement.node for placement in placements}
            for placement in placements:
                self.finish(placement)
        return placed

    def finish(self, placement: PodPlacement) -> None:
        """Complete the binding of a placed pod, as the API server does."""
        assert placement.pod.name not in self.bound, "bound twice"
        self.bound[placement.pod.name] = placement.node
        self.cache.end_binding(placement, "bound")

    def arrive(self, name: str) -> bool:
        """Let a kubelet admit or reject a bound pod, update the cache, and return whether it was admitted."""
        node = self.bound[name]
        self.observe(name)
        self.arrived.add(name)
        verdict = self.kubelets[node].decide(self.pods[name])
        if not verdict.admitted:
            self.rejected.append(name)
            self.observe(name, phase="Failed", reason=verdict.reason, message=verdict.message)
        return verdict.admitted

    def end(self, name: str) -> None:
        """End a running pod; report() publishes the change later."""
        self.kubelets[self.bound[name]].end_pod(self.pods[name].uid)
        self.cache.update_pod(None, ObservedPod(*self.pods[name], node=self.bound[name], phase="Succeeded"))

    def delete(self, name: str) -> None:
        """Delete a pod that does not run."""
        self.cache.update_pod(ObservedPod(*self.pods[name]), None)

    def report(self, name: str) -> None:
        """Publish the report of a node."""
        self.cache.update_report(None, PublishedReport(self.kubelets[name].report(), self.clock()))


def full_cluster() -> DirectCluster:
    """Return a cluster of one node, n, whose two zones are used by the running pods p and q."""
    cluster = DirectCluster("n")
    for name in "pq":
        cluster.create(name, pod_shape((8, 0)))
        assert cluster.filter(name).node == "n"
        cluster.bound[name] = "n"
        assert cluster.arrive(name)
    cluster.report("n")
    return cluster

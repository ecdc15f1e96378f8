"""Random quota trees with workloads, and the usage of a tree computed from its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort, FlavorFungibility
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode

FLAVORS = ("old", "new")
KEYS = tuple(FlavorResource(flavor, "cpu") for flavor in FLAVORS)
"""The flavor resources of random trees."""

CPU = FlavorResource("any", "cpu")
"""The flavor resource of cpu_queue()."""

_LIMITS = st.none() | st.integers(0, 8)
_QUOTAS = st.builds(ResourceQuota, st.integers(0, 8), _LIMITS, _LIMITS)
_GROUPS = st.builds(
    lambda *quotas: (
        resource_group(*(FlavorQuotas(name, (("cpu", quota),)) for name, quota in zip(FLAVORS, quotas, strict=True))),
    ),
    *[_QUOTAS] * len(FLAVORS),
)
_PARENTS = st.integers(-1, 3)
"""The index of the parent cohort; it is ignored if that cohort does not exist."""

PREEMPTIONS = st.builds(
    ClusterQueuePreemption,
    st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
    st.sampled_from(["Never", "LowerPriority", "Any"]),
    st.sampled_from(["Never", "LowerPriority"]),
    st.none() | st.integers(0, 3),
)
_FUNGIBILITIES = st.builds(
    FlavorFungibility,
    *[st.sampled_from(["MayStopSearch", "TryNextFlavor"])] * 2,
    st.sampled_from(["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
)
_QUEUES = st.lists(
    st.tuples(_PARENTS, _GROUPS, PREEMPTIONS, _FUNGIBILITIES, st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=4
)
_COHORTS = st.lists(st.tuples(_PARENTS, _GROUPS), min_size=1, max_size=4)
_WORKLOADS = st.lists(
    st.tuples(*[st.integers(0, 3)] * 3, st.integers(0, 6), st.sampled_from(KEYS)),
    max_size=8,
)
_NO_PREEMPTION = ClusterQueuePreemption()


def running_workload(
    name: str, queue: str, key: FlavorResource, amount: int, priority: int = 0, at: float = 0.0
) -> Workload:
    """Return an admitted workload of one pod with an amount of one flavor resource."""
    pods = PodSetAdmission("main", {key.resource: key.flavor}, {key.resource: amount}, 1)
    admission = Admission(queue, (pods,), at)
    specs = (PodSet(requests={key.resource: amount}),)
    return Workload("ns", name, specs, name, priority=priority, created_at=at, admission=admission)


def pending_workload(name: str, amount: int, priority: int = 0, created: float = 0.0) -> Workload:
    """Return a workload of one pod that requests an amount of CPUs."""
    return Workload("ns", name, (PodSet(requests={"cpu": amount}),), name, priority=priority, created_at=created)


def cpu_queue(
    name: str, nominal: int, preemption: ClusterQueuePreemption = _NO_PREEMPTION, cohort: str = "c"
) -> ClusterQueue:
    """Return a ClusterQueue with CPU quota."""
    groups = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal)),))),)
    return ClusterQueue(name, groups, cohort, preemption=preemption)


def _snapshot(cohorts: Any, queues: Any, workloads: Any) -> Snapshot:
    cohort_specs = [
        Cohort(f"c{i}", f"c{parent}" if 0 <= parent < i else "", groups) for i, (parent, groups) in enumerate(cohorts)
    ]
    queue_specs = [
        ClusterQueue(
            f"q{i}",
            groups,
            f"c{parent}" if 0 <= parent < len(cohort_specs) else "",
            preemption=preemption,
            flavor_fungibility=fungibility,
            fair_weight=weight,
        )
        for i, (parent, groups, preemption, fungibility, weight) in enumerate(queues)
    ]
    running = [
        running_workload(f"w{i}", f"q{queue % len(queue_specs)}", key, amount, priority, float(at))
        for i, (queue, priority, at, amount, key) in enumerate(workloads)
    ]
    return Snapshot(queue_specs, cohort_specs, workloads=running)


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Return a strategy for up to four cohorts in a tree, four queues, and workloads, some beyond their quota."""
    return _SNAPSHOTS


_SNAPSHOTS = st.builds(_snapshot, _COHORTS, _QUEUES, _WORKLOADS)


# --- definitions


def nonzero_usage(snapshot: Snapshot) -> dict[str, dict[FlavorResource, int]]:
    """Return the usage of each node, without amounts of 0."""
    nodes: list[ResourceNode] = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    return {
        f"{type(node).__name__} {node.name}": {key: amount for key, amount in node.usage.items() if amount}
        for node in nodes
    }


def usage_from_scratch(snapshot: Snapshot, node: ResourceNode, key: FlavorResource) -> int:
    """Return the usage of a queue's workloads, or of a cohort's children beyond their local quota."""
    if isinstance(node, ClusterQueueSnapshot):
        return sum(workload.usage.get(key, 0) for workload in snapshot.workloads_by_queue[node.name].values())
    assert isinstance(node, CohortSnapshot)
    children: list[ResourceNode] = [
        *node.child_cohorts,
        *(queue for queue in snapshot.cluster_queues.values() if queue.parent is node),
    ]
    return sum(max(0, usage_from_scratch(snapshot, child, key) - child.local_quota(key)) for child in children)

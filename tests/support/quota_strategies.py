"""Any tree of queues and cohorts with workloads, and what a tree must be by its rules alone, found from nothing."""

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


_LIMITS = st.none() | st.integers(0, 8)
_QUOTAS = st.builds(ResourceQuota, st.integers(0, 8), _LIMITS, _LIMITS)
_GROUPS = st.builds(
    lambda *quotas: (
        resource_group(*(FlavorQuotas(name, (("cpu", one),)) for name, one in zip(FLAVORS, quotas, strict=True))),
    ),
    *[_QUOTAS] * len(FLAVORS),
)
_ABOVE = st.integers(-1, 3)
"""Which cohort is above, where there is such a one."""

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
    st.tuples(_ABOVE, _GROUPS, PREEMPTIONS, _FUNGIBILITIES, st.sampled_from([0.0, 1.0, 2.0])), min_size=1, max_size=4
)
_COHORTS = st.lists(st.tuples(_ABOVE, _GROUPS), min_size=1, max_size=4)
_WORKLOADS = st.lists(
    st.tuples(*[st.integers(0, 3)] * 3, st.integers(0, 6), st.sampled_from(KEYS)),
    max_size=8,
)


def running(name: str, queue: str, key: FlavorResource, amount: int, priority: int = 0, at: float = 0.0) -> Workload:
    """A workload of one pod that has an amount of CPUs."""
    pods = PodSetAdmission("main", {key.resource: key.flavor}, {key.resource: amount}, 1)
    admission = Admission(queue, (pods,), at)
    specs = (PodSet(requests={key.resource: amount}),)
    return Workload("ns", name, specs, name, priority=priority, created_at=at, admission=admission)


def waiting(name: str, amount: int, priority: int = 0, created: float = 0.0) -> Workload:
    return Workload("ns", name, (PodSet(requests={"cpu": amount}),), name, priority=priority, created_at=created)


def _snapshot(cohorts: Any, queues: Any, workloads: Any) -> Snapshot:
    tree = [
        Cohort(f"c{place}", f"c{above}" if 0 <= above < place else "", groups)
        for place, (above, groups) in enumerate(cohorts)
    ]
    specs = [
        ClusterQueue(
            f"q{place}",
            groups,
            f"c{above}" if 0 <= above < len(tree) else "",
            preemption=preemption,
            flavor_fungibility=fungibility,
            fair_weight=weight,
        )
        for place, (above, groups, preemption, fungibility, weight) in enumerate(queues)
    ]
    held = [
        running(f"w{place}", f"q{queue % len(specs)}", key, amount, priority, float(at))
        for place, (queue, priority, at, amount, key) in enumerate(workloads)
    ]
    return Snapshot(specs, tree, workloads=held)


def snapshots() -> st.SearchStrategy[Snapshot]:
    """Up to four cohorts in a tree, four queues, and workloads in them, some beyond their quota."""
    return _SNAPSHOTS


_SNAPSHOTS = st.builds(_snapshot, _COHORTS, _QUEUES, _WORKLOADS)


# --- what must be


def usages(snapshot: Snapshot) -> dict[str, dict[FlavorResource, int]]:
    """What is used of each node, without what is nothing."""
    nodes: list[ResourceNode] = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    return {
        f"{type(one).__name__} {one.name}": {key: amount for key, amount in one.usage.items() if amount}
        for one in nodes
    }


def usage_from_scratch(snapshot: Snapshot, node: ResourceNode, key: FlavorResource) -> int:
    """Of a queue, what its workloads have; of a cohort, what its children use beyond what is local to them."""
    if isinstance(node, ClusterQueueSnapshot):
        return sum(one.usage.get(key, 0) for one in snapshot.workloads_by_queue[node.name].values())
    assert isinstance(node, CohortSnapshot)
    children: list[ResourceNode] = [
        *node.child_cohorts,
        *(one for one in snapshot.cluster_queues.values() if one.parent is node),
    ]
    return sum(max(0, usage_from_scratch(snapshot, one, key) - one.local_quota(key)) for one in children)

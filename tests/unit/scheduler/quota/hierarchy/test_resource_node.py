"""Nodes of the quota tree: usage, available and potential quota, and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import (
    CPU,
    KEYS,
    nonzero_usage,
    running_workload,
    snapshots,
    usage_from_scratch,
)
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource, ResourceGroup
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


def cpu_groups(nominal: int, borrowing: int | None = None, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    return (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal, borrowing, lending)),))),)


# --- properties


@given(snapshots())
def test_usage_equals_usage_from_scratch(snapshot: Snapshot) -> None:
    """After workloads were added and removed, usage is the sum over the workloads that run."""
    nodes: list[ResourceNode] = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    for workloads in list(snapshot.workloads_by_queue.values()):
        for workload in list(workloads.values())[::2]:
            snapshot.remove_workload(workload)
    for node in nodes:
        for key in KEYS:
            assert node.usage.get(key, 0) == usage_from_scratch(snapshot, node, key)


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 9))
def test_available_amounts_stay_within_every_limit(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """With all available quota used, no node above exceeds its quota or its borrowing limit."""
    for queue in snapshot.cluster_queues.values():
        if amount > queue.available(key):
            continue
        path: list[ResourceNode] = [queue, *queue.path_parent_to_root()]
        before = [node.usage.get(key, 0) for node in path]
        queue.add_amount(key, amount)
        for node, usage in zip(path, before, strict=True):
            limit = node.quotas[key].borrowing_limit if key in node.quotas else None
            beyond = node.usage.get(key, 0) - node.subtree_quota.get(key, 0)
            exceeds = node.usage.get(key, 0) > usage and beyond > 0
            assert not (exceeds and node.parent is None)
            assert not (exceeds and limit is not None and beyond > limit)
        queue.remove_amount(key, amount)


@given(snapshots(), st.sampled_from(KEYS))
def test_no_more_than_the_available_amount_fits(snapshot: Snapshot, key: FlavorResource) -> None:
    """With one more, the root exceeds its quota, or a node its borrowing limit."""
    for queue in snapshot.cluster_queues.values():
        amount = max(queue.available(key), 0) + 1
        queue.add_amount(key, amount)
        path: list[ResourceNode] = [queue, *queue.path_parent_to_root()]
        beyond = {node: node.usage.get(key, 0) - node.subtree_quota.get(key, 0) for node in path}
        limits = {node: node.quotas[key].borrowing_limit for node in path[:-1] if key in node.quotas}
        assert beyond[path[-1]] > 0 or any(limit is not None and beyond[node] > limit for node, limit in limits.items())
        queue.remove_amount(key, amount)


@given(snapshots())
def test_potential_is_what_is_available_once_nothing_runs(snapshot: Snapshot) -> None:
    """What a tree can lend is the sum of it over the flavors."""
    for workloads in list(snapshot.workloads_by_queue.values()):
        for workload in list(workloads.values()):
            snapshot.remove_workload(workload)
    for node in (*snapshot.cluster_queues.values(), *snapshot.cohorts.values()):
        path: list[ResourceNode] = [node, *node.path_parent_to_root()]
        keys = path[-1].subtree_quota.keys()
        assert all(node.potential_available(key) == node.available(key) for key in KEYS)
        assert node.lendable == ({"cpu": sum(map(node.available, keys))} if keys else {})


@given(snapshots(), st.sampled_from(KEYS))
def test_available_is_at_most_potential_available(snapshot: Snapshot, key: FlavorResource) -> None:
    for queue in snapshot.cluster_queues.values():
        assert queue.available(key) <= queue.potential_available(key)


@given(snapshots(), st.sampled_from(KEYS), st.integers(1, 9))
def test_more_usage_never_makes_more_available(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """Removing the usage restores the snapshot."""
    before = nonzero_usage(snapshot)
    available = {queue.name: queue.available(key) for queue in snapshot.cluster_queues.values()}
    for queue in snapshot.cluster_queues.values():
        queue.add_amount(key, amount)
        assert all(node.available(key) <= available[node.name] for node in snapshot.cluster_queues.values())
        queue.remove_amount(key, amount)
        assert nonzero_usage(snapshot) == before


def distance_to_the_furthest_below(node: ResourceNode) -> int:
    below = [*node.child_cqs, *node.child_cohorts] if isinstance(node, CohortSnapshot) else []
    return max((distance_to_the_furthest_below(child) + 1 for child in below), default=0)


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 20))
def test_height_of_the_lowest_subtree_that_fits(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """It is that of the lowest node that does not borrow with the usage; if all borrow, that of the root."""
    for queue in snapshot.cluster_queues.values():
        found = find_height_of_lowest_subtree_that_fits(queue, key, amount)
        path: list[ResourceNode] = [queue, *queue.path_parent_to_root()]
        queue.add_amount(key, amount)
        fitting = [node for node in path if node.usage.get(key, 0) <= node.subtree_quota.get(key, 0)]
        lowest = fitting[0] if fitting else path[-1]
        assert found == (distance_to_the_furthest_below(lowest), lowest.parent is not None)
        queue.remove_amount(key, amount)


@given(snapshots(), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 3)), max_size=6))
def test_priority_usage_is_that_of_the_running_workloads(snapshot: Snapshot, more: list[tuple[int, int, int]]) -> None:
    """By priority, after workloads were added and removed; in a copy too."""
    names = list(snapshot.cluster_queues)
    new = [
        running_workload(f"n{serial}", names[index % len(names)], KEYS[0], amount, priority)
        for serial, (index, amount, priority) in enumerate(more)
    ]
    for workload in new:
        snapshot.add_workload(workload)
    for workload in new[::2]:
        snapshot.remove_workload(workload)
    for tree in (snapshot, snapshot.copy()):
        for name, node in tree.cluster_queues.items():
            running = list(tree.workloads_by_queue[name].values())
            assert {priority: entry.count for priority, entry in node.priority_usage.items()} == {
                priority: sum(workload.priority == priority for workload in running)
                for priority in {workload.priority for workload in running}
            }
            for priority, entry in node.priority_usage.items():
                for key in KEYS:
                    amounts = [workload.usage.get(key, 0) for workload in running if workload.priority == priority]
                    assert entry.usage.get(key, 0) == sum(amounts)


# --- examples


def test_lowered_quota_makes_available_negative() -> None:
    """A root whose usage is beyond its quota has negative available quota."""
    snapshot = Snapshot([ClusterQueue("q", cpu_groups(2))])
    snapshot.add_workload(running_workload("w", "q", CPU, 5))
    assert snapshot.cluster_queues["q"].available(CPU) == -3
    assert fits(snapshot.cluster_queues["q"], {CPU: 0})


def test_unlimited_quota_stays_unlimited() -> None:
    snapshot = Snapshot([ClusterQueue("q", cpu_groups(UNLIMITED), "c"), ClusterQueue("p", cpu_groups(1), "c")])
    snapshot.add_workload(running_workload("w", "p", CPU, 1 << 40))
    assert snapshot.cluster_queues["p"].available(CPU) == UNLIMITED
    assert snapshot.cluster_queues["q"].potential_available(CPU) == UNLIMITED


def test_limits_of_a_cohort_hold_for_its_subtree() -> None:
    cohorts = [
        Cohort("root"),
        Cohort("left", "root", cpu_groups(0, borrowing=3)),
        Cohort("right", "root", cpu_groups(4, lending=1)),
    ]
    queues = [
        ClusterQueue("a", cpu_groups(2), "left"),
        ClusterQueue("b", cpu_groups(2), "left"),
        ClusterQueue("c", cpu_groups(5), "right"),
    ]
    snapshot = Snapshot(queues, cohorts)
    assert snapshot.cohorts["root"].subtree_quota == {CPU: 2 + 2 + 1}
    assert snapshot.cluster_queues["a"].potential_available(CPU) == 5
    snapshot.add_workload(running_workload("w", "b", CPU, 3))
    assert snapshot.cluster_queues["a"].available(CPU) == 2
    assert snapshot.cluster_queues["c"].available(CPU) == 8 + 2

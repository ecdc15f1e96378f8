"""Nodes of the quota tree: usage, available and potential quota, and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
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
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


def cpu_groups(nominal: int, borrowing: int | None = None, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    return (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal, borrowing, lending)),))),)


# --- properties


@given(snapshots())
def test_usage_equals_usage_from_scratch(snapshot: Snapshot) -> None:
    """After workloads were added and removed, usage is the sum over the running workloads."""
    nodes: list[ResourceNode] = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    for workloads in list(snapshot.workloads_by_queue.values()):
        for workload in list(workloads.values())[::2]:
            snapshot.remove_workload(workload)
    for node in nodes:
        for key in KEYS:
            assert node.usage.get(key, 0) == usage_from_scratch(snapshot, node, key)


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 9))
def test_available_amounts_never_exceed_a_limit(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """With all available quota used, no node above exceeds its quota or borrowing limit."""
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
    """With one unit more, the root exceeds its quota or a node exceeds its borrowing limit."""
    for queue in snapshot.cluster_queues.values():
        amount = max(queue.available(key), 0) + 1
        queue.add_amount(key, amount)
        path: list[ResourceNode] = [queue, *queue.path_parent_to_root()]
        beyond = {node: node.usage.get(key, 0) - node.subtree_quota.get(key, 0) for node in path}
        limits = {node: node.quotas[key].borrowing_limit for node in path[:-1] if key in node.quotas}
        assert beyond[path[-1]] > 0 or any(limit is not None and beyond[node] > limit for node, limit in limits.items())
        queue.remove_amount(key, amount)


@given(snapshots())
def test_potential_quota_equals_available_quota_if_nothing_runs(snapshot: Snapshot) -> None:
    """The lendable amount of a tree is the sum over the flavors."""
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
def test_additional_usage_never_increases_available_quota(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """Removing the usage again restores the snapshot."""
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


@given(snapshots(), st.tuples(*[st.integers(-2, 9)] * len(KEYS)))
def test_usage_beyond_is_what_the_parent_gets(snapshot: Snapshot, amounts: tuple[int, ...]) -> None:
    """A workload slice may use less than the one that it replaces."""
    usage = dict(zip(KEYS, amounts, strict=True))
    for queue in snapshot.cluster_queues.values():
        before = {} if queue.parent is None else dict(queue.parent.usage)
        beyond = queue.usage_beyond(usage)
        queue.add_usage(usage)
        if queue.parent is not None:
            more = {key: queue.parent.usage[key] - before.get(key, 0) for key in KEYS}
            assert beyond == {key: amount for key, amount in more.items() if amount}


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 20))
def test_height_of_the_lowest_subtree_that_fits(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """It is the height of the lowest node that does not borrow with this usage; if all borrow, that of the root."""
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
    """It is counted by priority, after workloads were added and removed, and in a copy, too."""
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
            assert {priority: entry.workloads for priority, entry in node.priority_usage.items()} == {
                priority: sum(workload.priority == priority for workload in running)
                for priority in {workload.priority for workload in running}
            }
            for priority, entry in node.priority_usage.items():
                for key in KEYS:
                    amounts = [workload.usage.get(key, 0) for workload in running if workload.priority == priority]
                    assert entry.usage.get(key, 0) == sum(amounts)


# --- examples


def test_lowered_quota_makes_available_negative() -> None:
    """A root whose usage exceeds its quota has negative available quota."""
    snapshot = Snapshot([ClusterQueue("q", cpu_groups(2))])
    snapshot.add_workload(running_workload("w", "q", CPU, 5))
    assert snapshot.cluster_queues["q"].available(CPU) == -3
    assert fits(snapshot.cluster_queues["q"], {CPU: 0})
    assert not fits(snapshot.cluster_queues["q"], {CPU: 1})


def test_unlimited_quota_remains_unlimited() -> None:
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


@pytest.mark.parametrize(("lending", "local"), [(None, 0), (0, 5), (2, 3), (4, 1), (5, 0), (7, 0)])
def test_the_local_quota_is_the_part_that_is_not_lent(lending: int | None, local: int) -> None:
    queue = Snapshot([ClusterQueue("q", cpu_groups(5, lending=lending), "c")]).cluster_queues["q"]
    assert (queue.local_quota(CPU), queue.local_available(CPU)) == (local, local)


def test_a_flavor_resource_without_quota_and_usage_counts_as_0() -> None:
    """Any usage of it is borrowed, and removing zero leaves no entry."""
    gpu = FlavorResource("any", "gpu")
    snapshot = Snapshot([ClusterQueue("alone", cpu_groups(2)), ClusterQueue("q", cpu_groups(2), "c")])
    for node in (*snapshot.cluster_queues.values(), *snapshot.cohorts.values()):
        assert (node.available(gpu), node.potential_available(gpu), node.local_quota(gpu)) == (0, 0, 0)
        assert (node.borrowing_with(gpu), node.borrowing_with(gpu, 1)) == (False, True)
        node.remove_amount(gpu, 0)
        assert node.usage[gpu] == 0


def test_heights_count_the_levels_below() -> None:
    """A chain of four cohorts, the lowest of which has a queue, and an empty cohort beside it."""
    cohorts = [Cohort("c0"), *(Cohort(f"c{i}", f"c{i - 1}") for i in (1, 2, 3)), Cohort("empty", "c2")]
    snapshot = Snapshot([ClusterQueue("q", cpu_groups(2), "c3")], cohorts)
    assert {name: node.height for name, node in snapshot.cohorts.items()} == {
        "c0": 4, "c1": 3, "c2": 2, "c3": 1, "empty": 0,
    }  # fmt: skip


def test_workloads_are_counted_by_priority() -> None:
    """The counts include the sum of their usage; a priority without workloads is forgotten."""
    queue = Snapshot([ClusterQueue("q", cpu_groups(9))]).cluster_queues["q"]
    workloads = [running_workload(f"w{i}", "q", CPU, 3, priority) for i, priority in enumerate((1, 1, 2))]
    for workload in workloads:
        queue.count_workload(workload)
    counted = {priority: (entry.workloads, entry.usage) for priority, entry in queue.priority_usage.items()}
    assert counted == {1: (2, {CPU: 6}), 2: (1, {CPU: 3})}
    for workload in workloads[1:]:
        queue.uncount_workload(workload)
    counted = {priority: (entry.workloads, entry.usage) for priority, entry in queue.priority_usage.items()}
    assert counted == {1: (1, {CPU: 3})}

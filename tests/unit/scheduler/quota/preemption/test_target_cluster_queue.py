"""The queue of the next victim: by definition, the one with the largest share at each level of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import CPU, cpu_queue, running_workload, snapshots
from zonewise_scheduler.quota.api.queue_types import Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, CohortSnapshot
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.preemption.candidate_ordering import sort_candidates
from zonewise_scheduler.quota.preemption.target_cluster_queue import TargetClusterQueueOrdering

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


def candidates_in_order(snapshot: Snapshot, own: ClusterQueueSnapshot) -> list[Workload]:
    """Return all running workloads in the tree of a queue, in the order of candidates."""
    names = [own.name] if own.root is None else [queue.name for queue in own.root.subtree_cluster_queues()]
    running = [workload for name in names for workload in snapshot.workloads_by_queue[name].values()]
    return sort_candidates(running, own.name, {})


def next_target(
    node: ResourceNode, own: ClusterQueueSnapshot, candidates: list[Workload]
) -> ClusterQueueSnapshot | None:
    """Return the queue with the next victim below a node; None if it neither borrows nor contains the preemptor."""
    if isinstance(node, ClusterQueueSnapshot):
        has_candidate = any(each.admission and each.admission.cluster_queue == node.name for each in candidates)
        return node if has_candidate and (node is own or dominant_resource_share(node).borrowed_frs) else None
    assert isinstance(node, CohortSnapshot)
    ancestors = list(own.path_parent_to_root())
    cohorts = [
        child for child in node.child_cohorts if child in ancestors or dominant_resource_share(child).borrowed_frs
    ]
    children = [(child, next_target(child, own, candidates)) for child in (*node.child_cqs, *cohorts)]
    targets = [(child, target) for child, target in children if target is not None]
    if not targets:
        return None
    largest = max(dominant_resource_share(child).comparison_key for child, _ in targets)
    tied = [(child, target) for child, target in targets if dominant_resource_share(child).comparison_key == largest]
    if isinstance(
        tied[-1][0], CohortSnapshot
    ):  # cohorts precede queues of the same share, and the last cohort is first
        return tied[-1][1]
    first = {each.admission.cluster_queue: i for i, each in reversed([*enumerate(candidates)]) if each.admission}
    return min((target for _, target in tied), key=lambda queue: first[queue.name])


def equal_queues(parents: list[int], running: list[tuple[int, int, int]]) -> Snapshot:
    """Return queues in two cohorts or in the root, which lends to all of them; workloads have one CPU."""
    lent = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(8)),))),)
    cohorts = [Cohort("root", "", lent), Cohort("left", "root"), Cohort("right", "root")]
    queues = [cpu_queue(f"q{i}", 0, cohort=cohorts[parent].name) for i, parent in enumerate(parents)]
    workloads = [
        running_workload(f"w{i}", f"q{queue % len(queues)}", CPU, 1, priority, float(at))
        for i, (queue, priority, at) in enumerate(running)
    ]
    return Snapshot(queues, cohorts, workloads=workloads)


EQUAL_QUEUES = st.builds(
    equal_queues,
    st.lists(st.integers(0, 2), min_size=2, max_size=4),
    st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=8),
)
"""Many of these shares are equal."""


@given(snapshots() | EQUAL_QUEUES)
def test_the_next_victim_belongs_to_the_largest_share_at_each_level(snapshot: Snapshot) -> None:
    """Victims follow until no queue borrows; the preemptor's own queue loses all its workloads."""
    for name in list(snapshot.cluster_queues):
        tree = snapshot.copy()
        own = tree.cluster_queues[name]
        candidates = candidates_in_order(tree, own)
        ordering = TargetClusterQueueOrdering(own, candidates)
        for queue in ordering.target_cluster_queues():
            assert queue is next_target(own.root or own, own, candidates)
            workload = ordering.pop_workload(queue)
            assert workload == next(each for each in candidates if tree.cluster_queue_of(each) is queue)
            candidates.remove(workload)
            tree.remove_workload(workload)
        assert next_target(own.root or own, own, candidates) is None


def test_all_candidates_of_a_queue_are_popped_in_their_order() -> None:
    tree = Snapshot([cpu_queue("own", 4), cpu_queue("a", 0), cpu_queue("b", 0)])
    for i in range(3):
        tree.add_workload(running_workload(f"w{i}", "a", CPU, 1, priority=i))
    tree.add_workload(running_workload("other", "b", CPU, 1))
    own, queue = tree.cluster_queues["own"], tree.cluster_queues["a"]
    ordering = TargetClusterQueueOrdering(own, candidates_in_order(tree, own))
    assert [workload.name for workload in ordering.pop_workloads(queue)] == ["w0", "w1", "w2"]
    assert not ordering.has_workload(queue)
    assert ordering.has_workload(tree.cluster_queues["b"])


@pytest.mark.parametrize(
    ("running", "order"),
    [
        ({"a": [1, 2], "b": [0, 3]}, "baab"),
        ({"a": [0, 3], "b": [1, 2]}, "abba"),
        ({"a": [5, 5], "b": [0]}, "aba"),
        ({"a": [0], "b": [5, 5]}, "bab"),
        ({"c": [5, 5], "d": [0]}, "cdc"),
        ({"c": [0], "d": [5, 5]}, "ddc"),
        ({"a": [0], "c": [5]}, "ca"),
        ({"a": [0, 0], "c": [5]}, "aca"),
    ],
)
def test_with_equal_shares_cohorts_are_first_then_the_first_candidates(
    running: dict[str, list[int]], order: str
) -> None:
    """Each workload has one CPU and its own priority. All queues borrow from the root, c and d in cohorts of their own.

    Of two such cohorts, the last one is first.
    """
    lent = (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(8)),))),)
    cohorts = [Cohort("root", "", lent), Cohort("left", "root"), Cohort("right", "root")]
    homes = {"own": "root", "a": "root", "b": "root", "c": "left", "d": "right"}
    tree = Snapshot([cpu_queue(name, 0, cohort=cohort) for name, cohort in homes.items()], cohorts)
    for name, priorities in running.items():
        for i, priority in enumerate(priorities):
            tree.add_workload(running_workload(f"{name}{i}", name, CPU, 1, priority))
    own = tree.cluster_queues["own"]
    ordering = TargetClusterQueueOrdering(own, candidates_in_order(tree, own))
    found = ""
    for queue in ordering.target_cluster_queues():
        found += queue.name
        tree.remove_workload(ordering.pop_workload(queue))
    assert found == order


def test_a_dropped_queue_is_not_yielded_again() -> None:
    """The tree may be a cohort or a single queue."""
    for cohort in ("c", ""):
        snapshot = Snapshot([cpu_queue("q", 1, cohort=cohort)])
        for name in ("first", "second"):
            snapshot.add_workload(running_workload(name, "q", CPU, 1))
        own = snapshot.cluster_queues["q"]
        ordering = TargetClusterQueueOrdering(own, candidates_in_order(snapshot, own))
        for queue in ordering.target_cluster_queues():
            assert ordering.pop_workload(queue).name == "first"
            ordering.drop_queue(queue)


def test_the_nodes_below_the_lowest_common_cohort() -> None:
    cohorts = [Cohort("root"), Cohort("left", "root"), Cohort("low", "left"), Cohort("right", "root")]
    homes = {"own": "low", "near": "low", "above": "left", "far": "right", "top": "root"}
    snapshot = Snapshot([cpu_queue(name, 1, cohort=cohort) for name, cohort in homes.items()], cohorts)
    ordering = TargetClusterQueueOrdering(snapshot.cluster_queues["own"], [])
    found = {name: ordering.almost_lcas(queue) for name, queue in snapshot.cluster_queues.items() if name != "own"}
    assert {name: (preemptor.name, target.name) for name, (preemptor, target) in found.items()} == {
        "near": ("own", "near"),
        "above": ("low", "above"),
        "far": ("left", "right"),
        "top": ("left", "top"),
    }

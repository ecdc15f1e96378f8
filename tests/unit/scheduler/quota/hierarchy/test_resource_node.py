"""The quota tree: usage, what is available and potential, limits, cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, running, snapshots, usage_from_scratch, usages
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot, fits

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode

CPU = FlavorResource("any", "cpu")


def cpus(nominal: int, borrowing: int | None = None, lending: int | None = None) -> tuple[ResourceGroup, ...]:
    return (resource_group(FlavorQuotas("any", (("cpu", ResourceQuota(nominal, borrowing, lending)),))),)


# --- properties


@given(snapshots())
def test_usage_is_as_from_scratch(snapshot: Snapshot) -> None:
    """However it came about, by adding and removing, usage is what the workloads that run make it."""
    nodes: list[ResourceNode] = [*snapshot.cluster_queues.values(), *snapshot.cohorts.values()]
    for workloads in list(snapshot.workloads_by_queue.values()):
        for one in list(workloads.values())[::2]:
            snapshot.remove_workload(one)
    for node in nodes:
        for key in KEYS:
            assert node.usage.get(key, 0) == usage_from_scratch(snapshot, node, key)


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 9))
def test_what_fits_stays_within_every_limit(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """Whatever is available can be used without a node above going beyond its quota, or beyond its borrowing limit."""
    for queue in snapshot.cluster_queues.values():
        if amount > queue.available(key):
            continue
        path: list[ResourceNode] = [queue, *queue.path_parent_to_root()]
        before = [node.usage.get(key, 0) for node in path]
        queue.add_amount(key, amount)
        for node, used in zip(path, before, strict=True):
            limit = node.quotas[key].borrowing_limit if key in node.quotas else None
            beyond = node.usage.get(key, 0) - node.subtree_quota.get(key, 0)
            more = node.usage.get(key, 0) > used and beyond > 0
            assert not (more and node.parent is None)
            assert not (more and limit is not None and beyond > limit)
        queue.remove_amount(key, amount)


@given(snapshots(), st.sampled_from(KEYS))
def test_nothing_more_is_available_than_could_ever_be(snapshot: Snapshot, key: FlavorResource) -> None:
    for queue in snapshot.cluster_queues.values():
        assert queue.available(key) <= queue.potential_available(key)


@given(snapshots(), st.sampled_from(KEYS), st.integers(1, 9))
def test_adding_takes_from_all_or_spares_them(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """More usage of a queue never makes more available to another; taking it back restores all."""
    before, ways = usages(snapshot), {one.name: one.available(key) for one in snapshot.cluster_queues.values()}
    for queue in snapshot.cluster_queues.values():
        queue.add_amount(key, amount)
        assert all(one.available(key) <= ways[one.name] for one in snapshot.cluster_queues.values())
        queue.remove_amount(key, amount)
        assert usages(snapshot) == before


@given(snapshots(), st.sampled_from(KEYS), st.integers(0, 20))
def test_height_of_what_has_room(snapshot: Snapshot, key: FlavorResource, amount: int) -> None:
    """A queue that need not borrow has height 0; one that must has its root's at most."""
    for queue in snapshot.cluster_queues.values():
        height, within = find_height_of_lowest_subtree_that_fits(queue, key, amount)
        root = queue.root
        if root is None:
            assert (height, within) == (0, False)
        else:
            assert (height == 0) == (not queue.borrowing_with(key, amount))
            assert height <= root.height


# --- examples


def test_quota_that_was_lowered_leaves_less_than_nothing() -> None:
    """Available is negative at a root that is used beyond its quota."""
    snapshot = Snapshot([ClusterQueue("q", cpus(2))])
    snapshot.add_workload(running("w", "q", CPU, 5))
    assert snapshot.cluster_queues["q"].available(CPU) == -3
    assert fits(snapshot.cluster_queues["q"], {CPU: 0})


def test_unlimited_quota_stays_unlimited() -> None:
    snapshot = Snapshot([ClusterQueue("q", cpus(UNLIMITED), "c"), ClusterQueue("p", cpus(1), "c")])
    snapshot.add_workload(running("w", "p", CPU, 1 << 40))
    assert snapshot.cluster_queues["p"].available(CPU) == UNLIMITED
    assert snapshot.cluster_queues["q"].potential_available(CPU) == UNLIMITED


def test_lent_by_a_cohort() -> None:
    """A cohort's limits hold for all below it together."""
    cohorts = [
        Cohort("root"),
        Cohort("left", "root", cpus(0, borrowing=3)),
        Cohort("right", "root", cpus(4, lending=1)),
    ]
    queues = [
        ClusterQueue("a", cpus(2), "left"),
        ClusterQueue("b", cpus(2), "left"),
        ClusterQueue("c", cpus(5), "right"),
    ]
    snapshot = Snapshot(queues, cohorts)
    assert snapshot.cohorts["root"].subtree_quota == {CPU: 2 + 2 + 1}
    assert snapshot.cluster_queues["a"].potential_available(CPU) == 5
    snapshot.add_workload(running("w", "b", CPU, 3))
    assert snapshot.cluster_queues["a"].available(CPU) == 2
    assert snapshot.cluster_queues["c"].available(CPU) == 8 + 2


def test_a_cycle_of_cohorts_admits_nothing() -> None:
    """Nor does what is below it; the others go on."""
    cohorts = [Cohort("a", "b"), Cohort("b", "a"), Cohort("below", "a"), Cohort("sound")]
    queues = [ClusterQueue(f"in-{name}", cpus(1), name) for name in ("a", "below", "sound")]
    snapshot = Snapshot(queues, cohorts)
    assert set(snapshot.inactive) == {"in-a", "in-below"}
    assert snapshot.cluster_queues["in-sound"].available(CPU) == 1


@pytest.mark.parametrize("stop", ["Hold", "HoldAndDrain"])
def test_a_queue_on_hold_lends_its_quota(stop: str) -> None:
    snapshot = Snapshot([ClusterQueue("held", cpus(3), "c", stop_policy=stop), ClusterQueue("q", cpus(1), "c")])  # type: ignore[arg-type]
    assert snapshot.inactive == {"held": f"stopPolicy is {stop}"}
    assert snapshot.cluster_queues["q"].available(CPU) == 4
    assert [one.name for one in snapshot.cohorts["c"].subtree_cluster_queues()] == ["q"]


def test_a_queue_with_a_missing_flavor_admits_nothing() -> None:
    queues = [ClusterQueue("q", cpus(3))]
    assert "any" in Snapshot(queues, resource_flavors=[]).inactive["q"]
    assert not Snapshot(queues, resource_flavors=[ResourceFlavor("any")]).inactive


def test_a_cohort_that_is_only_named_exists() -> None:
    snapshot = Snapshot([ClusterQueue("q", cpus(3), "c")], [Cohort("d", "e")])
    assert set(snapshot.cohorts) == {"c", "d", "e"}
    assert snapshot.cluster_queues["q"].root is snapshot.cohorts["c"]

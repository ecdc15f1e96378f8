"""Examples of the dominant resource share: what a queue borrows, divided by its weight."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given

from support.quota_strategies import CPU, cpu_queue, running_workload, snapshots
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.drs import DRS
from zonewise_scheduler.quota.hierarchy.fair_sharing import dominant_resource_share
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


def snapshot(weight: float, borrowed: int) -> Snapshot:
    """Return a snapshot in which queue q, with 2 CPUs and a weight, has borrowed CPUs of a cohort of 8."""
    queues = [cpu_queue("q", 2)._replace(fair_weight=weight), cpu_queue("other", 6)]
    result = Snapshot(queues)
    result.add_workload(running_workload("w", "q", CPU, 2 + borrowed))
    return result


@pytest.mark.parametrize(("weight", "share"), [(1.0, 500.0), (2.0, 250.0), (0.5, 1000.0)])
def test_a_share_is_divided_by_the_weight(weight: float, share: float) -> None:
    """Four of the cohort's eight CPUs are borrowed, which is 500 thousandths."""
    found = dominant_resource_share(snapshot(weight, 4).cluster_queues["q"])
    assert (found.precise_weighted_share, found.dominant_resource) == (share, "cpu")


@given(snapshots())
def test_shares_follow_the_usage(tree: Snapshot) -> None:
    """A share is that of a tree with the same workloads whose shares have never been computed."""
    workloads = [each for by_key in tree.workloads_by_queue.values() for each in by_key.values()]
    for change in (tree.remove_workload, tree.add_workload):
        for workload in workloads:
            change(workload)
            fresh = tree.copy()
            for node in (*fresh.cluster_queues.values(), *fresh.cohorts.values()):
                node.share = None
            for nodes, others in ((tree.cluster_queues, fresh.cluster_queues), (tree.cohorts, fresh.cohorts)):
                for name, node in nodes.items():
                    assert dominant_resource_share(node) == dominant_resource_share(others[name])


def test_a_queue_without_weight_has_an_infinite_share_once_it_borrows() -> None:
    borrower = dominant_resource_share(snapshot(0.0, 1).cluster_queues["q"])
    larger = dominant_resource_share(snapshot(0.0, 2).cluster_queues["q"])
    within = dominant_resource_share(snapshot(0.0, 0).cluster_queues["q"])
    assert borrower.precise_weighted_share == inf
    assert borrower.comparison_key < larger.comparison_key
    assert within.precise_weighted_share == 0
    assert within.comparison_key < borrower.comparison_key


def test_requests_count_even_if_nothing_is_in_use() -> None:
    """Of the 3 requested CPUs, 1 of the 8 that the cohort can lend is borrowed."""
    idle = snapshot(1.0, 0).cluster_queues["q"]
    idle.usage.clear()
    [key] = idle.subtree_quota
    assert dominant_resource_share(idle, {key: 3}).precise_weighted_share == 125
    assert dominant_resource_share(idle, {key: 2}).precise_weighted_share == 0


def test_the_resource_of_the_largest_ratio_dominates() -> None:
    """Amounts of a resource are summed over flavors; a resource that is not lent has no ratio."""
    names = ("old", "new")
    lent = resource_group(
        *(FlavorQuotas(name, (("cpu", ResourceQuota(4)), ("gpu", ResourceQuota(1)))) for name in names)
    )
    unlent = resource_group(FlavorQuotas("any", (("disk", ResourceQuota(0)),)))
    queues = [cpu_queue("q", 0), cpu_queue("lender", 0)]
    empty = resource_group(
        *(FlavorQuotas(name, (("cpu", ResourceQuota(0)), ("gpu", ResourceQuota(0)))) for name in names)
    )
    tree = Snapshot([queues[0]._replace(resource_groups=(empty, unlent)), queues[1]._replace(resource_groups=(lent,))])
    node = tree.cluster_queues["q"]
    for resource, name, amount in (("cpu", "old", 1), ("cpu", "new", 2), ("gpu", "old", 1), ("disk", "any", 5)):
        node.add_amount(FlavorResource(name, resource), amount)
    share = dominant_resource_share(node)
    assert (share.unweighted_ratio, share.dominant_resource) == (500.0, "gpu")
    assert len(share.borrowed_frs) == 4
    assert dominant_resource_share(node, {FlavorResource("new", "cpu"): 2}).dominant_resource == "cpu"
    assert dominant_resource_share(node, {FlavorResource("new", "cpu"): 1}).dominant_resource == "cpu"
    assert dominant_resource_share(node, {FlavorResource("new", "cpu"): 0}).dominant_resource == "gpu"


def test_usage_within_quota_is_not_borrowed() -> None:
    for borrowed in (-1, 0):
        assert dominant_resource_share(snapshot(1.0, borrowed).cluster_queues["q"]).borrowed_frs == ()
    assert dominant_resource_share(snapshot(1.0, 1).cluster_queues["q"]).borrowed_frs == (CPU,)


def test_a_share_reports_borrowing_of_resources_used_beyond_quota() -> None:
    share = DRS(1.0, borrowed_frs=(CPU,))
    assert share.is_borrowing_on({CPU: 1})
    assert not share.is_borrowing_on({CPU: 0})
    assert not share.is_borrowing_on({CPU: -1})
    assert not share.is_borrowing_on({})
    assert not DRS(1.0).is_borrowing_on({CPU: 1})


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
def test_without_weight_the_ratio_decides_among_infinite_shares(ratio: float) -> None:
    assert DRS(ratio, 0.0).comparison_key == (inf, ratio)
    assert DRS(0.0, 0.0).comparison_key == (0.0, 0.0)


@pytest.mark.parametrize(
    ("share", "precise", "rounded"),
    [
        (DRS(), 0.0, 0),
        (DRS(500.0), 500.0, 500),
        (DRS(1.0, 4.0), 0.25, 1),
        (DRS(5.0, 2.0), 2.5, 3),
        (DRS(1e-7), 1e-7, 1),
        (DRS(1e30), 1e30, UNLIMITED),
        (DRS(1.0, 0.0), inf, UNLIMITED),
        (DRS(0.0, 0.0), 0.0, 0),
    ],
)
def test_shares_in_statuses(share: DRS, precise: float, rounded: int) -> None:
    """A status has a whole number, rounded up."""
    assert share.precise_weighted_share == precise
    assert share.rounded_weighted_share == rounded


@pytest.mark.parametrize(
    ("lent", "borrowed", "ratio", "dominant"),
    [
        ((1, 9), (1, 0), 1000.0, "cpu"),
        ((2, 10_000), (1, 5_005), 500.5, "gpu"),
        ((2, 10_000), (1, 5_000), 500.0, "cpu"),
        ((2, 10_000), (1, 4_995), 500.0, "cpu"),
    ],
)
def test_the_ratio_is_exact(lent: tuple[int, int], borrowed: tuple[int, int], ratio: float, dominant: str) -> None:
    """The resources are CPUs and GPUs; if ratios are equal, the first name counts."""
    resources = ("cpu", "gpu")

    def quotas(amounts: tuple[int, int]) -> tuple[FlavorQuotas, ...]:
        named = tuple((name, ResourceQuota(amount)) for name, amount in zip(resources, amounts, strict=True))
        return (FlavorQuotas("any", named),)

    queues = [
        cpu_queue("q", 0)._replace(resource_groups=(resource_group(*quotas((0, 0))),)),
        cpu_queue("lender", 0)._replace(resource_groups=(resource_group(*quotas(lent)),)),
    ]
    node = Snapshot(queues).cluster_queues["q"]
    requests = {FlavorResource("any", name): amount for name, amount in zip(resources, borrowed, strict=True)}
    share = dominant_resource_share(node, requests)
    assert (share.unweighted_ratio, share.dominant_resource) == (ratio, dominant)

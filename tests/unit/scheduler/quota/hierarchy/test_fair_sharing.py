"""The dominant resource share by hand: what a queue borrows, divided by its weight."""

from __future__ import annotations

from math import inf

import pytest

from support.quota_strategies import CPU, cpu_queue, running_workload
from zonewise_scheduler.quota.hierarchy.fair_sharing import NEGATIVE_DRS, dominant_resource_share
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


def snapshot(weight: float, borrowed: int) -> Snapshot:
    """Queue q, of 2 CPUs and a weight, has borrowed CPUs of a cohort of 8."""
    queues = [cpu_queue("q", 2)._replace(fair_weight=weight), cpu_queue("other", 6)]
    result = Snapshot(queues)
    result.add_workload(running_workload("w", "q", CPU, 2 + borrowed))
    return result


@pytest.mark.parametrize(("weight", "share"), [(1.0, 500.0), (2.0, 250.0), (0.5, 1000.0)])
def test_a_share_is_divided_by_the_weight(weight: float, share: float) -> None:
    """Four of the cohort's eight CPUs are borrowed: 500 thousandths."""
    found = dominant_resource_share(snapshot(weight, 4).cluster_queues["q"])
    assert (found.precise_weighted_share, found.dominant_resource) == (share, "cpu")


def test_a_queue_without_weight_has_an_infinite_share_once_it_borrows() -> None:
    borrower = dominant_resource_share(snapshot(0.0, 1).cluster_queues["q"])
    larger = dominant_resource_share(snapshot(0.0, 2).cluster_queues["q"])
    within = dominant_resource_share(snapshot(0.0, 0).cluster_queues["q"])
    assert borrower.precise_weighted_share == inf
    assert borrower.comparison_key < larger.comparison_key
    assert within.precise_weighted_share == 0
    assert NEGATIVE_DRS.comparison_key < within.comparison_key < borrower.comparison_key


def test_requests_count_where_nothing_is_in_use() -> None:
    """Of 3 CPUs that are requested, 1 of the 8 that the cohort can lend is borrowed."""
    idle = snapshot(1.0, 0).cluster_queues["q"]
    idle.usage.clear()
    [key] = idle.subtree_quota
    assert dominant_resource_share(idle, {key: 3}).precise_weighted_share == 125
    assert dominant_resource_share(idle, {key: 2}).precise_weighted_share == 0

"""Queues and cohorts that declare only a few fields."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort, LocalQueue


def test_queues_and_cohorts_have_the_weight_1_by_default() -> None:
    weights = {each.fair_weight for each in (ClusterQueue("q"), Cohort("c"), LocalQueue("ns", "lq", "q"))}
    assert weights == {1.0}


def test_the_key_of_a_local_queue_has_its_namespace() -> None:
    assert LocalQueue("ns", "lq", "q").key == "ns/lq"


@pytest.mark.parametrize(
    ("within", "reclaim", "preempts"),
    [("Never", "Never", False), ("", "", False), ("LowerPriority", "Never", True), ("Never", "Any", True)],
)
def test_a_queue_preempts_if_either_policy_permits_it(within: Any, reclaim: Any, *, preempts: bool) -> None:
    """An empty policy counts as Never."""
    assert ClusterQueuePreemption(within, reclaim).preempts is preempts

"""The order of preemption candidates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quota_strategies import KEYS, pending_workload, running_workload
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.preemption.candidate_ordering import satisfies_preemption_policy, sort_candidates

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import PreemptionPolicy
    from zonewise_scheduler.quota.api.workload_types import Workload

WORKLOADS = [running_workload(f"w{i}", f"q{i % 2}", KEYS[0], 1, i % 3, i % 4) for i in range(8)]


@given(st.permutations(WORKLOADS))
def test_the_order_does_not_depend_on_the_input_order(workloads: list[Workload]) -> None:
    """Of other queues first, then of lower priority, then admitted later."""
    names = [workload.name for workload in sort_candidates(workloads, "q0", {})]
    assert names == ["w3", "w7", "w1", "w5", "w6", "w0", "w4", "w2"]


def test_more_usage_of_the_local_queue_comes_first() -> None:
    """Within one queue, before priority."""
    small, large = replace(WORKLOADS[0], queue_name="small"), replace(WORKLOADS[2], queue_name="large")
    assert sort_candidates([small, large], "q1", {"ns/small": 1.0, "ns/large": 2.0}) == [large, small]
    assert sort_candidates([small, large], "q1", {"ns/small": 1.0}) == [small, large]


def test_evicted_workloads_come_first() -> None:
    evicted = replace(WORKLOADS[2], eviction=Eviction("Preempted", 1.0))
    assert sort_candidates([*WORKLOADS, evicted], "q0", {})[0] is evicted


@pytest.mark.parametrize(
    ("policy", "priority", "submitted", "expected"),
    [
        ("LowerOrNewerEqualPriority", 1, 6.0, True),
        ("LowerOrNewerEqualPriority", 1, 5.0, False),  # of equal age
        ("LowerOrNewerEqualPriority", 1, 4.0, False),
        ("LowerOrNewerEqualPriority", 0, 4.0, True),
        ("LowerOrNewerEqualPriority", 2, 6.0, False),
        ("LowerPriority", 0, 4.0, True),
        ("LowerPriority", 1, 6.0, False),
        ("Any", 2, 4.0, True),
        ("Never", 0, 6.0, False),
    ],
)
def test_a_policy_names_the_candidates(
    policy: PreemptionPolicy, priority: int, submitted: float, *, expected: bool
) -> None:
    """The preemptor has priority 1, and was submitted at 5."""
    preemptor = pending_workload("preemptor", 1, priority=1, created=5.0)
    candidate = running_workload("candidate", "q", KEYS[0], 1, priority, submitted)
    assert satisfies_preemption_policy(policy, preemptor, candidate) == expected


@given(st.permutations(WORKLOADS))
def test_usage_of_other_local_queues_changes_no_order(workloads: list[Workload]) -> None:
    """The comparison of pairs, which usage needs, is the same order as that of keys."""
    assert sort_candidates(workloads, "q0", {"ns/other": 1.0}) == sort_candidates(workloads, "q0", {})

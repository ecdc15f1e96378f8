"""Workloads that preempt others, and workloads that are not permitted to."""

from __future__ import annotations

from dataclasses import replace

from support.planner_stories import make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction

PREEMPTING = queue("q", 10, preemption=ClusterQueuePreemption("LowerPriority"))


def test_a_preemptor_that_has_started_is_not_first_again() -> None:
    """It is first only until it starts (preemptorWorkload). After its eviction, the priority decides."""
    planner = make_planner([PREEMPTING], policy_named("greedy"))
    events.submit(planner, make_workload("victim", 6, 10_000), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("preemptor", 8, 10_000, at=1, priority=5), "q")
    assert [victim.workload.name for victim in schedule(planner, 1).victims] == ["victim"]
    events.finish(planner, "ns/victim")
    assert [workload.name for workload in schedule(planner, 2).admitted] == ["preemptor"]
    events.evict(planner, "ns/preemptor", Eviction("NodeFailures", 3.0))
    events.submit(planner, make_workload("urgent", 8, 10_000, at=3, priority=9), "q")
    assert [workload.name for workload in schedule(planner, 4).admitted] == ["urgent"]


def test_a_head_that_may_not_preempt_does_not_block_workloads_that_fit_behind_it() -> None:
    planner = make_planner([PREEMPTING], policy_named("greedy"))
    events.submit(planner, make_workload("runs", 6, 10_000), "q")
    schedule(planner, 0)
    gated = replace(make_workload("gated", 8, 10_000, at=1, priority=5), preemption_gated=True)
    events.submit(planner, gated, "q")
    events.submit(planner, make_workload("small", 2, 10_000, at=2), "q")
    plan = schedule(planner, 300)
    assert {key: decision.status for key, decision in plan.decisions.items()} == {
        "ns/gated": "gated",
        "ns/small": "admitted",
    }


def test_a_strict_queue_waits_for_a_head_that_may_not_preempt() -> None:
    planner = make_planner([PREEMPTING._replace(queueing_strategy="StrictFIFO")], policy_named("greedy"))
    events.submit(planner, make_workload("runs", 6, 10_000), "q")
    schedule(planner, 0)
    gated = replace(make_workload("gated", 8, 10_000, at=1, priority=5), preemption_gated=True)
    events.submit(planner, gated, "q")
    events.submit(planner, make_workload("small", 2, 10_000, at=2), "q")
    assert set(schedule(planner, 300).decisions) == {"ns/gated"}

"""Workloads that the live planner does not preempt: assumed ones, the youngest, and those that end soon."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.pass_state import MIN_RUN_TIME
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.workload_types import Workload

PREEMPTING = ClusterQueuePreemption(within_cluster_queue="LowerPriority")


def live_planner() -> PlannerState:
    """Return a planner whose admissions take effect once they are observed."""
    planner = make_planner([queue("q", 4, preemption=PREEMPTING)], BackfillPolicy(reserve_after=inf))
    planner.assumed = set()
    return planner


def submit(planner: PlannerState, name: str, priority: int = 0, *, at: float = 0.0, run: float = 1000.0) -> None:
    events.submit(planner, make_workload(name, 4, run, at=at, priority=priority), "q")


def test_a_workload_is_preempted_once_its_admission_is_observed_and_it_has_run_for_a_while() -> None:
    planner = live_planner()
    submit(planner, "low")
    assert [workload.key for workload in schedule(planner, 0).admitted] == ["ns/low"]
    submit(planner, "high", 9, at=1)
    assert not schedule(planner, 1).victims
    events.confirm(planner, "ns/low")
    plan = schedule(planner, 1.5)
    assert not plan.victims
    assert plan.wake_at == 2
    assert [victim.workload.key for victim in schedule(planner, plan.wake_at).victims] == ["ns/low"]


@pytest.mark.parametrize(("now", "preempted"), [(69.0, True), (70.0, False), (99.0, False)])
def test_a_workload_that_ends_sooner_than_a_preemption_takes_is_not_preempted(now: float, *, preempted: bool) -> None:
    """A preemption takes 30 s."""
    planner = live_planner()
    submit(planner, "low", run=100.0)
    schedule(planner, 0)
    events.confirm(planner, "ns/low")
    submit(planner, "high", 9, at=1)
    assert bool(schedule(planner, now).victims) == preempted
    submit(planner, "higher", 10, at=1)
    assert not schedule(planner, 99).victims


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0.1, 5.0), st.booleans()), min_size=1, max_size=15))
def test_no_victim_is_assumed_or_young_and_the_highest_priority_always_runs(
    steps: list[tuple[int, float, bool]],
) -> None:
    planner, now = live_planner(), 0.0
    started: dict[str, float] = {}
    confirmed: set[str] = set()
    for i, (priority, pause, observed) in enumerate(steps):
        now += pause
        submit(planner, f"w{i}", priority, at=now)
        plan = schedule(planner, now)
        started |= {workload.key: now for workload in plan.admitted}
        for victim in plan.victims:
            assert victim.workload.key in confirmed
            assert now >= started[victim.workload.key] + MIN_RUN_TIME
            events.finish(planner, victim.workload.key)
        if observed:
            confirmed |= planner.running.keys()
            for key in planner.running:
                events.confirm(planner, key)
    for key in list(planner.running):
        events.confirm(planner, key)
    highest = max(workload.priority for workload in _known(planner).values())
    for _ in range(len(steps) + 1):
        now = max(now, planner.wake_at if planner.wake_at < now + 100 else now)
        for victim in schedule(planner, now).victims:
            events.finish(planner, victim.workload.key)
    assert max(run.workload.priority for run in planner.running.values()) == highest


def _known(planner: PlannerState) -> dict[str, Workload]:
    pending = {key: workload for key in planner.pending if (workload := planner.pending_workload(key)) is not None}
    return pending | {key: run.workload for key, run in planner.running.items()}

"""Random jobs: reservations hold, and every policy follows its definition."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import PoolCase, late_filler_cases, pool_cases, starts, watch_reservations
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.pool.conservative import ConservativeBackfill
from zonewise_scheduler.backfill.pool.easy import EasyBackfill
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy, pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job
    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolReservation, PoolState

RESERVING = ["easy", "easy-sjbf", "shortest-reserving", "depth-1", "depth-2", "depth-3", "conservative"]
reserving = st.sampled_from(RESERVING)


@st.composite
def policies(draw: st.DrawFn) -> BackfillPolicy:
    """Draw a policy with at most one reservation, which may depend on age and walltime."""
    return BackfillPolicy(
        draw(st.sampled_from([0.0, 5.0, 20.0, inf])),
        draw(st.sampled_from([inf, 1.0])),
        draw(st.sampled_from([0.0, 1.0])),
        shortest_first=draw(st.booleans()),
        age_weight=draw(st.sampled_from([0.0, 0.5, 2.0])),
    )


@given(pool_cases(), reserving, st.sampled_from([0.0, 5.0, inf]))
def test_no_start_delays_a_reservation(case: PoolCase, name: str, reserve_after: float) -> None:
    """The jobs have one resource or two, priorities, and in some cases no walltime; every job starts in the end."""
    outcome, watcher = watch_reservations(case, pool_policy_named(name, reserve_after))
    assert len(outcome.starts) == len(case.tasks)
    for job, start in watcher.first_start.items():
        assert outcome.starts[job] <= start


@given(pool_cases(), policies())
def test_no_start_delays_a_reservation_that_comes_with_age(case: PoolCase, policy: BackfillPolicy) -> None:
    outcome, watcher = watch_reservations(case, pool_policy(policy))
    assert len(outcome.starts) == len(case.tasks)
    for job, start in watcher.first_start.items():
        assert outcome.starts[job] <= start


@pytest.mark.parametrize("name", RESERVING)
@given(case=late_filler_cases())
def test_late_fillers_of_one_decision_delay_no_reservation(name: str, case: PoolCase) -> None:
    """Each of them alone would end beside the reserved job, but not two together."""
    outcome, watcher = watch_reservations(case, pool_policy_named(name, 0.0))
    assert watcher.first_start[case.tasks[2].job] == 20
    assert outcome.starts[case.tasks[2].job] == 20


@given(pool_cases(declared=True))
def test_conservative_reserves_a_start_for_every_job_on_arrival(case: PoolCase) -> None:
    outcome, watcher = watch_reservations(case, ConservativeBackfill())
    for task in case.tasks:
        assert task.job in watcher.first_start or outcome.starts[task.job] == task.job.submitted


@given(pool_cases(), st.sampled_from(["fifo", "greedy"]))
def test_policies_without_reservations_start_every_job(case: PoolCase, name: str) -> None:
    outcome, watcher = watch_reservations(case, pool_policy_named(name))
    assert len(outcome.starts) == len(case.tasks)
    assert watcher.first_start == {}


@given(pool_cases(declared=True), policies())
def test_conservative_with_one_reservation_equals_easy(case: PoolCase, policy: BackfillPolicy) -> None:
    """Shadow time and extra amounts give the same starts as the profile."""
    one, other = EasyBackfill(policy), ConservativeBackfill(policy)
    assert starts(case.tasks, case.capacity, Thorough(one, eager=True)) == starts(case.tasks, case.capacity, other)


@given(pool_cases(), policies())
def test_jobs_that_did_not_fit_need_not_be_examined_again(case: PoolCase, rule: BackfillPolicy) -> None:
    """Examining only new jobs gives the same starts, as long as no amount becomes available."""
    policy = EasyBackfill(rule)
    assert starts(case.tasks, case.capacity, policy) == starts(case.tasks, case.capacity, Thorough(policy, eager=False))


@given(pool_cases(declared=True, priorities=False))
def test_conservative_equals_its_definition(case: PoolCase) -> None:
    """The definition is an implementation without a profile, which tries every start for every job."""
    assert starts(case.tasks, case.capacity, ConservativeBackfill()) == starts(case.tasks, case.capacity, Plain())


class Thorough:
    """A policy that examines all jobs at every decision."""

    def __init__(self, policy: PoolPolicy, *, eager: bool) -> None:
        self.policy = policy
        self.eager = eager

    def fork(self) -> Thorough:
        return Thorough(self.policy.fork(), eager=self.eager)

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        state.must_retry = True
        return self.policy.decide(now, state)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        return self.policy.reservations(now, state)


class Plain:
    """Literal conservative backfilling, for small sizes and times."""

    eager = True

    def __init__(self) -> None:
        self.reserved_starts: dict[Job, float] = {}

    def fork(self) -> Plain:
        other = Plain()
        other.reserved_starts = self.reserved_starts.copy()
        return other

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        if any(latest > now for _, latest in state.ended):
            for job in state.pending:
                if job in self.reserved_starts:
                    del self.reserved_starts[job]
                    self.reserved_starts[job] = self.first(job, now, state)
        for job in state.new_jobs:
            self.reserved_starts[job] = self.first(job, now, state)
        starts = [job for job in state.pending if self.reserved_starts[job] <= now]
        for job in starts:
            del self.reserved_starts[job]
        return PoolDecision(starts, None, min(self.reserved_starts.values(), default=inf))

    def first(self, job: Job, now: float, state: PoolState) -> float:
        """Return the first start at which a job fits in every second beside the running and reserved jobs."""
        used = [(now, latest, other.request) for latest, _, other in state.running]
        used += [(start, start + other.walltime, other.request) for other, start in self.reserved_starts.items()]
        start = now
        while not all(
            self.available(job, second, used, state) for second in range(int(start), int(start + job.walltime))
        ):
            start += 1
        return start

    def available(self, job: Job, second: int, used: list[tuple[float, float, int]], state: PoolState) -> bool:
        """Return whether a job fits in one second."""
        available = state.capacity - sum(demand for start, end, demand in used if start <= second < end)
        return (available - job.request) & job.guards == job.guards

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        return []

"""Whatever comes, promises are kept, and every policy does what its definition says."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.jobs import Case, cases, kept, starts
from zonewise_scheduler.queue.time.backfill import Backfill
from zonewise_scheduler.queue.time.policies import policy_named
from zonewise_scheduler.queue.time.state import Decision
from zonewise_scheduler.queue.time.timetable import Timetable

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.state import Job, Policy, Reservation, State

reserving = st.sampled_from(
    ["easy", "easy-sjbf", "shortest-reserving", "depth-1", "depth-2", "depth-3", "conservative"]
)


@given(cases(), reserving, st.sampled_from([0.0, 5.0, inf]))
def test_no_job_that_starts_delays_a_promise(case: Case, name: str, reserve_after: float) -> None:
    """With one resource or two, priorities, jobs that declare nothing; and all of them start in the end."""
    outcome, promises = kept(case, policy_named(name, reserve_after))
    assert len(outcome.starts) == len(case.tasks)
    for job, start in promises.first.items():
        assert outcome.starts[job] <= start


@given(cases(declared=True))
def test_conservative_promises_every_job_a_start_when_it_comes(case: Case) -> None:
    outcome, promises = kept(case, Timetable())
    for task in case.tasks:
        assert task.job in promises.first or outcome.starts[task.job] == task.job.submitted


@given(cases(), st.sampled_from(["fifo", "greedy"]))
def test_policies_that_promise_nothing_start_all_the_same(case: Case, name: str) -> None:
    outcome, promises = kept(case, policy_named(name))
    assert len(outcome.starts) == len(case.tasks)
    assert promises.first == {}


@given(cases(declared=True), st.booleans(), st.sampled_from([0.0, 5.0]))
def test_one_reservation_is_easy(case: Case, shortest: bool, reserve_after: float) -> None:
    """The shadow time and the extra room say the same as the profile does."""
    one = Backfill(reserve_after, shortest_first=shortest)
    other = Timetable(1, reserve_after, shortest_first=shortest)
    assert starts(case.tasks, case.capacity, Thorough(one, eager=True)) == starts(case.tasks, case.capacity, other)


@given(cases(), st.sampled_from([0.0, 5.0, inf]), st.booleans())
def test_jobs_that_were_refused_need_not_be_asked_again(case: Case, reserve_after: float, shortest: bool) -> None:
    """To look only at those that are new, while no room comes free, changes nothing."""
    policy = Backfill(reserve_after, shortest_first=shortest)
    assert starts(case.tasks, case.capacity, policy) == starts(case.tasks, case.capacity, Thorough(policy, eager=False))


@given(cases(declared=True, priorities=False))
def test_conservative_is_what_its_definition_says(case: Case) -> None:
    """Against one that keeps no profile: it tries every start for every job."""
    assert starts(case.tasks, case.capacity, Timetable()) == starts(case.tasks, case.capacity, Plain())


class Thorough:
    """Looks at all jobs every time."""

    overtaking = True

    def __init__(self, policy: Policy, *, eager: bool) -> None:
        self.policy = policy
        self.eager = eager

    def decide(self, now: float, state: State) -> Decision:
        state.stale = True
        return self.policy.decide(now, state)

    def reservations(self, now: float, state: State) -> list[Reservation]:
        return self.policy.reservations(now, state)

    def turn(self, now: float, state: State) -> list[Job]:
        return self.policy.turn(now, state)


class Plain:
    """Conservative backfilling, word by word; sizes and times are small."""

    eager, overtaking = True, True

    def __init__(self) -> None:
        self.promised: dict[Job, float] = {}

    def decide(self, now: float, state: State) -> Decision:
        if any(latest > now for _, latest in state.ended):
            for job in state.waiting:
                if job in self.promised:
                    del self.promised[job]
                    self.promised[job] = self.first(job, now, state)
        for job in state.fresh:
            self.promised[job] = self.first(job, now, state)
        starts = [job for job in state.waiting if self.promised[job] <= now]
        for job in starts:
            del self.promised[job]
        return Decision(starts, None, min(self.promised.values(), default=inf))

    def first(self, job: Job, now: float, state: State) -> float:
        """The first start at which there is room for it at every second, beside all that run or are promised."""
        taken = [(now, latest, other.demand) for latest, _, other in state.running]
        taken += [(start, start + other.limit, other.demand) for other, start in self.promised.items()]
        start = now
        while not all(self.room(job, second, taken, state) for second in range(int(start), int(start + job.limit))):
            start += 1
        return start

    def room(self, job: Job, second: int, taken: list[tuple[float, float, int]], state: State) -> bool:
        """Whether there is room for it in one second."""
        room = state.capacity - sum(demand for start, end, demand in taken if start <= second < end)
        return (room - job.demand) & job.guards == job.guards

    def reservations(self, now: float, state: State) -> list[Reservation]:
        return []

    def turn(self, now: float, state: State) -> list[Job]:
        return state.waiting

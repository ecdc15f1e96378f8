"""A scheduler that is started anew keeps what it promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.jobs import Case, cases, cpus, job, starts
from zonewise_scheduler.queue.time.kept import Kept, keep, restore
from zonewise_scheduler.queue.time.policies import policy_named
from zonewise_scheduler.queue.time.rules import DEFAULT
from zonewise_scheduler.queue.time.state import State

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.state import Decision, Job, Reservation

NAMES = ["fifo", "greedy", "easy", "easy-sjbf", DEFAULT, "depth-1", "depth-2", "conservative"]


class Restarted:
    """A policy with a state of its own, both of which are made anew after some decisions."""

    def __init__(self, case: Case, name: str, reserve_after: float, restarts: set[int]) -> None:
        self.new = lambda: policy_named(name, reserve_after)
        self.policy = self.new()
        self.overtaking, self.eager = self.policy.overtaking, self.policy.eager
        self.capacity = case.capacity
        self.own = State(case.capacity)
        self.restarts = restarts
        self.decisions = 0

    def decide(self, now: float, state: State) -> Decision:
        """Take note of what has happened, decide, let it happen, and start anew."""
        for one, _ in state.ended:
            self.own.end(one)
        for one in state.fresh:
            self.own.submit(one)
        decision = self.policy.decide(now, self.own)
        self.own.apply(decision, now)
        told = self.policy.reservations(now, self.own)
        self.decisions += 1
        if self.decisions in self.restarts:
            self.restart(now)
            assert self.policy.reservations(now, self.own) == told
        return decision

    def restart(self, now: float) -> None:
        kept = keep(self.policy, self.own)
        before, self.own = self.own, State(self.capacity)
        for one, (start, _) in before.runs.items():
            self.own.start(one, start)
        for one in before.waiting:
            self.own.submit(one)
        self.policy = self.new()
        restore(kept, self.policy, now, self.own)

    def reservations(self, now: float, state: State) -> list[Reservation]:
        return self.policy.reservations(now, self.own)

    def turn(self, now: float, state: State) -> list[Job]:
        return self.policy.turn(now, self.own)


@given(cases(), st.sampled_from(NAMES), st.sampled_from([0.0, 5.0]), st.sets(st.integers(1, 30)))
def test_a_restart_changes_no_decision(case: Case, name: str, reserve_after: float, restarts: set[int]) -> None:
    """Nor any promise; with jobs that declare nothing too, and as many restarts as there may be."""
    policy = Restarted(case, name, reserve_after, restarts)
    assert starts(case.tasks, case.capacity, policy) == starts(
        case.tasks, case.capacity, policy_named(name, reserve_after)
    )


def test_who_no_longer_waits_is_passed_over() -> None:
    """And a promise for which there is no room any more becomes as early as can be."""
    state = State(cpus(8))
    state.submit(job(1, 8, 10))
    state.submit(job(2, 5, 10))
    policy = policy_named("conservative")
    restore(Kept({"job-1": 5, "job-2": 7, "job-3": 1}), policy, 0, state)
    state.apply(policy.decide(0, state), 0)
    assert [(one.job.serial, one.start) for one in policy.reservations(0, state)] == [(2, 10)]
    holding = policy_named("easy")
    restore(Kept(holder="job-3"), holding, 0, state)
    assert state.holder is None

"""A scheduler that is started anew keeps what it promised."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.jobs import Case, cases, cpus, job
from zonewise_scheduler.queue.time.kept import Kept, keep, restore
from zonewise_scheduler.queue.time.policies import policy_named
from zonewise_scheduler.queue.time.rules import DEFAULT
from zonewise_scheduler.queue.time.state import State
from zonewise_scheduler.simulate.clock import simulate

if TYPE_CHECKING:
    from zonewise_scheduler.queue.time.state import Decision, Job, Policy

NAMES = ["fifo", "greedy", "easy", "easy-sjbf", DEFAULT, "depth-1", "depth-2", "conservative"]


class Twins:
    """Decides twice: once as ever, once by a scheduler that was started anew after the decision before."""

    def __init__(self, name: str, reserve_after: float, restarts: set[int]) -> None:
        self.name, self.reserve_after = name, reserve_after
        self.policy = self.new()
        self.restarts = restarts
        self.other: Policy | None = None
        self.state: State | None = None
        self.decisions = 0

    def new(self) -> Policy:
        return policy_named(self.name, self.reserve_after)

    def arrived(self, now: float, state: State, job: Job) -> None:
        if self.state is not None:
            self.state.submit(job)

    def decided(self, now: float, state: State, decision: Decision) -> None:
        """The same jobs start, in the same order, and the same is promised."""
        if self.state is not None and self.other is not None:
            for one in set(self.state.runs) - set(state.runs):
                self.state.end(one)
            again = self.other.decide(now, self.state)
            assert (list(again.starts), again.holder, again.wake) == (
                list(decision.starts), decision.holder, decision.wake,
            )  # fmt: skip
            self.state.apply(again, now)
        self.decisions += 1

    def ended(self, now: float, job: Job, run: float) -> None: ...


class Restarting:
    """A policy that is replaced before every decision whose number is given, with its state."""

    def __init__(self, name: str, reserve_after: float, restarts: set[int]) -> None:
        self.name, self.reserve_after, self.restarts = name, reserve_after, restarts
        self.policy = policy_named(name, reserve_after)
        self.overtaking, self.eager = self.policy.overtaking, self.policy.eager
        self.decisions = 0

    def decide(self, now: float, state: State) -> Decision: ...

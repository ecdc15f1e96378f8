"""The reservations of a pool survive a restart."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from support.pool_jobs import CPUS, PoolCase, cpus, job, pool_cases, starts, task
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_checkpoint import checkpoint_pool, pool_checkpoint, restore_pool
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolState

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolPolicy, PoolReservation

NAMES = ["fifo", "greedy", "easy", "easy-sjbf", DEFAULT_POLICY, "depth-1", "depth-2", "conservative"]

UNKNOWN_START = PoolCase(
    CPUS,
    cpus(8),
    [task(0, 3, inf, run=0), task(1, 6, 1, run=0), task(2, 3, 1), *(task(n, 0, 1, run=0) for n in range(3, 7))],
)
"""The start of the second job is unknown, so its reservation holds CPUs from now on."""


class Restarted:
    """A policy with a state of its own; both are restored from a checkpoint after the given decisions."""

    def __init__(self, case: PoolCase, name: str, reserve_after: float, restarts: set[int]) -> None:
        self.new = lambda: pool_policy_named(name, reserve_after)
        self.policy = self.new()
        self.eager = self.policy.eager
        self.capacity = case.capacity
        self.own = PoolState(case.capacity)
        self.restarts = restarts
        self.decisions = 0

    def fork(self) -> PoolPolicy:
        return self.policy.fork()

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Apply the events since the last decision, decide, apply the decision, and restart."""
        for one, _ in state.ended:
            self.own.end(one)
        for one in state.new_jobs:
            self.own.submit(one)
        decision = self.policy.decide(now, self.own)
        self.own.apply(decision, now)
        reservations = self.policy.reservations(now, self.own)
        self.decisions += 1
        if self.decisions in self.restarts:
            self.restart(now)
            assert self.policy.reservations(now, self.own) == reservations
        return decision

    def restart(self, now: float) -> None:
        checkpoint = checkpoint_pool(self.policy, self.own)
        before, self.own = self.own, PoolState(self.capacity)
        for one, (start, _) in before.run_spans.items():
            self.own.start(one, start)
        for one in before.pending:
            self.own.submit(one)
        self.policy = self.new()
        restore_pool(checkpoint, self.policy, now, self.own)

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        return self.policy.reservations(now, self.own)


@given(pool_cases(), st.sampled_from(NAMES), st.sampled_from([0.0, 5.0]), st.sets(st.integers(1, 30)))
@example(UNKNOWN_START, "depth-1", 0.0, {2})
def test_a_restart_changes_no_decision(case: PoolCase, name: str, reserve_after: float, restarts: set[int]) -> None:
    """A restart changes no reservation either, even with jobs without a walltime and after any number of restarts."""
    policy = Restarted(case, name, reserve_after, restarts)
    assert starts(case.tasks, case.capacity, policy) == starts(
        case.tasks, case.capacity, pool_policy_named(name, reserve_after)
    )


def test_a_job_that_is_not_pending_is_skipped() -> None:
    """A reservation that no longer fits moves to the earliest possible start."""
    state = PoolState(cpus(8))
    state.submit(job(1, 8, 10))
    state.submit(job(2, 5, 10))
    policy = pool_policy_named("conservative")
    restore_pool(pool_checkpoint({"job-1": 5, "job-2": 7, "job-3": 1}), policy, 0, state)
    state.apply(policy.decide(0, state), 0)
    assert [(reservation.job.serial, reservation.start) for reservation in policy.reservations(0, state)] == [(2, 10)]
    holding = pool_policy_named("easy")
    restore_pool(pool_checkpoint({"job-3": inf}), holding, 0, state)
    assert state.reserved_job is None


def test_an_unknown_start_is_stored_as_none() -> None:
    """Any float object may represent infinity; 0 is a valid start."""
    checkpoint = pool_checkpoint({"a": inf, "b": float("inf"), "c": 7.5, "d": 0.0})
    assert [(saved["workload"], saved["start"]) for saved in checkpoint["reservations"]] == [
        ("a", None),
        ("b", None),
        ("c", 7.5),
        ("d", 0.0),
    ]

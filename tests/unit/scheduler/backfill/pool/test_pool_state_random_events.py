"""Random events of a pool: jobs arrive, end and exceed walltimes, and timers fire late."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from support.pool_jobs import CPUS, cpus, job
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY
from zonewise_scheduler.backfill.pool.pool_policies import pool_policy_named
from zonewise_scheduler.backfill.pool.pool_state import PoolState

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job

NAMES = ["fifo", "greedy", "easy", "easy-sjbf", DEFAULT_POLICY, "depth-1", "depth-2", "conservative"]


class History(RuleBasedStateMachine):
    """Decisions exceed no available amount, reservations hold unless the unexpected happens, and every job starts."""

    @initialize(name=st.sampled_from(NAMES), reserve_after=st.sampled_from([0.0, 5.0]))
    def begin(self, name: str, reserve_after: float) -> None:
        self.now = 0.0
        self.serial = 0
        self.state = PoolState(cpus(8))
        self.policy = pool_policy_named(name, reserve_after)
        self.reserved_starts: dict[Job, float] = {}

    # --- events

    @rule(size=st.integers(0, 8), limit=st.sampled_from([1, 3, 10, inf]), priority=st.integers(0, 1))
    def a_job_arrives(self, size: int, limit: float, priority: int) -> None:
        self.serial += 1
        self.state.submit(job(self.serial, size, limit, self.now, priority=priority))
        self.decide()

    @rule(which=st.integers(0, 9))
    def a_job_ends(self, which: int) -> None:
        if self.state.running:
            self.state.end(self.state.running[which % len(self.state.running)][2])
            self.decide()

    @rule(seconds=st.sampled_from([1.0, 2.5, 7.0]))
    def time_passes(self, seconds: float) -> None:
        """End the jobs that are due one by one, except the last, which outlives its walltime."""
        until = self.now + seconds
        while len(self.state.running) > 1 and self.state.running[0][0] <= until:
            self.now = self.state.running[0][0]
            self.state.end(self.state.running[0][2])
            self.decide()
        self.now = until
        if self.state.running and self.state.running[0][0] <= until:
            self.state.extend_overrun(until)
            self.reserved_starts.clear()
        self.decide()

    # --- invariants

    def decide(self) -> None:
        state, now = self.state, self.now
        decision = self.policy.decide(now, state)
        assert len(set(decision.starts)) == len(decision.starts)
        assert set(decision.starts) <= set(state.pending)
        assert decision.wake_at > now
        state.apply(decision, now)
        assert CPUS.unpack_available(state.available)["cpu"] >= 0
        for one in self.policy.reservations(now, state):
            assert one.start <= self.reserved_starts.get(one.job, inf)
            self.reserved_starts[one.job] = one.start

    def teardown(self) -> None:
        """Every job must have started once all running jobs have ended repeatedly."""
        if not hasattr(self, "state"):
            return
        for _ in range(200):
            for _, _, one in list(self.state.running):
                self.state.end(one)
            self.now += 1000.0
            self.decide()
        assert self.state.pending == []


TestHistory = History.TestCase

"""Jobs of a pool: handmade and random, and a watcher of their reservations."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from support.pool_runs import PoolRun, run_pool
from zonewise_scheduler.backfill.pool.job import Job
from zonewise_scheduler.backfill.pool.packed_amounts import ResourcePacking
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision
from zonewise_scheduler.simulator.pool_simulation import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.pool.pool_state import PoolPolicy, PoolState

CPUS = ResourcePacking(("cpu",))
TWO = ResourcePacking(("cpu", "gpu"))
SIZE = 8
"""Amount of each resource on the machines below."""


def job(serial: int, cpus: int, limit: float = inf, submitted: float = 0, **fields: Any) -> Job:
    """Return a job that requests CPUs."""
    demand = CPUS.pack_request({"cpu": cpus})
    return Job(serial, demand.amount, demand.guards, submitted, limit, name=f"job-{serial}", **fields)


def task(serial: int, cpus: int, limit: float, submitted: float = 0, run: float | None = None, **fields: Any) -> Task:
    """Return a job that requests CPUs and runs for its walltime, or for `run`."""
    return Task(job(serial, cpus, limit, submitted, **fields), limit if run is None else run)


def cpus(free: int) -> int:
    """Return packed available CPUs."""
    return CPUS.pack_available({"cpu": free})


def start_job(state: PoolState, one: Job, now: float) -> None:
    """Let a job run from now on; the next decision is as the first one of a policy."""
    state.submit(one)
    state.apply(PoolDecision((one,)), now)
    state.must_rebuild = state.must_retry = True


class PoolCase(NamedTuple):
    """A machine and its jobs."""

    packing: ResourcePacking
    capacity: int
    tasks: list[Task]


@st.composite
def pool_cases(draw: st.DrawFn, *, declared: bool = False, priorities: bool = True, most: int = 14) -> PoolCase:
    """Draw small machines of one or two resources with many simultaneous events; walltimes are upper bounds."""
    packing = draw(st.sampled_from([CPUS, TWO]))
    whole = packing.pack_available(dict.fromkeys(packing.names, SIZE))
    tasks: list[Task] = []
    now = 0
    for serial in range(draw(st.integers(1, most))):
        now += draw(st.integers(0, 4))
        sizes = {name: draw(st.integers(0, SIZE)) for name in packing.names}
        demand = packing.pack_request(sizes)
        run = draw(st.integers(0, 12))
        unused: float = draw(st.sampled_from([0.0, 0.0, 1.0, 3.0, 10.0] + [inf] * (not declared)))
        limit = max(run + unused, 1)
        priority = draw(st.integers(0, 2)) if priorities else 0
        tasks.append(Task(Job(serial, demand.amount, demand.guards, now, limit, priority, f"job-{serial}"), run))
    return PoolCase(packing, whole, tasks)


@st.composite
def late_filler_cases(draw: st.DrawFn) -> PoolCase:
    """Draw cases in which several fillers fit when a job ends, but only one can run past the reserved start."""
    long = draw(st.integers(2, SIZE - 2))
    rest = SIZE - long
    extra = draw(st.integers(1, min(long - 1, rest // 2)))
    fillers = draw(st.lists(st.integers(extra // 2 + 1, extra), min_size=2, max_size=4))
    tasks = [task(0, long, 20), task(1, rest, draw(st.integers(1, 9))), task(2, SIZE - extra, 5)]
    tasks += [task(3 + index, size, draw(st.integers(20, 40))) for index, size in enumerate(fillers)]
    return PoolCase(CPUS, cpus(SIZE), tasks)


class ReservationWatcher:
    """Checks at every decision that no reservation moves to a later start and that nothing is overcommitted."""

    def __init__(self, policy: PoolPolicy, packing: ResourcePacking) -> None:
        self.policy = policy
        self.packing = packing
        self.first_start: dict[Job, float] = {}
        self.last_start: dict[Job, float] = {}

    def arrived(self, now: float, state: PoolState, job: Job) -> None:
        """Do nothing: arrivals make no reservations."""

    def decided(self, now: float, state: PoolState, decision: PoolDecision) -> None:
        """Check that reservations never move to a later start, and that jobs start by their reserved start and fit."""
        available = state.available
        for one in decision.starts:
            assert now <= self.last_start.get(one, inf)
            available -= one.request
        assert min(self.packing.unpack_available(available).values()) >= 0
        for one in self.policy.reservations(now, state):
            assert one.start <= self.last_start.get(one.job, inf), f"{one.job.name} had an earlier reserved start"
            self.first_start.setdefault(one.job, one.start)
            self.last_start[one.job] = one.start

    def ended(self, now: float, job: Job, run: float) -> None:
        """Do nothing: ends violate no reservation."""


def starts(tasks: Sequence[Task], capacity: int, policy: PoolPolicy) -> list[float]:
    """Return the start of each job, in the given order."""
    outcome = run_pool(tasks, capacity, policy)
    return [outcome.starts[task_.job] for task_ in tasks]


def watch_reservations(case: PoolCase, policy: PoolPolicy) -> tuple[PoolRun, ReservationWatcher]:
    """Run a case with a ReservationWatcher."""
    watcher = ReservationWatcher(policy, case.packing)
    return run_pool(case.tasks, case.capacity, policy, watcher), watcher

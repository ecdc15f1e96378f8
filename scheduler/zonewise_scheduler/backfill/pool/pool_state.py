"""The state of a pool, which events change: pending jobs, running jobs and available amounts.

Times are seconds of any one clock. Available amounts are packed (packed_amounts.py).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.backfill.policies import extended_deadline
from zonewise_scheduler.backfill.pool.job import Job, queue_order
from zonewise_scheduler.backfill.pool.pending_order import PendingOrder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy

_REBUILD_STARTS = 8
"""If more jobs start at once, the list of pending jobs is rebuilt, since each removal searches the list."""


class PoolDecision(NamedTuple):
    """The actions to take now."""

    starts: Sequence[Job] = ()
    """Jobs that start, in the order in which they use what is available."""
    reserved_job: Job | None = None
    """Job that keeps the only reservation until it starts, under policies that make one at a time."""
    wake_at: float = inf
    """Time of the next decision if no event comes first: the next reserved start."""


class PoolReservation(NamedTuple):
    """A start held for a pending job."""

    job: Job
    start: float
    """The job starts at this time or earlier if running jobs end within their walltimes; infinite if some declare
    none."""


class PoolPolicy(Protocol):
    """Decides which pending jobs start."""

    @property
    def eager(self) -> bool:
        """Whether the arrival of a job that does not fit needs a decision at once, to make its reservation."""
        ...

    def fork(self) -> PoolPolicy:
        """Return a copy of the policy, with the same knowledge, for a copy of the state."""
        ...

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return the jobs that start now. PoolState.apply changes the state, not this method."""
        ...

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        """Return the reservations as of the last decision."""
        ...


class PoolState:
    """Pending jobs in the order of the queue, running jobs by deadline, and available amounts.

    The state records changes between two decisions, so that a decision considers only jobs whose outcome may differ.
    For example, a job that did not fit is not tried again until something becomes available.
    """

    __slots__ = (
        "_order", "_unordered", "available", "capacity", "ended", "must_rebuild", "must_retry", "new_jobs", "pending",
        "reserved_job", "run_spans", "running",
    )  # fmt: skip

    def __init__(self, capacity: int) -> None:
        self.capacity = self.available = capacity
        """The amounts of the whole pool, and those available now; packed."""
        self.pending: list[Job] = []
        """Pending jobs, sorted by queue_order."""
        self.running: list[tuple[float, int, Job]] = []
        """Deadline, serial, job; ascending."""
        self.run_spans: dict[Job, tuple[float, float]] = {}
        """Start and deadline of each running job."""
        self.reserved_job: Job | None = None
        """The reserved job of the last decision (PoolDecision.reserved_job)."""
        self.new_jobs: list[Job] = []
        """Pending jobs that arrived after the last decision."""
        self.ended: list[tuple[Job, float]] = []
        """Jobs that have ended since the last decision, with their deadlines."""
        self.must_rebuild = True
        """Whether a job has overrun its walltime since the last decision, or there was no decision yet."""
        self.must_retry = True
        """Whether jobs that did not fit may fit now."""
        self._order: PendingOrder | None = None
        """The pending jobs except those of `_unordered`; None until a policy needs them."""
        self._unordered: list[Job] = []

    def pending_order(self, policy: BackfillPolicy) -> PendingOrder:
        """Return the pending jobs in the orders that a policy needs."""
        if self._order is None or self._order.policy != policy:
            self._order = PendingOrder(policy, self.pending)
        else:
            for job in self._unordered:
                self._order.add(job)
        self._unordered = []
        return self._order

    def copy(self) -> PoolState:
        """Return an independent copy; the jobs are the same."""
        other = PoolState(self.capacity)
        other.available = self.available
        other.pending, other.running, other.run_spans = self.pending[:], self.running[:], self.run_spans.copy()
        other.reserved_job = self.reserved_job
        other.new_jobs, other.ended = self.new_jobs[:], self.ended[:]
        other.must_rebuild, other.must_retry = self.must_rebuild, self.must_retry
        other._order, other._unordered = None if self._order is None else self._order.copy(), self._unordered[:]
        return other

    def submit(self, job: Job) -> None:
        """Add a pending job; it must fit into the empty pool."""
        insort(self.pending, job, key=queue_order)
        self.new_jobs.append(job)
        if self._order is not None:
            self._unordered.append(job)

    def end(self, job: Job) -> None:
        """Remove a running job, at its deadline or earlier; raise KeyError if it is not running."""
        _, deadline = self.run_spans.pop(job)
        del self.running[bisect_left(self.running, (deadline, job.serial))]
        self.available += job.request
        self.ended.append((job, deadline))
        self.must_retry = True

    def extend_overrun(self, now: float) -> None:
        """Extend the deadlines that have passed."""
        while self.running and self.running[0][0] <= now:
            _, serial, job = self.running.pop(0)
            started_at, _ = self.run_spans[job]
            deadline = extended_deadline(started_at, job.walltime, now)
            insort(self.running, (deadline, serial, job))
            self.run_spans[job] = (started_at, deadline)
            self.must_rebuild = self.must_retry = True

    def fits_capacity(self, job: Job) -> bool:
        """Return whether a job fits into the empty pool."""
        return (self.capacity - job.request) & job.guards == job.guards

    def fits_available(self, job: Job) -> bool:
        """Return whether a job fits into what is available now."""
        return (self.available - job.request) & job.guards == job.guards

    def apply(self, decision: PoolDecision, now: float) -> None:
        """Start the jobs of a decision, and reset the recorded changes."""
        starts = decision.starts
        if len(starts) > _REBUILD_STARTS:
            started = set(starts)
            self.pending = [job for job in self.pending if job not in started]
        else:
            for job in starts:
                self.pending.remove(job)
        self._remove_from_order(starts)
        for job in starts:
            deadline = now + job.walltime
            self.available -= job.request
            insort(self.running, (deadline, job.serial, job))
            self.run_spans[job] = (now, deadline)
        self.reserved_job = decision.reserved_job
        self.must_retry = self.must_rebuild = False
        if self.new_jobs:
            self.new_jobs = []
        if self.ended:
            self.ended = []

    def _remove_from_order(self, jobs: Iterable[Job]) -> None:
        if self._order is None:
            return
        for job in jobs:
            if job in self._unordered:
                self._unordered.remove(job)
            else:
                self._order.remove(job)

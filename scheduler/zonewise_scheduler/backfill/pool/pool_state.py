"""What waits, what runs and what is free: all that a decision is made from, kept up event by event.

The live scheduler and the simulator call the same verbs; times are seconds of any one clock, passed in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

OVERRUN_EXTENSION = 60.0
"""Seconds that a job which outlives its declared run time is given, again and again; Slurm's bf_resolution
(slurm.conf.5; src/plugins/sched/backfill/backfill.c)."""
_MANY = 8
"""With so many starts at once the queue is written anew rather than searched for each."""


@dataclass(slots=True, eq=False)
class Job:
    """A job that waits or runs; two with equal fields are two jobs."""

    serial: int
    """In the order in which jobs came to be known; decides between equals."""
    request: int
    """Amounts.Demand.amount."""
    guards: int
    """Amounts.Demand.guards."""
    submitted: float
    walltime: float = inf
    """Declared run time in seconds, an upper bound, more than zero; infinite where none is declared."""
    priority: int = 0
    name: str = ""
    history_keys: tuple[Hashable, ...] = ()
    """Whose run times its own is likely to resemble, from the widest circle in: (user, queue, template)."""


class PoolDecision(NamedTuple):
    """What is to happen now."""

    starts: Sequence[Job] = ()
    """In the order in which room is taken."""
    reserved_job: Job | None = None
    """Whom the one reservation is promised to (policies that give one at a time); it stays so until it starts."""
    wake_at: float = inf
    """When to decide again, should nothing happen before: the next reservation begins then."""


class PoolReservation(NamedTuple):
    """A start that is promised to a waiting job."""

    job: Job
    start: float
    """It starts then or earlier, if all that run end by their latest ends; infinite where nobody declared those."""
    waits_for: tuple[Job, ...] = ()
    """What must end for it: those, running or promised an earlier start, whose latest ends are at that time; where
    it is infinite, those that declare no run time."""


class PoolPolicy(Protocol):
    """Which of the waiting jobs start now."""

    @property
    def overtaking(self) -> bool:
        """Whether a job may start before one that comes first but does not fit."""
        ...

    @property
    def eager(self) -> bool:
        """Whether a job that comes and does not fit is decided on at once, since it is to be promised a start."""
        ...

    def decide(self, now: float, state: PoolState) -> PoolDecision:
        """Return what starts now; the state is not changed (State.apply does)."""
        ...

    def reservations(self, now: float, state: PoolState) -> list[PoolReservation]:
        """Return what is promised, as of the last decision."""
        ...

    def trial_order(self, now: float, state: PoolState) -> list[Job]:
        """Return the waiting jobs in the order in which they would be tried."""
        ...


class PoolState:
    """Waiting jobs in the order of the queue, running ones by their latest end, and what is free.

    Between two decisions it notes what has changed, so that a decision need look at no more than can come out
    otherwise than the last time: a job that was refused stays refused until room comes free.
    """

    __slots__ = (
        "available", "capacity", "ended", "must_rebuild", "must_retry", "new_jobs", "pending", "reserved_job", "run_spans", "running", "withdrawn",
    )  # fmt: skip

    def __init__(self, capacity: int) -> None:
        self.capacity = self.available = capacity
        """All there is, and what is free of it now (Columns.room)."""
        self.pending: list[Job] = []
        """By priority, time of submission, serial."""
        self.running: list[tuple[float, int, Job]] = []
        """Latest end, serial, job; ascending."""
        self.run_spans: dict[Job, tuple[float, float]] = {}
        """Start and latest end of each running job."""
        self.reserved_job: Job | None = None
        """Whom the last decision promised the one reservation (Decision.holder)."""
        self.new_jobs: list[Job] = []
        """Waiting jobs that no decision has seen."""
        self.ended: list[tuple[Job, float]] = []
        """Jobs that have ended since the last decision, with the latest end that was expected of them."""
        self.withdrawn: list[Job] = []
        """Jobs that were withdrawn since."""
        self.must_rebuild = True
        """Whether something was not to be expected: a job outlived its run time or came from elsewhere, or capacity
        changed."""
        self.must_retry = True
        """Whether jobs refused before may start now."""

    def submit(self, job: Job) -> None:
        """Let a job wait."""
        waiting = self.pending
        if not waiting or queue_order(waiting[-1]) < queue_order(job):
            waiting.append(job)
        else:
            insort(waiting, job, key=queue_order)
        self.new_jobs.append(job)

    def withdraw(self, job: Job) -> None:
        """Let a waiting job leave; raise ValueError if it does not wait."""
        self.pending.remove(job)
        if job in self.new_jobs:
            self.new_jobs.remove(job)
        if self.reserved_job is job:
            self.reserved_job = None
        self.withdrawn.append(job)
        self.must_retry = True

    def start(self, job: Job, now: float) -> None:
        """Take note that a job runs which no decision started, whatever room there is."""
        self._run(job, now)
        self.must_rebuild = True

    def _run(self, job: Job, now: float) -> None:
        self.available -= job.request
        latest = now + job.walltime
        insort(self.running, (latest, job.serial, job))
        self.run_spans[job] = (now, latest)

    def end(self, job: Job) -> None:
        """Take note that a job has ended, early or at its latest end; raise KeyError if it does not run."""
        _, latest = self.run_spans.pop(job)
        del self.running[bisect_left(self.running, (latest, job.serial))]
        self.available += job.request
        self.ended.append((job, latest))
        self.must_retry = True

    def extend_overrun(self, now: float) -> None:
        """Expect jobs that have outlived their declared run times to run for another while."""
        while self.running and self.running[0][0] <= now:
            _, serial, job = self.running.pop(0)
            insort(self.running, (now + OVERRUN_EXTENSION, serial, job))
            self.run_spans[job] = (self.run_spans[job][0], now + OVERRUN_EXTENSION)
            self.must_rebuild = self.must_retry = True

    def set_capacity(self, capacity: int) -> None:
        """Take note of all there is after nodes or quotas came or went (Columns.room)."""
        self.available += capacity - self.capacity
        self.capacity = capacity
        self.must_rebuild = self.must_retry = True
        if self.reserved_job is not None and not self.fits_capacity(self.reserved_job):
            self.reserved_job = None

    def fits_capacity(self, job: Job) -> bool:
        """Say whether a job fits when nothing else runs."""
        return (self.capacity - job.request) & job.guards == job.guards

    def apply(self, decision: PoolDecision, now: float) -> None:
        """Start what is to start, and note that all has been looked at."""
        starts = decision.starts
        if len(starts) > _MANY:
            gone = set(starts)
            self.pending = [job for job in self.pending if job not in gone]
        else:
            for job in starts:
                self.pending.remove(job)
        for job in starts:
            self._run(job, now)
        self.reserved_job = decision.reserved_job
        self.must_retry = self.must_rebuild = False
        if self.new_jobs:
            self.new_jobs = []
        if self.ended:
            self.ended = []
        if self.withdrawn:
            self.withdrawn = []


def queue_order(job: Job) -> tuple[int, float, int]:
    """Return the place of a job in the queue."""
    return (-job.priority, job.submitted, job.serial)

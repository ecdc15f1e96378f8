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

OVERRUN = 60.0
"""Seconds that a job which outlives its declared run time is given, again and again; Slurm's bf_resolution
(slurm.conf.5; src/plugins/sched/backfill/backfill.c)."""
_MANY = 8
"""With so many starts at once the queue is written anew rather than searched for each."""


@dataclass(slots=True, eq=False)
class Job:
    """A job that waits or runs; two with equal fields are two jobs."""

    serial: int
    """In the order in which jobs came to be known; decides between equals."""
    demand: int
    """Amounts.Demand.amount."""
    guards: int
    """Amounts.Demand.guards."""
    submitted: float
    limit: float = inf
    """Declared run time in seconds, an upper bound, more than zero; infinite where none is declared."""
    priority: int = 0
    name: str = ""
    kin: tuple[Hashable, ...] = ()
    """Whose run times its own is likely to resemble, from the widest circle in: (user, queue, template)."""


class Decision(NamedTuple):
    """What is to happen now."""

    starts: Sequence[Job] = ()
    """In the order in which room is taken."""
    holder: Job | None = None
    """Whom the one reservation is promised to (policies that give one at a time); it stays so until it starts."""
    wake: float = inf
    """When to decide again, should nothing happen before: the next reservation begins then."""


class Reservation(NamedTuple):
    """A start that is promised to a waiting job."""

    job: Job
    start: float
    """It starts then or earlier, if all that run end by their latest ends; infinite where nobody declared those."""
    after: tuple[Job, ...] = ()
    """What must end for it: those, running or promised an earlier start, whose latest ends are at that time; where
    it is infinite, those that declare no run time."""


class Policy(Protocol):
    """Which of the waiting jobs start now."""

    @property
    def overtaking(self) -> bool:
        """Whether a job may start before one that comes first but does not fit."""
        ...

    @property
    def eager(self) -> bool:
        """Whether a job that comes and does not fit is decided on at once, since it is to be promised a start."""
        ...

    def decide(self, now: float, state: State) -> Decision:
        """Return what starts now; the state is not changed (State.apply does)."""
        ...

    def reservations(self, now: float, state: State) -> list[Reservation]:
        """Return what is promised, as of the last decision."""
        ...

    def turn(self, now: float, state: State) -> list[Job]:
        """Return the waiting jobs in the order in which they would be tried."""
        ...


class State:
    """Waiting jobs in the order of the queue, running ones by their latest end, and what is free.

    Between two decisions it notes what has changed, so that a decision need look at no more than can come out
    otherwise than the last time: a job that was refused stays refused until room comes free.
    """

    __slots__ = (
        "capacity", "disturbed", "ended", "fresh", "holder", "left", "room", "running", "runs", "stale", "waiting",
    )  # fmt: skip

    def __init__(self, capacity: int) -> None:
        self.capacity = self.room = capacity
        """All there is, and what is free of it now (Columns.room)."""
        self.waiting: list[Job] = []
        """By priority, time of submission, serial."""
        self.running: list[tuple[float, int, Job]] = []
        """Latest end, serial, job; ascending."""
        self.runs: dict[Job, tuple[float, float]] = {}
        """Start and latest end of each running job."""
        self.holder: Job | None = None
        """Whom the last decision promised the one reservation (Decision.holder)."""
        self.fresh: list[Job] = []
        """Waiting jobs that no decision has seen."""
        self.ended: list[tuple[Job, float]] = []
        """Jobs that have ended since the last decision, with the latest end that was expected of them."""
        self.left: list[Job] = []
        """Jobs that were withdrawn since."""
        self.disturbed = True
        """Whether something was not to be expected: a job outlived its run time or came from elsewhere, or capacity
        changed."""
        self.stale = True
        """Whether jobs refused before may start now."""

    def submit(self, job: Job) -> None:
        """Let a job wait."""
        waiting = self.waiting
        if not waiting or order(waiting[-1]) < order(job):
            waiting.append(job)
        else:
            insort(waiting, job, key=order)
        self.fresh.append(job)

    def withdraw(self, job: Job) -> None:
        """Let a waiting job leave; raise ValueError if it does not wait."""
        self.waiting.remove(job)
        if job in self.fresh:
            self.fresh.remove(job)
        if self.holder is job:
            self.holder = None
        self.left.append(job)
        self.stale = True

    def start(self, job: Job, now: float) -> None:
        """Take note that a job runs which no decision started, whatever room there is."""
        self._run(job, now)
        self.disturbed = True

    def _run(self, job: Job, now: float) -> None:
        self.room -= job.demand
        latest = now + job.limit
        insort(self.running, (latest, job.serial, job))
        self.runs[job] = (now, latest)

    def end(self, job: Job) -> None:
        """Take note that a job has ended, early or at its latest end; raise KeyError if it does not run."""
        _, latest = self.runs.pop(job)
        del self.running[bisect_left(self.running, (latest, job.serial))]
        self.room += job.demand
        self.ended.append((job, latest))
        self.stale = True

    def overrun(self, now: float) -> None:
        """Expect jobs that have outlived their declared run times to run for another while."""
        while self.running and self.running[0][0] <= now:
            _, serial, job = self.running.pop(0)
            insort(self.running, (now + OVERRUN, serial, job))
            self.runs[job] = (self.runs[job][0], now + OVERRUN)
            self.disturbed = self.stale = True

    def resize(self, capacity: int) -> None:
        """Take note of all there is after nodes or quotas came or went (Columns.room)."""
        self.room += capacity - self.capacity
        self.capacity = capacity
        self.disturbed = self.stale = True
        if self.holder is not None and not self.possible(self.holder):
            self.holder = None

    def possible(self, job: Job) -> bool:
        """Say whether a job fits when nothing else runs."""
        return (self.capacity - job.demand) & job.guards == job.guards

    def apply(self, decision: Decision, now: float) -> None:
        """Start what is to start, and note that all has been looked at."""
        starts = decision.starts
        if len(starts) > _MANY:
            gone = set(starts)
            self.waiting = [job for job in self.waiting if job not in gone]
        else:
            for job in starts:
                self.waiting.remove(job)
        for job in starts:
            self._run(job, now)
        self.holder = decision.holder
        self.stale = self.disturbed = False
        if self.fresh:
            self.fresh = []
        if self.ended:
            self.ended = []
        if self.left:
            self.left = []


def order(job: Job) -> tuple[int, float, int]:
    """Return the place of a job in the queue."""
    return (-job.priority, job.submitted, job.serial)

"""What happened in a simulation, job by job: all that summaries and plots are made from, whatever was simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

JobOutcome = Literal["done", "failed", "refused", "waiting"]
"""failed: it ran to its declared limit and was not done, or was given up; refused: it fits nowhere, ever; waiting: the
simulation ended before it started."""


class JobRun(NamedTuple):
    """From a start to an end, which may be none of the job's own."""

    start: float
    """When its quota and places are taken."""
    end: float
    ready: float
    """When all its pods run, from which on the work counts; the start where pods start at once."""
    whole: bool = True
    """The job was done with it, or failed; else it was preempted, and its work is lost."""


class JobHistory(NamedTuple):
    """One job; seconds."""

    name: str
    queue: str
    """The ClusterQueue; "" where there is only one pool."""
    kind: str
    """The class of jobs that it is of ("small"), or ""."""
    submitted: float
    limit: float
    """Declared run time; infinite: none."""
    amounts: Mapping[str, int]
    """What it takes in all while it runs: resource to milli-CPU, bytes, counts ("processors" in a log)."""
    pods: int
    priority: int
    outcome: JobOutcome
    runs: tuple[JobRun, ...] = ()
    """In order of time; only the last may be whole."""
    promised: tuple[float, float] | None = None
    """When it was first promised a start, and for when; None: never."""
    told: tuple[float, float, float] | None = None
    """What was foretold when it came: earliest, likely and latest start; None: nothing, or it did not wait."""
    why: str = ""
    """What stands in the way of one that has not run, or ""."""

    @property
    def started(self) -> float | None:
        """Return when the run began that it was done with; None where there is none."""
        return self.runs[-1].start if self.runs and self.runs[-1].whole else None

    @property
    def wait(self) -> float | None:
        """Return how long it waited for that."""
        return None if self.started is None else self.started - self.submitted


class History(NamedTuple):
    """A whole simulation."""

    jobs: list[JobHistory]
    """By time of submission."""
    capacity: Mapping[str, int]
    """Of each resource, in all, as the amounts of jobs; what is unlimited is left out."""
    decisions: int
    """How often was decided."""
    seconds: float
    """CPU time that all of it took, but for what is told of it afterwards."""

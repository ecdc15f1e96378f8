"""The history of a simulation, job by job: the source of all summaries and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

JobOutcome = Literal["done", "failed", "refused", "waiting"]
"""done: the job completed. failed: it was killed at its deadline. refused: it fits nowhere. waiting: it was pending
when the simulation ended. The names are values in the JSON document."""
OUTCOMES: tuple[JobOutcome, ...] = get_args(JobOutcome)
"""The outcomes, in the order of their numbers in JobColumns."""


class JobRun(NamedTuple):
    """One run of a job, from its start to its end, its preemption or its deadline."""

    start: float
    """Time at which the job is admitted."""
    end: float
    ready: float
    """Time at which all its pods are ready and the work begins; equals the start if pods start at once."""
    whole: bool = True
    """Whether the job ended with this run; otherwise, the run was preempted and its work is lost."""


class JobHistory(NamedTuple):
    """One job; times in seconds."""

    name: str
    queue: str
    """ClusterQueue; "" if there is only one pool."""
    kind: str
    """Class of the job, such as "small", or ""."""
    submitted: float
    walltime: float
    """Declared run time; infinite if none is declared."""
    amounts: Mapping[str, int]
    """Usage while it runs, by resource: milli-CPU, bytes, counts ("processors" in a log)."""
    pods: int
    priority: int
    outcome: JobOutcome
    runs: tuple[JobRun, ...] = ()
    """Runs in order of time; only the last may be whole."""
    reservation: tuple[float, float] | None = None
    """Time at which the first reservation with a known start was made, and that start; None if there never was one."""
    forecast: tuple[float, float, float] | None = None
    """Earliest, likely and latest start, as forecast at submission; None if there was no forecast."""
    explanation: str = ""
    """Why an unfinished job is pending, or ""."""

    @property
    def started(self) -> float | None:
        """Return the start of the completed run; None if there is none."""
        return self.runs[-1].start if self.runs and self.runs[-1].whole else None

    @property
    def wait(self) -> float | None:
        """Return the time from submission to the start of the completed run; None if there is none."""
        return None if self.started is None else self.started - self.submitted


class History(NamedTuple):
    """A whole simulation."""

    jobs: Sequence[JobHistory]
    """Jobs by time of submission."""
    capacity: Mapping[str, int]
    """Total of each resource, in the units of the amounts; unlimited resources are left out."""
    decisions: int
    """Number of decisions."""
    seconds: float
    """CPU time of the simulation, without its reports."""


class JobColumns(NamedTuple):
    """J jobs and R runs as arrays, in the order of the history; seconds."""

    submitted: Floats
    """J."""
    pods: Ints
    """J."""
    outcome: NDArray[np.int8]
    """J: index in OUTCOMES."""
    amounts: Sequence[Mapping[str, int]]
    """Distinct amounts; many jobs share the same ones."""
    amounts_row: Ints
    """J: index in `amounts`."""
    job: Ints
    """R: index of the job."""
    start: Floats
    """R."""
    end: Floats
    """R."""
    ready: Floats
    """R."""
    whole: Bools
    """R: whether the job ended with the run."""

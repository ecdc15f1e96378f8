"""Goals for waits, such as "p95 wait of queue gpu <= 1h".

    goal       = statistic "wait" [ "of" ( "queue" | "kind" | "resource" ) name ] "<=" duration
    statistic  = "mean" | "longest" | "p" percent

`p95 wait` is the shortest time within which at least 95 % of the jobs start. It is an order statistic instead of an
interpolation, so a goal states exactly how many jobs must meet it. A job that never starts has an infinite wait.
"""

from __future__ import annotations

import re
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.phrases import first_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zonewise_scheduler.simulator.history import History, JobHistory

MAX_NAMED = 6
"""Maximum number of names that an error lists; others are counted."""
EXAMPLE = "p95 wait of queue gpu <= 1h"
_GOAL = re.compile(
    r"(?P<statistic>mean|longest|p(?P<percent>\d{1,2}(?:\.\d{1,3})?|100))\s+wait"
    r"(?:\s+of\s+(?P<group>queue|kind|resource)\s+(?P<name>\S+))?\s*<=\s*(?P<bound>\S+)",
    re.ASCII,
)


class JobSelection(NamedTuple):
    """The jobs to which a goal applies."""

    group: str = ""
    """"queue": jobs of a ClusterQueue; "kind": jobs of a class in a mix or a job file; "resource": jobs that request
    it; "": all jobs."""
    name: str = ""

    def includes(self, job: JobHistory) -> bool:
        """Return whether the goal counts this job."""
        match self.group:
            case "queue":
                return job.queue == self.name
            case "kind":
                return job.kind == self.name
            case "resource":
                return bool(job.amounts.get(self.name))
            case _:
                return True


class Goal(NamedTuple):
    """An upper bound on a statistic of waits."""

    statistic: str
    """The statistic as written: mean, longest, p95."""
    percent: float
    """N of pN; 100 for longest, 0 for mean."""
    selection: JobSelection
    bound: float
    """Seconds."""
    text: str
    """The goal as written, with single spaces and the unit of the bound."""

    @property
    def label(self) -> str:
        """Return the statistic and its jobs: "p95 wait of queue gpu"."""
        return self.text.partition("<=")[0].strip()


class Measurement(NamedTuple):
    """The statistic of a goal in one simulation."""

    wait: float
    """Seconds; infinite if jobs that never start determine the statistic."""
    jobs: int
    """Number of jobs that the goal counts."""
    met: bool
    unstarted: int
    """Number of jobs that never start, whether or not the goal counts them."""


def parse_goal(text: str, parse_duration: Callable[[str], float]) -> Goal:
    """Return the goal that a text describes.

    Raises ValueError with the expected form, or the errors of `parse_duration` for the bound.
    """
    match = _GOAL.fullmatch(text.strip())
    if match is None or (match["percent"] and not float(match["percent"])):
        raise ValueError(
            f"{text!r} is not a goal: write STATISTIC wait [of queue|kind|resource NAME] <= DURATION, where STATISTIC "
            f"is mean, longest or pN, such as {EXAMPLE!r}"
        )
    percent = float(match["percent"]) if match["percent"] else {"longest": 100.0, "mean": 0.0}[match["statistic"]]
    selection = JobSelection(match["group"] or "", match["name"] or "")
    unit = " s" if match["bound"][-1].isdigit() else ""
    return Goal(match["statistic"], percent, selection, parse_duration(match["bound"]), " ".join(text.split()) + unit)


def measure(goal: Goal, history: History) -> Measurement:
    """Return the goal's statistic for a history. Raises ValueError if the goal selects no job."""
    waits: list[float] = []
    unstarted = 0
    for job in history.jobs:
        wait = job.wait
        unstarted += wait is None
        if goal.selection.includes(job):
            waits.append(inf if wait is None else wait)
    if not waits:
        group, name = goal.selection
        names = _names(group, history.jobs)
        known = f"write one of {first_names(names, MAX_NAMED)}" if names else "the trace names none"
        raise ValueError(f"no job of {group} {name}: {known}" if group else "the trace has no jobs")
    statistic = sum(waits) / len(waits) if goal.statistic == "mean" else order_statistic(waits, goal.percent)
    return Measurement(statistic, len(waits), statistic <= goal.bound, unstarted)


def order_statistic(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least this percentage of the values do not exceed."""
    return sorted(values)[max(ceil(round(len(values) * percent / 100, 9)), 1) - 1]


def _names(group: str, jobs: Iterable[JobHistory]) -> list[str]:
    """Return the possible names of a selection of this group."""
    names: set[str] = set()
    for job in jobs:
        names.update(job.amounts if group == "resource" else [job.queue if group == "queue" else job.kind])
    return sorted(names - {""})

"""Histories of simulations: handmade and random."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from zonewise_scheduler.simulator.history import History, JobHistory, JobRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.simulator.history import JobOutcome

SIZE = 8
"""CPUs of the machines below; they have half as many GPUs."""
MACHINE = {"cpu": SIZE, "gpu": SIZE // 2}


def job(name: str, submitted: float, cpus: int, *runs: JobRun, **fields: Any) -> JobHistory:
    """Return a job of one pod that completed with its last run, or that is pending if it has no run."""
    outcome: JobOutcome = "done" if runs and runs[-1].whole else "waiting"
    entry = JobHistory(name, "", "", submitted, inf, {"cpu": cpus}, 1, 0, outcome, runs)
    return entry._replace(**fields)


def run(start: float, end: float, ready: float | None = None, *, whole: bool = True) -> JobRun:
    """Return a run whose pods start at its start."""
    return JobRun(start, end, start if ready is None else ready, whole)


def history(*jobs: JobHistory, capacity: Mapping[str, int] | None = None) -> History:
    """Return a history of jobs on eight CPUs."""
    return History(list(jobs), {"cpu": SIZE} if capacity is None else capacity, 2 * len(jobs), 0.5)


PREEMPTED = history(
    job("a", 100, 4, run(100, 190, 102)),
    job("b", 101, 4, run(101, 140, 103, whole=False), run(220, 280, 223), reservation=(140, 220)),
    job("c", 102, 8, run(190, 220, 192), reservation=(102, 190)),
    job("d", 120, 2),
    job("e", 150, 2, run(152, 180, 153)),
    job("f", 155, 9, outcome="refused"),
    job("g", 160, 1, run(160, 188, 161), outcome="failed", walltime=28),
)
"""One job starts at once, one is preempted, one waits for a reserved start, and one never starts."""


@st.composite
def histories(draw: st.DrawFn, *, max_jobs: int = 12) -> History:
    """Draw histories without overcommitment; jobs may be preempted, fail, fit nowhere or be pending."""
    free = [dict(MACHINE) for _ in range(400)]
    jobs: list[JobHistory] = []
    submitted = draw(st.integers(0, 5))
    for number in range(draw(st.integers(0, max_jobs))):
        amounts = {name: draw(st.integers(0, size)) for name, size in MACHINE.items()}
        outcome: JobOutcome = draw(st.sampled_from(["done", "done", "failed", "refused", "waiting"]))
        lost = 0 if outcome == "refused" else draw(st.integers(0, 2))
        wholes = [False] * lost + [True] * (outcome == "done" or (outcome == "failed" and draw(st.booleans())))
        runs: list[JobRun] = []
        for whole in wholes:
            least = int(runs[-1].end) if runs else submitted
            runs.append(_placed(free, amounts, least + draw(st.integers(0, 3)), draw(st.integers(0, 9)), whole=whole))
            runs[-1] = runs[-1]._replace(ready=runs[-1].start + draw(st.integers(0, 12)))
        late = draw(st.none() | st.integers(0, 5))
        reservations = (float(submitted), runs[0].start + late) if runs and late is not None else None
        jobs.append(
            JobHistory(
                f"job-{number}", draw(st.sampled_from(["", "q"])), "", submitted, inf, amounts,
                draw(st.integers(1, 3)), 0, outcome, tuple(runs), reservations,
            )
        )  # fmt: skip
        submitted += draw(st.integers(0, 4))
    return History(jobs, draw(st.sampled_from([MACHINE, {"cpu": SIZE}, {}])), 2 * max_jobs, 0.5)


def _placed(free: list[dict[str, int]], amounts: Mapping[str, int], least: int, length: int, *, whole: bool) -> JobRun:
    """Return the earliest run that fits from its start to its end."""
    start = least
    while any(free[second][name] < size for second in range(start, start + length) for name, size in amounts.items()):
        start += 1
    for second in range(start, start + length):
        for name, size in amounts.items():
            free[second][name] -= size
    return JobRun(float(start), float(start + length), float(start), whole)

"""The runs of a sweep, and the means over their seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.simulator.sweep.confidence import MeanInterval, mean_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.simulator.summary import Summary


class SweepRun(NamedTuple):
    """One simulation of a sweep."""

    policy: str
    load: float | None
    """Load of a mix; None for its default, or for another kind of trace."""
    seed: int

    def __str__(self) -> str:
        """Return the run as errors name it: "easy, load 0.9, seed 3"."""
        return f"{self.column}, seed {self.seed}"

    @property
    def column(self) -> str:
        """Return the name that the runs of all seeds share: "easy, load 0.9"."""
        return self.policy if self.load is None else f"{self.policy}, load {repr(self.load).removesuffix('.0')}"


class RunResult(NamedTuple):
    """The result of one run: values by statistic, and shares of the capacity by resource."""

    statistics: Mapping[str, float | None]
    """None if no job ran."""
    utilisation: dict[str, float]


class SweepColumn(NamedTuple):
    """The means of the runs that differ only in their seeds."""

    policy: str
    load: float | None
    name: str
    runs: int
    statistics: dict[str, MeanInterval]
    utilisation: dict[str, MeanInterval]


STATISTICS: tuple[str, ...] = (
    "jobs", "failed", "rejected", "waiting", "preemptions", "wait_mean", "wait_median", "wait_p95", "wait_max",
    "bounded_slowdown", "makespan",
)  # fmt: skip
"""The fields of Summary that a sweep compares."""
_OF_ENDED_JOBS = ("wait_mean", "wait_median", "wait_p95", "wait_max", "bounded_slowdown", "makespan")
"""Statistics that have no value if no job ran."""


def sweep_runs(policies: Sequence[str], loads: Sequence[float | None], seeds: Sequence[int]) -> list[SweepRun]:
    """Return all runs; the seeds of a policy and a load are adjacent."""
    return [SweepRun(policy, load, seed) for load in loads for policy in policies for seed in seeds]


def run_result(summary: Summary) -> RunResult:
    """Return the values of a summary that a sweep compares."""
    statistics: dict[str, float | None] = {name: float(getattr(summary, name)) for name in STATISTICS}
    if not summary.jobs:
        statistics |= dict.fromkeys(_OF_ENDED_JOBS)
    return RunResult(statistics, summary.utilisation)


def sweep_columns(results: Sequence[tuple[SweepRun, RunResult]]) -> list[SweepColumn]:
    """Return the means by policy and load, in the order of the runs."""
    groups: dict[tuple[str, float | None], list[tuple[SweepRun, RunResult]]] = {}
    for run, result in results:
        groups.setdefault((run.policy, run.load), []).append((run, result))
    return [_column(group) for group in groups.values()]


def _column(group: Sequence[tuple[SweepRun, RunResult]]) -> SweepColumn:
    run, results = group[0][0], [result for _, result in group]
    return SweepColumn(
        run.policy,
        run.load,
        run.column,
        len(results),
        {key: mean_interval([result.statistics[key] for result in results]) for key in STATISTICS},
        {key: mean_interval([result.utilisation[key] for result in results]) for key in results[0].utilisation},
    )

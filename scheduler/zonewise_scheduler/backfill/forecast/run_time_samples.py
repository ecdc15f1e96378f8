"""Run times of one sample path of a forecast, drawn from those of similar jobs (run_time_history.py).

The jobs of a user are similar, so half of the draws of a sample path use one quantile for all of them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Generic, TypeVar

from zonewise_scheduler.backfill.forecast.run_time_history import WalltimeSubject

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeDistribution, RunTimeHistory

T = TypeVar("T", bound=WalltimeSubject)

SAMPLES = 16
"""Maximum number of sample paths of a forecast."""
MIN_SAMPLES = 3
"""Minimum number of sample paths of a forecast, if many jobs are pending or running."""
_OF_ONE_USER = 2
"""Number of the last history keys, queue and template, that distinguish the jobs of one user."""
_COMMON_SHARE = 0.5
"""Share of draws that use the same quantile for all jobs of a user."""


def number_of_sample_paths(jobs: int, max_sampled: int, most: int = SAMPLES, least: int = MIN_SAMPLES) -> int:
    """Return the number of sample paths, from `least` to `most`, for a number of pending and running jobs.

    In between, all sample paths together have about `max_sampled` jobs.
    """
    return max(least, min(most, max_sampled // (jobs + 1)))


class SampledRunTimes(Generic[T]):
    """The predicted run times of the jobs of a forecast, shared by its sample paths."""

    def __init__(self, now: float, running: Iterable[tuple[T, float]], history: RunTimeHistory) -> None:
        """Predict the run times of the running jobs; `running`: jobs with their starts."""
        self._history = history
        self._whole: dict[tuple[tuple[Hashable, ...], float], RunTimeDistribution | None] = {}
        """Run times of jobs that have not started, by history keys and walltime."""
        self.running = [(job, start, history.distribution(job, now - start)) for job, start in running]

    def draw(self, sample: int) -> RunTimeDraw[T]:
        """Return the draws of one sample path; the same `sample` gives the same draws."""
        return RunTimeDraw(self, Random(sample))  # noqa: S311 -- no secret

    def whole(self, job: T) -> RunTimeDistribution | None:
        """Return the run times of a job that has not started."""
        key = (job.history_keys, job.walltime)
        if key not in self._whole:
            self._whole[key] = self._history.distribution(job)
        return self._whole[key]


class RunTimeDraw(Generic[T]):
    """The run times of one sample path."""

    def __init__(self, run_times: SampledRunTimes[T], random: Random) -> None:
        self._run_times = run_times
        self._random = random
        self._levels: dict[tuple[Hashable, ...], float] = {}
        """The common quantile of each user."""

    def whole(self, job: T) -> float:
        """Return the run time of a job that starts, in seconds; its walltime if no similar job has run."""
        return self._value(job, self._run_times.whole(job))

    def ends(self) -> Iterator[tuple[float, T]]:
        """Yield the end of each running job; infinite if unknown."""
        for job, start, distribution in self._run_times.running:
            yield start + self._value(job, distribution), job

    def _value(self, job: T, distribution: RunTimeDistribution | None) -> float:
        if distribution is None:
            return job.walltime
        random = self._random.random
        if random() >= _COMMON_SHARE:
            return distribution.quantile(random())
        user = job.history_keys[: max(1, len(job.history_keys) - _OF_ONE_USER)]
        level = self._levels.get(user)
        if level is None:
            level = self._levels[user] = random()
        return distribution.quantile(level)

"""Predicts run times of workloads from those of similar ones; used only for forecasts, never for decisions.

A user's next job runs about as long as the last ones (Tsafrir, Etsion and Feitelson, TPDS 2007), especially within a
queue or a template. Each group therefore keeps its last runs, and the narrowest group with enough of them gives the
prediction. Later runs count more, and so do runs with the same declared walltime. The last runs of all users with about
the same walltime count too, together as much as ten runs. The weights are round numbers close to those that minimize
the error of predicted run times (continuous ranked probability score) on KTH-SP2, CTC-SP2, SDSC-SP2 and CEA Curie.

Runs are scaled by the walltime: a job that declares twice as much as an earlier one is predicted to run twice as long.
Jobs without a walltime form a group too. A job that has no bound and has outlived all similar ones is predicted to run
for as long again as it has run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import accumulate
from math import inf, log2
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.backfill.policies import OVERRUN_EXTENSION

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

SAMPLES_PER_GROUP = 64
"""Number of runs that a group keeps. All users with about the same walltime form a group too."""
MAX_RUNS = 20_000
"""Number of runs that are kept for a checkpoint."""
MAX_GROUPS = 20_000
"""Maximum number of groups; beyond it, the group whose first run is oldest is forgotten."""
MIN_SAMPLES = 3
"""Number of runs that a narrow group needs for a prediction."""
RECENCY = 0.95
"""Weight of a run relative to the weight of the next run of its group."""
SAME_WALLTIME_WEIGHT = 10.0
"""Weight of a run with the same declared walltime, which is probably another run of the same program."""
POOLED_WEIGHT = 10.0
"""Total weight of the runs of all users; the last run of the group has weight 1 if its walltime differs."""
_OUTLIVED = (10 / 9, 10 / 7, 2.0, 10 / 3, 10.0)
"""Predicted run times of a run that has outlived all similar ones, as multiples of its time so far. They are quantiles
of the Pareto distribution in which half run to twice their age (Harchol-Balter and Downey, ACM TOCS 15(3), 1997)."""
_WALLTIMES = "walltime"


class RunTimeDistribution(NamedTuple):
    """A weighted sample of whole run times, in seconds."""

    run_times: Sequence[float]
    """Ascending."""
    weights: Sequence[float]
    """Cumulative."""

    def quantile(self, level: float) -> float:
        """Return the run time below which this share of the weight lies; `level` is less than 1."""
        return self.run_times[bisect_right(self.weights, level * self.weights[-1])]


class WalltimeSubject(Protocol):
    """A workload or job whose run time is predicted."""

    @property
    def walltime(self) -> float:
        """Declared run time, an upper bound, in seconds; infinite if none is declared."""
        ...

    @property
    def history_keys(self) -> tuple[Hashable, ...]:
        """Groups of similar subjects that it belongs to, widest first; the last two are a queue and a template."""
        ...


class ObservedRun(NamedTuple):
    """A run that has ended; also a WalltimeSubject."""

    run_time: float
    """Seconds."""
    walltime: float
    history_keys: tuple[Hashable, ...]


class _KnownDistribution(NamedTuple):
    """A distribution, and the runs of each group on which it depends; observe() replaces their tuple."""

    runs: tuple[tuple[ObservedRun, ...] | None, ...]
    distribution: RunTimeDistribution | None


class RunTimeHistory:
    """The last runs of each group."""

    __slots__ = ("_distributions", "_pooled", "_runs", "observed")

    def __init__(self) -> None:
        self._runs: dict[tuple[Hashable, ...], tuple[ObservedRun, ...]] = {}
        """Runs by group, oldest first, in tuples that copies share."""
        self._pooled: dict[float, list[tuple[float, float]]] = {}
        """Cache of _pooled_samples of subjects that have not started, by walltime."""
        self._distributions: dict[tuple[tuple[Hashable, ...], float], _KnownDistribution] = {}
        """Cache of distribution() of subjects that have not started, by history keys and walltime. Copies share it,
        since an entry also contains the runs for which it is valid."""
        self.observed: deque[ObservedRun] = deque(maxlen=MAX_RUNS)
        """The last runs of all groups, oldest first; observing them again in this order restores the history."""

    def observe(self, subject: WalltimeSubject, run_time: float) -> None:
        """Add a finished run to its groups; `run_time`: in seconds."""
        self._pooled.clear()
        run = ObservedRun(run_time, subject.walltime, subject.history_keys)
        self.observed.append(run)
        for group in (*_groups(run.history_keys), _walltime_group(run.walltime)):
            self._runs[group] = (*self._runs.get(group, ()), run)[-SAMPLES_PER_GROUP:]
        while len(self._runs) > MAX_GROUPS:
            del self._runs[next(iter(self._runs))]

    def copy(self) -> RunTimeHistory:
        """Return an independent copy."""
        other = RunTimeHistory()
        other._runs, other.observed = dict(self._runs), self.observed.copy()
        other._distributions = self._distributions
        return other

    def distribution(self, subject: WalltimeSubject, elapsed: float = 0.0) -> RunTimeDistribution | None:
        """Return the predicted run times of a subject that has run for `elapsed` seconds; None without samples.

        Shorter runs do not count. If all are shorter and no walltime bounds the run, _OUTLIVED gives its run times.
        """
        if elapsed:
            return self._new_distribution(subject, elapsed)
        keys, walltime = subject.history_keys, subject.walltime
        groups = (*_groups(keys), _walltime_group(walltime))
        runs = tuple(map(self._runs.get, groups))
        known = self._distributions.get((keys, walltime))
        if known is None or any(old is not new for old, new in zip(known.runs, runs, strict=True)):
            if len(self._distributions) >= MAX_GROUPS:
                self._distributions.clear()
            known = _KnownDistribution(runs, self._new_distribution(subject, 0.0))
            self._distributions[keys, walltime] = known
        return known.distribution

    def _new_distribution(self, subject: WalltimeSubject, elapsed: float) -> RunTimeDistribution | None:
        samples = self._group_samples(subject, elapsed)
        samples += self._pooled_samples(subject, elapsed)
        if (
            not samples
            and _walltime_group(subject.walltime) in self._runs
            and not _is_bounded(subject.walltime, elapsed)
        ):
            samples = [(elapsed * factor, 1.0) for factor in _OUTLIVED]
        if not samples:
            return None
        samples.sort()
        return RunTimeDistribution(
            [run_time for run_time, _ in samples], list(accumulate(weight for _, weight in samples))
        )

    def _group_samples(self, subject: WalltimeSubject, elapsed: float) -> list[tuple[float, float]]:
        """Return the samples of the narrowest group that has enough of them, or else those of the widest."""
        samples: list[tuple[float, float]] = []
        for size in range(len(subject.history_keys), 0, -1):
            samples = self._samples(subject.history_keys[:size], subject, elapsed)
            if len(samples) >= MIN_SAMPLES:
                break
        return samples

    def _pooled_samples(self, subject: WalltimeSubject, elapsed: float) -> list[tuple[float, float]]:
        """Return the samples of all users with about the same walltime, with equal weights."""
        pooled = self._pooled.get(subject.walltime) if not elapsed else None
        if pooled is None:
            pooled = self._samples(_walltime_group(subject.walltime), subject, elapsed)
            pooled = [(run_time, POOLED_WEIGHT / len(pooled)) for run_time, _ in pooled]
            if not elapsed:
                self._pooled[subject.walltime] = pooled
        return pooled

    def _samples(
        self, group: tuple[Hashable, ...], subject: WalltimeSubject, elapsed: float
    ) -> list[tuple[float, float]]:
        """Return the run times of a group, scaled to a subject's walltime, with weights; none is below `elapsed`.

        If runs have outlived their walltimes, so may the subject, but it runs no longer than they did.
        """
        walltime = subject.walltime
        longest = walltime if _is_bounded(walltime, elapsed) else inf
        samples: list[tuple[float, float]] = []
        recency = 1.0
        for run_time, declared, _ in reversed(self._runs.get(group, ())):
            if declared < inf and walltime < inf:
                scaled = min(run_time * walltime / declared, max(run_time, walltime))
            else:
                scaled = min(run_time, longest)
            if scaled >= elapsed:
                weight = SAME_WALLTIME_WEIGHT * recency if declared == walltime else recency
                samples.append((scaled, weight))
            recency *= RECENCY
        return samples


def _is_bounded(walltime: float, elapsed: float) -> bool:
    """Return whether a walltime still bounds the run time of a subject, because it is not known to be ignored."""
    return walltime < inf and elapsed < walltime + OVERRUN_EXTENSION


def _groups(keys: tuple[Hashable, ...]) -> list[tuple[Hashable, ...]]:
    """Return the groups of a subject with these history keys, widest first."""
    return [keys[:size] for size in range(1, len(keys) + 1)]


def _walltime_group(walltime: float) -> tuple[Hashable, ...]:
    """Return the group of subjects with about this walltime (a factor of the square root of 2), or with none."""
    return (_WALLTIMES, int(2 * log2(max(walltime, 1.0))) if walltime < inf else inf)

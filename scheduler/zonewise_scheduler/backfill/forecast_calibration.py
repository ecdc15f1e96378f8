"""Calibration: what earlier forecasts were wrong by decides the interval of the next one.

A forecast has several sampled waits. When a workload starts, its score is the rank of its wait among them: the share of
samples that are less. Between two samples, the rank is interpolated by the logarithm of the wait. Beyond the first and
the last sample, ranks go on by the range of the samples on that side of the median. The interval of a new forecast has
the quantiles of the last scores as its bounds, read as ranks among its own samples. This is distributional conformal
prediction (Chernozhukov, Wuethrich and Zhu, PNAS 118(48), 2021), online over a sliding window. So the interval holds
whatever the sampled waits are wrong by, as long as the next forecasts are wrong by about as much.

A score by the distance from the median, in units of the range on its side, ignores where the samples lie in between.
With ranks, intervals were up to 11 % narrower, and as many starts were within.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, exp, floor, inf, log, sqrt
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.types import Forecast

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

CLAIMED_COVERAGE = 0.9
"""The share of starts that is to lie within the interval."""
WINDOW = 500
"""Scores that a group keeps."""
FIRST_SCORES = (
    -1.0, -0.3, 0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0, 1.4,
)  # fmt: skip
"""Scores of all groups before any workload has started: about the quantiles of those on KTH-SP2, CTC-SP2 and SDSC-SP2.
They are the first to leave the window."""
MIN_GROUP_SCORES = 100
"""With fewer scores of its group, a workload is forecast by the scores of all groups."""
MAX_GROUPS = 1000
"""Groups with scores of their own; workloads of further groups share those of all."""
MAX_OPEN = 20_000
"""Forecasts whose workload has not started; the first are forgotten beyond."""
_LOW, _LIKELY, _HIGH = 0.0, 0.5, 0.9
"""Quantiles of the scores; low and high are apart by the claimed coverage. Waits are skewed, so the interval is short
where it begins at the least score."""
_SOFTENING = 60.0
"""Seconds that are added to waits, so that those of seconds have near logarithms."""
_MIN_SCALE = 0.35
"""Added to the range on each side, so that equal samples do not make an interval of one point."""
_SPREAD = 0.7
"""How far the first and the last sample of a forecast are moved apart, divided by the square root of the number of
samples. Those between move in proportion. So equal samples have different ranks."""
_MAX_QUANTILES = 16
"""With more samples, so many quantiles stand for them."""
_MAX_WAIT = 30 * 24 * 3600.0
"""Seconds; no bound of an interval is later, since a later one says nothing."""
_ALL = None


class _SampledWaits(NamedTuple):
    """A forecast before its calibration."""

    group: Hashable
    time: float
    """When the forecast is made."""
    logarithms: tuple[float, ...]
    """Of equally likely waits, softened and spread; ascending."""

    def score(self, wait: float) -> float:
        """Return the rank of a wait, seconds: from 0 to 1 where it is among the samples."""
        logarithm, logarithms = log(wait + _SOFTENING), self.logarithms
        index, last = bisect_left(logarithms, logarithm), len(logarithms) - 1
        if not index:
            return self._level(0) + (logarithm - logarithms[0]) / self._range_below
        if index > last:
            return self._level(last) + (logarithm - logarithms[last]) / self._range_above
        before = logarithms[index - 1]
        return self._level(index - 1 + (logarithm - before) / (logarithms[index] - before))

    def wait(self, score: float) -> float:
        """Return the wait with a rank, seconds; as score()."""
        logarithms, last = self.logarithms, len(self.logarithms) - 1
        position = score * len(logarithms) - 0.5
        if position <= 0:
            logarithm = logarithms[0] + (score - self._level(0)) * self._range_below
        elif position >= last:
            logarithm = logarithms[last] + (score - self._level(last)) * self._range_above
        else:
            index = int(position)
            logarithm = logarithms[index] + (position - index) * (logarithms[index + 1] - logarithms[index])
        return max(exp(min(logarithm, log(_MAX_WAIT))) - _SOFTENING, 0.0)

    def _level(self, position: float) -> float:
        """Return the rank of a position among the samples, from 0 on."""
        return (position + 0.5) / len(self.logarithms)

    @property
    def _range_below(self) -> float:
        return self.logarithms[len(self.logarithms) // 2] - self.logarithms[0] + _MIN_SCALE

    @property
    def _range_above(self) -> float:
        return self.logarithms[-1] - self.logarithms[len(self.logarithms) // 2] + _MIN_SCALE


class OpenForecast(NamedTuple):
    """The forecast of a workload that has not started: the one that is scored."""

    key: Hashable
    group: Hashable
    time: float
    """When it was made."""
    logarithms: tuple[float, ...]
    """Of equally likely waits, softened and spread; ascending."""


class GroupScores(NamedTuple):
    """The last scores of a group."""

    group: Hashable
    """None: of all groups."""
    scores: tuple[float, ...]


class CalibrationState(NamedTuple):
    """A calibration as plain values."""

    open: tuple[OpenForecast, ...]
    scores: tuple[GroupScores, ...]


class ForecastCalibration:
    """The scores of earlier forecasts, by group (the name of a queue)."""

    __slots__ = ("_open", "_scores")

    def __init__(self) -> None:
        self._open: dict[Hashable, _SampledWaits] = {}
        """The forecasts of workloads that have not started, by workload."""
        self._scores: dict[Hashable, _Scores] = {_ALL: _Scores(FIRST_SCORES)}

    def forecast(
        self, key: Hashable, group: Hashable, now: float, starts: Sequence[float], bound: float = inf
    ) -> Forecast:
        """Return the forecast of a workload, unique by `key`, from sampled starts, none before now.

        When the workload starts, the first of its forecasts with the most samples is scored. The interval has whole
        seconds around it. `bound`: a reserved start, which no forecast exceeds. Where the median start is unknown, so
        is the forecast.
        """
        samples = sorted(starts)
        median = samples[len(samples) // 2]
        if median == inf:
            return Forecast(now, bound, bound)
        sampled = _sampled_waits(group, now, samples)
        scored = self._open.get(key)
        if scored is None or len(scored.logarithms) < len(sampled.logarithms):
            self._open[key] = sampled
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        scores = self._scores.get(group)
        if scores is None or len(scores) < MIN_GROUP_SCORES:
            scores = self._scores[_ALL]
        low, likely, high = (sampled.wait(scores.quantile(level)) for level in (_LOW, _LIKELY, _HIGH))
        starts_by_level = (now + floor(low), now + likely, now + ceil(high))
        return Forecast(*(min(start, bound) for start in starts_by_level))

    def started(self, key: Hashable, now: float) -> None:
        """Score the forecast of a workload that starts now."""
        sampled = self._open.pop(key, None)
        if sampled is None:
            return
        score = sampled.score(max(now - sampled.time, 0.0))
        self._scores[_ALL].add(score)
        if sampled.group in self._scores or len(self._scores) <= MAX_GROUPS:
            self._scores.setdefault(sampled.group, _Scores()).add(score)

    def keep(self, pending: Container[Hashable]) -> None:
        """Leave out the forecasts of workloads that are not pending any more: these will not start."""
        self._open = {key: sampled for key, sampled in self._open.items() if key in pending}

    def copy(self) -> ForecastCalibration:
        """Return an independent copy."""
        other = ForecastCalibration()
        other._open = dict(self._open)
        other._scores = {group: scores.copy() for group, scores in self._scores.items()}
        return other

    def state(self, share: float = 1.0) -> CalibrationState:
        """Return what a restart would lose; `share`: of each kind only so much, the newest, from 0 to 1."""
        first = len(self._open) - int(share * len(self._open))
        return CalibrationState(
            tuple(OpenForecast(key, *sampled) for key, sampled in list(self._open.items())[first:]),
            tuple(
                GroupScores(group, newest)
                for group, scores in self._scores.items()
                if (newest := scores.newest(int(share * len(scores))))
            ),
        )

    @classmethod
    def from_state(cls, state: CalibrationState) -> ForecastCalibration:
        """Return the calibration of a state."""
        calibration = cls()
        for forecast in state.open:
            calibration._open[forecast.key] = _SampledWaits(*forecast[1:])
        for group, scores in state.scores:
            for score in scores:
                calibration._scores.setdefault(group, _Scores()).add(score)
        return calibration


def _sampled_waits(group: Hashable, now: float, starts: Sequence[float]) -> _SampledWaits:
    """Return sampled starts, ascending, as waits."""
    spread = _SPREAD / sqrt(len(starts))
    count = min(len(starts), _MAX_QUANTILES)
    levels = [(index + 0.5) / count for index in range(count)]
    waits = (min(starts[int(level * len(starts))] - now, _MAX_WAIT) for level in levels)
    return _SampledWaits(
        group,
        now,
        tuple(log(wait + _SOFTENING) + spread * (2 * level - 1) for wait, level in zip(waits, levels, strict=True)),
    )


class _Scores:
    """The last scores of a group, ordered for quantiles."""

    __slots__ = ("_ascending", "_first", "_last")

    def __init__(self, first: Sequence[float] = ()) -> None:
        """`first`: scores before any forecast has been scored."""
        self._last = deque(first)
        self._ascending = sorted(first)
        self._first = len(first)
        """How many of them are left."""

    def __len__(self) -> int:
        """Return how many forecasts have been scored, of those in the window."""
        return len(self._last) - self._first

    def add(self, score: float) -> None:
        self._last.append(score)
        insort(self._ascending, score)
        if len(self._last) > WINDOW:
            del self._ascending[bisect_left(self._ascending, self._last.popleft())]
            self._first = max(self._first - 1, 0)

    def newest(self, count: int) -> tuple[float, ...]:
        return tuple(self._last)[len(self._last) - count :]

    def copy(self) -> _Scores:
        other = _Scores()
        other._last, other._ascending, other._first = self._last.copy(), self._ascending[:], self._first
        return other

    def quantile(self, level: float) -> float:
        """Return a quantile, interpolated between two scores, of which there are two at least; `level`: less than 1."""
        position = level * (len(self._ascending) - 1)
        index = int(position)
        below, above = self._ascending[index : index + 2]
        return below + (position - index) * (above - below)

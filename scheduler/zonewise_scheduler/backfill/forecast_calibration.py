"""Calibration: what earlier forecasts were wrong by decides the interval of the next one.

A forecast has several sampled waits. Their median is its centre, and their range on either side of it is the scale of
that side, all of logarithms. When a workload starts, its score is the distance of its wait from the centre, in units of
the scale of its side. The interval of a new forecast has the quantiles of the last scores as its bounds. This is split
conformal prediction with locally scaled scores (Lei et al., Journal of the American Statistical Association 113, 2018),
online over a sliding window. So the interval holds whatever the sampled waits are wrong by, as long as the next
forecasts are wrong by about as much.

Each side has a scale of its own since samples are skewed: where a short job may start in any hole, most samples are
near each other and few are much later, or the other way round. With one scale, intervals were 12 to 15 % wider.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from math import ceil, exp, floor, inf, log
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.types import Forecast

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

CLAIMED_COVERAGE = 0.9
"""The share of starts that is to lie within the interval."""
WINDOW = 500
"""Scores that a group keeps."""
MIN_SCORES = 10
"""With fewer scores, sampled waits are not calibrated."""
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
"""Added to each scale, so that equal samples do not make an interval of one point."""
_MAX_WAIT = 30 * 24 * 3600.0
"""Seconds; no bound of an interval is later, since a later one says nothing."""
_ALL = None


class _Centre(NamedTuple):
    """A forecast before its calibration."""

    group: Hashable
    time: float
    """When the forecast is made."""
    centre: float
    scale_below: float
    scale_above: float

    def score(self, wait: float) -> float:
        distance = log(wait + _SOFTENING) - self.centre
        return distance / (self.scale_below if distance < 0 else self.scale_above)

    def wait(self, score: float) -> float:
        scale = self.scale_below if score < 0 else self.scale_above
        logarithm = min(self.centre + scale * score, log(_MAX_WAIT))
        return max(exp(logarithm) - _SOFTENING, 0.0)


class OpenForecast(NamedTuple):
    """The first forecast of a workload that has not started."""

    key: Hashable
    group: Hashable
    time: float
    """When it was made."""
    centre: float
    """Logarithm of the median sampled wait."""
    scale_below: float
    """Of the scores of waits below the median,"""
    scale_above: float
    """and of those above it."""


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
        self._open: dict[Hashable, _Centre] = {}
        """The forecasts of workloads that have not started, by workload."""
        self._scores: dict[Hashable, _Scores] = {_ALL: _Scores()}

    def forecast(
        self, key: Hashable, group: Hashable, now: float, starts: Sequence[float], bound: float = inf
    ) -> Forecast:
        """Return the forecast of a workload, unique by `key`, from sampled starts, none before now.

        It is scored when the workload starts. The interval has whole seconds around it. `bound`: a reserved start,
        which no forecast exceeds. Where the median start is unknown, so is the forecast.
        """
        samples = sorted(starts)
        median = samples[len(samples) // 2]
        if median == inf:
            return Forecast(min(samples[0], now), bound, bound)
        centre = _centre(group, now, samples)
        self._open.setdefault(key, centre)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        scores = self._scores.get(group)
        if scores is None or len(scores) < MIN_GROUP_SCORES:
            scores = self._scores[_ALL]
        if len(scores) < MIN_SCORES:
            return Forecast(*(min(start, bound) for start in (samples[0], median, samples[-1])))
        low, likely, high = (centre.wait(scores.quantile(level)) for level in (_LOW, _LIKELY, _HIGH))
        starts_by_level = (now + floor(low), now + likely, now + ceil(high))
        return Forecast(*(min(start, bound) for start in starts_by_level))

    def started(self, key: Hashable, now: float) -> None:
        """Score the first forecast of a workload that starts now."""
        centre = self._open.pop(key, None)
        if centre is None:
            return
        score = centre.score(max(now - centre.time, 0.0))
        self._scores[_ALL].add(score)
        if centre.group in self._scores or len(self._scores) <= MAX_GROUPS:
            self._scores.setdefault(centre.group, _Scores()).add(score)

    def keep(self, pending: Container[Hashable]) -> None:
        """Leave out the forecasts of workloads that are not pending any more: these will not start."""
        self._open = {key: centre for key, centre in self._open.items() if key in pending}

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
            tuple(OpenForecast(key, *centre) for key, centre in list(self._open.items())[first:]),
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
            calibration._open[forecast.key] = _Centre(*forecast[1:])
        for group, scores in state.scores:
            for score in scores:
                calibration._scores.setdefault(group, _Scores()).add(score)
        return calibration


def _centre(group: Hashable, now: float, samples: Sequence[float]) -> _Centre:
    """Return the centre of sampled starts, ascending; the median is known."""
    outer = len(samples) // 16
    last = next(start for start in reversed(samples[: len(samples) - outer]) if start < inf)
    low, middle, high = (
        log(max(start - now, 0.0) + _SOFTENING) for start in (samples[outer], samples[len(samples) // 2], last)
    )
    return _Centre(group, now, middle, middle - low + _MIN_SCALE, high - middle + _MIN_SCALE)


class _Scores:
    """The last scores of a group, ordered for quantiles."""

    __slots__ = ("_ascending", "_last")

    def __init__(self) -> None:
        self._last: deque[float] = deque()
        self._ascending: list[float] = []

    def __len__(self) -> int:
        return len(self._last)

    def add(self, score: float) -> None:
        self._last.append(score)
        insort(self._ascending, score)
        if len(self._last) > WINDOW:
            del self._ascending[bisect_left(self._ascending, self._last.popleft())]

    def newest(self, count: int) -> tuple[float, ...]:
        return tuple(self._last)[len(self._last) - count :]

    def copy(self) -> _Scores:
        other = _Scores()
        other._last, other._ascending = self._last.copy(), self._ascending[:]
        return other

    def quantile(self, level: float) -> float:
        """Return a quantile, interpolated between two scores."""
        position = level * (len(self._ascending) - 1)
        index = int(position)
        above = self._ascending[min(index + 1, len(self._ascending) - 1)]
        return self._ascending[index] + (position - index) * (above - self._ascending[index])

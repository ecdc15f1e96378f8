"""Calibration: the errors of earlier forecasts determine the interval of the next one.

A forecast has several sampled waits. When a workload starts, its score is the rank of its wait among them: the share of
samples that are smaller. Between two samples, the rank is interpolated by the logarithm of the wait. Below the first
and above the last sample, it is extrapolated in units of the range on that side of the median. The bounds of a new
interval are quantiles of the last scores, read as ranks among its own samples. This is distributional conformal
prediction (Chernozhukov, Wuethrich and Zhu, PNAS 118(48), 2021), applied online over a sliding window. The interval
therefore corrects any error of the sampled waits, as long as the next forecasts have about the same error.

Errors change over time, and a score is known only once a workload has started. Therefore each start outside its
interval raises the level of the upper quantile, and each other start lowers it (adaptive conformal inference; Gibbs and
Candes, NeurIPS 2021). In the same way, the starts after long waits steer the level of long likely waits. As many long
waits are therefore longer than likely as shorter.

A score based on the distance from the median, in units of the range on its side, ignores where the samples lie in
between. With ranks, intervals were up to 11 % narrower and covered as many starts.
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
"""Intended share of starts that lie within the interval, and the first level of the upper quantile."""
LIKELY_LEVEL = 0.5
"""Level of the likely start, and its first level if the wait is long."""
WINDOW = 500
"""Number of scores that a group keeps."""
FIRST_SCORES = (
    -1.0, -0.3, 0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0, 1.4,
)  # fmt: skip
"""Initial scores of all groups, before any workload has started: about the quantiles of the scores on KTH-SP2, CTC-SP2
and SDSC-SP2. They are the first to leave the window."""
MIN_GROUP_SCORES = 100
"""If its group has fewer scores, a workload is forecast from the scores of all groups."""
MAX_GROUPS = 1000
"""Maximum number of groups with their own scores; workloads of further groups use the scores of all groups."""
MAX_OPEN = 20_000
"""Maximum number of forecasts whose workloads have not started; beyond it, the oldest are forgotten."""
_LOWER_LEVEL = 0.0
"""Level of the lower quantile. Waits are skewed, so an interval that begins at the lowest score is short."""
_LONG_WAIT, _LONG_LIKELY_WAIT = 7200.0, 3600.0
"""Waits from which a start steers the level of the likely start, and likely waits from which that level counts."""
_LIKELY_STEP = 0.01
"""Change of that level per start."""
_LIKELY_LEVELS = (0.35, 0.6)
"""Bounds of that level."""
_STEP = 0.01
"""Change of the level of the upper quantile per start: by 0.9 of it upwards, or by 0.1 of it downwards."""
_UPPER_LEVELS = (0.85, 0.995)
"""Bounds of the level of the upper quantile."""
_SOFTENING = 60.0
"""Seconds added to waits, so that the logarithms of very short waits differ little."""
_MIN_SCALE = 0.35
"""Added to the range on each side, so that equal samples do not yield an interval of a single point."""
_SPREAD = 0.7
"""How far the first and the last sample of a forecast are moved outwards, divided by the square root of the number of
samples. Samples in between move in proportion, so that equal samples have different ranks."""
_MAX_QUANTILES = 16
"""Maximum number of samples of a forecast; more samples are replaced with this many quantiles."""
_MAX_WAIT = 30 * 24 * 3600.0
"""Latest bound of an interval, in seconds; a later one would carry no information."""
_ALL = None


class _SampledWaits(NamedTuple):
    """A forecast before its calibration."""

    group: Hashable
    time: float
    """Time at which the forecast is made."""
    logarithms: tuple[float, ...]
    """Logarithms of equally likely waits, softened and spread; ascending."""

    def score(self, wait: float) -> float:
        """Return the rank of a wait in seconds: between 0 and 1 if the wait lies among the samples."""
        logarithm, logarithms = log(wait + _SOFTENING), self.logarithms
        index, last = bisect_left(logarithms, logarithm), len(logarithms) - 1
        if not index:
            return self._level(0) + (logarithm - logarithms[0]) / self._range_below
        if index > last:
            return self._level(last) + (logarithm - logarithms[last]) / self._range_above
        before = logarithms[index - 1]
        return self._level(index - 1 + (logarithm - before) / (logarithms[index] - before))

    def wait(self, score: float) -> float:
        """Return the wait that has a rank, in seconds; the inverse of score()."""
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
        """Return the rank of a position among the samples, counted from 0."""
        return (position + 0.5) / len(self.logarithms)

    @property
    def _range_below(self) -> float:
        return self.logarithms[len(self.logarithms) // 2] - self.logarithms[0] + _MIN_SCALE

    @property
    def _range_above(self) -> float:
        return self.logarithms[-1] - self.logarithms[len(self.logarithms) // 2] + _MIN_SCALE


class OpenForecast(NamedTuple):
    """The forecast of a workload that has not started, which is scored when the workload starts."""

    key: Hashable
    group: Hashable
    time: float
    """Time at which it was made."""
    logarithms: tuple[float, ...]
    """Logarithms of equally likely waits, softened and spread; ascending."""
    earliest: float
    latest: float


class GroupScores(NamedTuple):
    """The last scores of a group."""

    group: Hashable
    """None for the scores of all groups."""
    scores: tuple[float, ...]


class CalibrationState(NamedTuple):
    """A calibration as plain values."""

    open: tuple[OpenForecast, ...]
    scores: tuple[GroupScores, ...]
    upper_level: float = CLAIMED_COVERAGE
    """Level of the upper quantile."""
    likely_level: float = LIKELY_LEVEL
    """Level of the likely start if the wait is long."""


class ForecastCalibration:
    """The scores of earlier forecasts, by group (the name of a queue)."""

    __slots__ = ("_likely_level", "_open", "_scores", "_upper_level")

    def __init__(self) -> None:
        self._open: dict[Hashable, OpenForecast] = {}
        """The forecasts of workloads that have not started, by workload."""
        self._scores: dict[Hashable, _Scores] = {_ALL: _Scores(FIRST_SCORES)}
        self._upper_level, self._likely_level = CLAIMED_COVERAGE, LIKELY_LEVEL
        """Levels of the upper quantile, and of the likely start if the wait is long."""

    def forecast(
        self, key: Hashable, group: Hashable, now: float, starts: Sequence[float], bound: float = inf
    ) -> Forecast:
        """Return the forecast of the workload with a unique `key` from sampled starts, none before now.

        When the workload starts, the first of its forecasts with the most samples is scored. The bounds of the interval
        are rounded outwards to whole seconds. `bound`: a reserved start, which no forecast exceeds. If the median start
        is unknown, so is the forecast, except for the bound.
        """
        samples = sorted(starts)
        median = samples[len(samples) // 2]
        if median == inf:
            return Forecast(now if bound < inf else inf, bound, bound)
        sampled = _sampled_waits(group, now, samples)
        scores = self._scores_of(group)
        low, likely, high = (
            sampled.wait(scores.quantile(level)) for level in (_LOWER_LEVEL, LIKELY_LEVEL, self._upper_level)
        )
        if likely >= _LONG_LIKELY_WAIT:
            likely = sampled.wait(scores.quantile(self._likely_level))
        starts_by_level = (now + floor(low), now + likely, now + ceil(high))
        forecast = Forecast(*(min(start, bound) for start in starts_by_level))
        scored = self._open.get(key)
        if scored is None or len(scored.logarithms) < len(sampled.logarithms):
            self._open[key] = OpenForecast(key, *sampled, forecast.earliest, forecast.latest)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return forecast

    def started(self, key: Hashable, now: float) -> None:
        """Score the forecast of a workload that starts now."""
        scored = self._open.pop(key, None)
        if scored is None:
            return
        is_outside = not scored.earliest <= now <= scored.latest
        level = self._upper_level + _STEP * (is_outside - (1 - CLAIMED_COVERAGE))
        self._upper_level = _within(level, _UPPER_LEVELS)
        sampled, wait = _SampledWaits(scored.group, scored.time, scored.logarithms), max(now - scored.time, 0.0)
        score = sampled.score(wait)
        if wait >= _LONG_WAIT:
            is_late = score > self._scores_of(scored.group).quantile(self._likely_level)
            level = self._likely_level + (_LIKELY_STEP if is_late else -_LIKELY_STEP)
            self._likely_level = _within(level, _LIKELY_LEVELS)
        self._scores[_ALL].add(score)
        if sampled.group in self._scores or len(self._scores) <= MAX_GROUPS:
            self._scores.setdefault(sampled.group, _Scores()).add(score)

    def keep(self, pending: Container[Hashable]) -> None:
        """Drop the forecasts of workloads that are no longer pending, since these will not start."""
        self._open = {key: scored for key, scored in self._open.items() if key in pending}

    def copy(self) -> ForecastCalibration:
        """Return an independent copy."""
        other = ForecastCalibration()
        other._open = dict(self._open)
        other._scores = {group: scores.copy() for group, scores in self._scores.items()}
        other._upper_level, other._likely_level = self._upper_level, self._likely_level
        return other

    def state(self, share: float = 1.0) -> CalibrationState:
        """Return what a restart would lose; `share`: fraction of the newest entries of each kind, from 0 to 1."""
        first = len(self._open) - int(share * len(self._open))
        return CalibrationState(
            tuple(self._open.values())[first:],
            tuple(
                GroupScores(group, newest)
                for group, scores in self._scores.items()
                if (newest := scores.newest(int(share * len(scores))))
            ),
            self._upper_level,
            self._likely_level,
        )

    @classmethod
    def from_state(cls, state: CalibrationState) -> ForecastCalibration:
        """Return a calibration with a saved state."""
        calibration = cls()
        calibration._open = {forecast.key: forecast for forecast in state.open}
        for group, scores in state.scores:
            for score in scores:
                calibration._scores.setdefault(group, _Scores()).add(score)
        calibration._upper_level = _within(state.upper_level, _UPPER_LEVELS)
        calibration._likely_level = _within(state.likely_level, _LIKELY_LEVELS)
        return calibration

    def _scores_of(self, group: Hashable) -> _Scores:
        """Return the scores by which workloads of a group are forecast."""
        scores = self._scores.get(group)
        return self._scores[_ALL] if scores is None or len(scores) < MIN_GROUP_SCORES else scores


def _within(level: float, bounds: tuple[float, float]) -> float:
    """Return a level, or the bound that it exceeds."""
    least, most = bounds
    return min(max(level, least), most)


def _sampled_waits(group: Hashable, now: float, starts: Sequence[float]) -> _SampledWaits:
    """Return ascending sampled starts as waits."""
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
        """`first`: initial scores, before any forecast has been scored."""
        self._last = deque(first)
        self._ascending = sorted(first)
        self._first = len(first)
        """Number of initial scores that are left."""

    def __len__(self) -> int:
        """Return how many scores in the window come from forecasts."""
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
        """Return a quantile, interpolated between two scores; needs at least two scores and a `level` below 1."""
        position = level * (len(self._ascending) - 1)
        index = int(position)
        below, above = self._ascending[index : index + 2]
        return below + (position - index) * (above - below)

"""Forecast intervals that are calibrated with the errors of earlier forecasts."""

from __future__ import annotations

from math import inf, log, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.backfill.forecast import calibration as forecast_calibration
from zonewise_scheduler.backfill.forecast.calibration import (
    CLAIMED_COVERAGE,
    FIRST_SCORES,
    MIN_GROUP_SCORES,
    WINDOW,
    CalibrationState,
    ForecastCalibration,
    GroupScores,
    OpenForecast,
)
from zonewise_scheduler.backfill.types import Forecast


def calibrated(waits: list[float], samples: tuple[float, ...] = (50.0, 100.0, 200.0)) -> ForecastCalibration:
    """Return the calibration after workloads of queue q with these samples waited for these times."""
    calibration = ForecastCalibration()
    for index, wait in enumerate(waits):
        calibration.forecast(index, "q", 1000.0 * index, [1000.0 * index + sample for sample in samples])
        calibration.started(index, 1000.0 * index + wait)
    return calibration


def from_scores(scores: dict[str | None, tuple[float, ...]]) -> ForecastCalibration:
    """Return a calibration with these scores of each group; the group None stands for all queues."""
    groups = tuple(GroupScores(group, values) for group, values in scores.items())
    return ForecastCalibration.from_state(CalibrationState((), groups))


class Ranks:
    """The ranks of waits among sampled waits, by definition: a polyline that is extended beyond both ends."""

    def __init__(self, samples: list[float]) -> None:
        count = min(len(samples), 16)
        levels = (np.arange(count) + 0.5) / count
        waits = np.minimum(np.sort(samples)[(levels * len(samples)).astype(int)], 30 * 86400)
        logarithms = np.log(waits + 60) + 0.7 / sqrt(len(samples)) * (2 * levels - 1)
        below, above = np.diff(logarithms[[0, count // 2, -1]]) + 0.35
        self.logarithms = np.array([logarithms[0] - 1000 * below, *logarithms, logarithms[-1] + 1000 * above])
        self.ranks = np.array([levels[0] - 1000, *levels, levels[-1] + 1000])

    def rank(self, wait: float) -> float:
        return float(np.interp(log(max(wait, 0) + 60), self.logarithms, self.ranks))

    def wait(self, rank: float) -> float:
        logarithm = np.interp(rank, self.ranks, self.logarithms)
        return max(float(np.exp(min(logarithm, log(30 * 86400)))) - 60, 0)


def test_before_the_first_start_the_interval_is_wider_than_the_samples() -> None:
    """The initial scores are typical of job logs. If all samples are equal, they are the likely start."""
    forecast = ForecastCalibration().forecast("new", "q", 1000, [1000 + 3600 * (hour + 1) for hour in range(3)])
    low, likely, high = (1000 + Ranks([3600, 7200, 10_800]).wait(rank) for rank in (-1, 0.5, 0.9))
    assert forecast == (pytest.approx(low, abs=1), pytest.approx(likely), pytest.approx(high, abs=1))
    assert forecast.earliest < 1000 + 3600
    assert forecast.latest > 1000 + 10_800
    assert ForecastCalibration().forecast("new", "q", 0, [100.0] * 3).likely == pytest.approx(100)


def test_the_initial_scores_leave_the_window_before_those_of_forecasts() -> None:
    """A restart changes nothing about that, although the checkpoint stores none of the initial scores."""
    calibration = calibrated([7000.0] * (WINDOW - 3))
    by_queue = calibration.state().scores[1].scores
    assert calibration.state().scores == (GroupScores(None, by_queue), GroupScores("q", by_queue))
    restored = ForecastCalibration.from_state(calibration.state())
    for each in (calibration, calibration.copy(), restored):
        samples = [50.0, 100.0, 200.0]
        low = min(*FIRST_SCORES[-3:], by_queue[0])
        assert each.forecast("new", "other", 0, samples).earliest == pytest.approx(Ranks(samples).wait(low), abs=1)


def drawn_samples(random: Random) -> list[float]:
    """Draw a few to many sampled waits, from seconds to months; some are unknown."""
    centre, width = random.uniform(4, 12), random.uniform(0.1, 4)
    known = [random.choice([0.0, random.lognormvariate(centre, width)]) for _ in range(random.randint(1, 40))]
    if random.random() < 0.5:
        known = [600 + wait for wait in known]
    return known + [inf] * random.randint(0, len(known) // 2)


@pytest.mark.parametrize("seed", range(30))
def test_a_forecast_equals_its_definition(seed: int) -> None:
    """The definition takes quantiles of the ranks of earlier waits; a start before its forecast is no wait.

    The level of the upper quantile rises by 0.009 with each start outside its interval, and falls by 0.001 otherwise.
    That of a likely wait from an hour on moves by 0.01 to the side of each start that comes after two hours or more.
    """
    random = Random(seed)
    earlier = [(drawn_samples(random), random.lognormvariate(8, 4) - 40) for _ in range(random.randint(10, 20))]
    samples, bound = drawn_samples(random), random.choice([inf, random.lognormvariate(8, 4)])
    calibration = ForecastCalibration()
    scores, level, likely_level = list(FIRST_SCORES), 0.9, 0.5
    for index, (sampled, wait) in enumerate(earlier):
        given = calibration.forecast(index, "q", 1000, [1000 + sample for sample in sampled])
        calibration.started(index, 1000 + wait)
        level += -0.001 if given.earliest <= 1000 + wait <= given.latest else 0.009
        level = min(max(level, 0.85), 0.995)
        rank = Ranks(sampled).rank(wait)
        if wait >= 7200:
            likely_level += 0.01 if rank > np.quantile(scores, likely_level) else -0.01
            likely_level = min(max(likely_level, 0.35), 0.6)
        scores.append(rank)
    ranks = np.quantile(scores, (0, 0.5, likely_level, level))
    low, likely, long_likely, high = (Ranks(samples).wait(rank) for rank in ranks)
    likely = long_likely if likely >= 3600 else likely
    forecast = calibration.forecast("new", "q", 1000, [1000 + sample for sample in samples], 1000 + bound)
    near = 1e-6 * (1 + high)
    assert forecast.likely == pytest.approx(min(1000 + likely, 1000 + bound), abs=near)
    assert min(999 + low, 1000 + bound) - near <= forecast.earliest <= 1000 + low + near
    assert min(1000 + high, 1000 + bound) - near <= forecast.latest <= 1001 + high + near


@pytest.mark.parametrize(
    ("samples", "wait"),
    [
        ([0.0], 1e6),
        ([0.0], 1e4),
        ([0.0, 0.0, 0.0], 1e7),
        ([0.0, 10.0, 1e6], 1e9),
        ([100.0, 1e6, 2e6], 0.0),
        ([200.0, 1e6, 1e6, 1e6], 30.0),
        ([100.0], 0.0),
    ],
)
def test_a_wait_far_beyond_the_samples_has_a_rank_scaled_by_the_range_on_that_side(
    samples: list[float], wait: float
) -> None:
    """The definition holds however far beyond the samples the wait is."""
    calibration = ForecastCalibration()
    calibration.forecast("one", "q", 1000.0, [1000.0 + sample for sample in samples])
    calibration.started("one", 1000.0 + wait)
    for scores in calibration.state().scores:
        assert scores.scores == (pytest.approx(Ranks(samples).rank(wait)),)


@pytest.mark.parametrize(("level", "likely"), [(0.25, 0), (0.5, 1), (0.75, 2)])
def test_the_rank_of_a_sample_yields_that_sample(level: float, likely: int) -> None:
    """The ranks of two samples are 0.25 and 0.75; their distance on the scale is half of the spread."""
    samples = [1000.0, 5000.0]
    expected = [wait * np.exp(spread) - 60 for wait, spread in ((1060, -0.35 / sqrt(2)), (5060, 0.35 / sqrt(2)))]
    expected.insert(1, sqrt((expected[0] + 60) * (expected[1] + 60)) - 60)
    forecast = from_scores({None: (level,) * WINDOW}).forecast("new", "q", 0, samples)
    assert forecast.likely == pytest.approx(expected[likely])


@pytest.mark.parametrize(("own", "level"), [(0, 0.3), (99, 0.3), (100, 0.6), (500, 0.6)])
def test_the_scores_of_a_queue_count_once_there_are_a_hundred(own: int, level: float) -> None:
    """Until then, the scores of all queues together count."""
    samples = [100.0, 200.0, 400.0, 800.0, 1600.0]
    forecast = from_scores({None: (0.3,) * WINDOW, "q": (0.6,) * own}).forecast("new", "q", 0, samples)
    assert forecast.likely == pytest.approx(Ranks(samples).wait(level))


def test_a_group_keeps_its_last_five_hundred_scores() -> None:
    scores = tuple(index / 1000 for index in range(501))
    assert from_scores({None: scores[:500]}).state().scores == (GroupScores(None, scores[:500]),)
    calibration = from_scores({None: scores})
    assert calibration.state().scores == (GroupScores(None, scores[1:]),)
    samples = [100.0, 200.0, 400.0]
    assert calibration.forecast("new", "q", 0, samples).likely == pytest.approx(Ranks(samples).wait(0.2505))


def test_at_most_twenty_thousand_forecasts_are_open() -> None:
    """Beyond that number the oldest is forgotten; another forecast of a workload that has one forgets none."""
    opened = tuple(OpenForecast(index, "q", 0.0, (5.0,), 0.0, 1.0) for index in range(20_000))
    calibration = ForecastCalibration.from_state(CalibrationState(opened, ()))
    calibration.forecast(9, "q", 0, [100])
    assert calibration.state().open == opened
    calibration.forecast("new", "q", 0, [100])
    assert [forecast.key for forecast in calibration.state().open] == [*range(1, 20_000), "new"]


def test_a_thousand_queues_have_scores_of_their_own() -> None:
    calibration = from_scores({None: (0.5,), **{f"q{index}": (0.5,) for index in range(999)}})
    for queue in ("thousandth", "further", "q0"):
        calibration.forecast(queue, queue, 0, [100])
        calibration.started(queue, 50)
    state = {group: len(scores) for group, scores in calibration.state().scores}
    assert state == {None: 4, "q0": 2, **{f"q{index}": 1 for index in range(1, 999)}, "thousandth": 1}


def test_a_systematic_error_is_corrected() -> None:
    """All earlier workloads waited three times the median sample, so the forecast for the next one is as long."""
    forecast = calibrated([300] * MIN_GROUP_SCORES).forecast("new", "q", 10, [60, 110, 210])
    assert forecast.likely == pytest.approx(310)
    assert forecast == (310, pytest.approx(310), pytest.approx(311, abs=1))


def test_each_side_of_the_median_has_a_scale_of_its_own() -> None:
    """Waits are spread like the samples: from a tenth of the median to the median, and from there to a tenth more."""
    random = Random(0)
    waits = [3600 * (random.uniform(0.1, 1) if index % 2 else random.uniform(1, 1.1)) for index in range(400)]
    forecast = calibrated(waits, (360, 3600, 3960)).forecast("new", "q", 0, [360, 3600, 3960])
    assert 300 < forecast.earliest < 400
    assert forecast.latest < 4100
    skewed = calibrated(waits, (360, 3600, 3960)).forecast("other", "q", 0, [3240, 3600, 36_000])
    assert skewed.earliest > 2000
    assert skewed.latest > 5000


def test_a_workload_that_starts_at_once_has_not_waited() -> None:
    forecast = calibrated([0] * MIN_GROUP_SCORES).forecast("new", "q", 10, [60, 110, 210])
    assert (forecast.earliest, forecast.likely) == (10, pytest.approx(10, abs=1e-6))


def test_an_unknown_start_remains_unknown() -> None:
    calibration = calibrated([100] * MIN_GROUP_SCORES)
    assert calibration.forecast("new", "q", 5, [20, float("inf"), float("inf")]) == Forecast(inf, inf, inf)
    assert calibration.forecast("other", "q", 5, [20, inf, inf], bound=40) == Forecast(5, 40, 40)
    calibration.started("new", 50)  # an unknown start has no score


def test_a_median_is_known_even_if_a_sample_path_has_no_start() -> None:
    forecast = calibrated([100] * MIN_GROUP_SCORES).forecast("new", "q", 0, [50, 100, inf])
    assert forecast.latest < inf


def test_no_forecast_is_later_than_the_reservation() -> None:
    calibration = calibrated([100, 900] * 50)
    assert calibration.forecast("new", "q", 0, [50, 100, 200]).latest > 800
    assert calibration.forecast("other", "q", 0, [50, 100, 200], bound=150).latest == 150


def test_a_queue_with_enough_forecasts_has_its_own_scores() -> None:
    calibration = calibrated([100] * (2 * MIN_GROUP_SCORES))
    for index in range(MIN_GROUP_SCORES):
        assert calibration.forecast((index, "s"), "s", 0, [50, 100, 200]).likely < 150
        calibration.started((index, "s"), 1000)
    assert calibration.forecast("new", "s", 0, [50, 100, 200]).likely == pytest.approx(1000)
    assert calibration.forecast("new", "q", 0, [50, 100, 200]).likely == pytest.approx(100)


def test_the_first_forecast_of_a_workload_is_scored_and_a_withdrawn_one_is_not() -> None:
    calibration = ForecastCalibration()
    for index in range(2 * MIN_GROUP_SCORES):
        calibration.forecast(index, "q", 0, [100] * 3)
        calibration.forecast(index, "q", 500, [9999] * 3)
        if index % 2:
            calibration.keep(range(index))
        calibration.started(index, 700 if index % 2 else 100)
    assert calibration.forecast("new", "q", 0, [100] * 3).latest == pytest.approx(101, abs=1)


def test_of_the_forecasts_of_a_workload_the_first_with_the_most_samples_is_scored() -> None:
    """Sixteen quantiles represent any larger number of samples."""
    calibration = ForecastCalibration()
    for time, samples in ((0, 3), (10, 16), (20, 3), (30, 16), (40, 48)):
        calibration.forecast("w", "q", time, [1000.0] * samples)
        (scored,) = calibration.state().open
        assert (scored.time, len(scored.logarithms)) == ((10, 16) if time else (0, 3))


def test_only_the_last_scores_count() -> None:
    calibration = calibrated([5000.0] * WINDOW + [100.0] * WINDOW)
    assert calibration.forecast("new", "q", 0, [50, 100, 200]).latest < 110
    assert [len(scores.scores) for scores in calibration.state().scores] == [WINDOW, WINDOW]


def test_the_first_of_too_many_open_forecasts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast_calibration, "MAX_OPEN", 20)
    calibration = ForecastCalibration()
    for index in range(60):
        calibration.forecast(index, "q", 0, [100] * 3)
        assert [each.key for each in calibration.state().open] == list(range(max(0, index - 19), index + 1))
    for index in range(60):
        calibration.started(index, 100 if index >= 40 else 9000)
    for scores in calibration.state().scores:
        assert scores.scores == pytest.approx([0.5] * 20)


def test_too_many_queues_share_their_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three queues, whose waits differ, only two have scores of their own."""
    monkeypatch.setattr(forecast_calibration, "MAX_GROUPS", 2)
    calibration = ForecastCalibration()
    for index in range(3 * MIN_GROUP_SCORES):
        queue = index % 3
        calibration.forecast(index, queue, 0, [100] * 3)
        calibration.started(index, 1000 * (1 + queue))
    assert [scores.group for scores in calibration.state().scores] == [None, 0, 1]
    likely = [calibration.forecast("new", queue, 0, [100] * 3).likely for queue in range(3)]
    assert likely == [pytest.approx(1000), pytest.approx(2000), pytest.approx(2000)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("error", [0.3, 1.0, 1.5])
def test_the_interval_has_the_coverage_that_it_claims(error: float, seed: int) -> None:
    """The samples may be spread too widely or too narrowly and be early by a factor; the waits overlap."""
    random = Random(seed)
    calibration = ForecastCalibration()
    open_until: list[tuple[float, int]] = []
    hits: list[bool] = []
    for index in range(4000):
        now = 600.0 * index
        for start, key in sorted(open_until):
            if start <= now:
                calibration.started(key, start)
                open_until.remove((start, key))
        centre = 3600 * random.lognormvariate(0, 1.5)
        forecast = calibration.forecast(
            index, "q", now, [now + centre * random.lognormvariate(0, 1) for _ in range(16)]
        )
        start = now + 2 * centre * random.lognormvariate(0, error)
        hits.append(forecast.earliest <= start <= forecast.latest)
        open_until.append((start, index))
    coverage = sum(hits[1000:]) / len(hits[1000:])
    assert CLAIMED_COVERAGE - 0.03 <= coverage <= CLAIMED_COVERAGE + 0.03


@pytest.mark.parametrize(("wait", "levels"), [(100.0, [0.899, 0.898, 0.85]), (1e9, [0.909, 0.918, 0.995])])
def test_the_level_of_the_upper_quantile_has_bounds(wait: float, levels: list[float]) -> None:
    """Each start within its interval lowers the level, and each other start raises it. A restart preserves it."""
    calibration = from_scores({None: (0.5,) * WINDOW})
    seen: list[float] = []
    for index in range(100):
        calibration.forecast(index, "q", 0, [100.0])
        calibration.started(index, wait * 2**index if wait > 100 else wait)
        seen.append(calibration.state().upper_level)
    assert [*seen[:2], seen[-1]] == pytest.approx(levels)
    assert ForecastCalibration.from_state(calibration.state()).state().upper_level == seen[-1]
    assert calibration.copy().state().upper_level == seen[-1]


@pytest.mark.parametrize(("wait", "levels"), [(7200.0, [0.49, 0.48, 0.35]), (1e9, [0.51, 0.52, 0.6])])
def test_the_level_of_long_likely_waits_has_bounds(wait: float, levels: list[float]) -> None:
    """Each start of a long wait moves the level to its side of the likely start. A restart preserves it."""
    calibration = from_scores({None: (0.5,) * WINDOW})
    seen: list[float] = []
    for index in range(40):
        calibration.forecast(index, "q", 0, [8000.0])
        calibration.started(index, wait * 2**index if wait > 8000 else wait)
        seen.append(calibration.state().likely_level)
    assert [*seen[:2], seen[-1]] == pytest.approx(levels)
    assert ForecastCalibration.from_state(calibration.state()).state().likely_level == seen[-1]
    assert calibration.copy().state().likely_level == seen[-1]


@pytest.mark.parametrize("level", [-1.0, 0.0, 1.0, 2.0])
def test_a_saved_level_of_long_likely_waits_is_limited_to_its_bounds(level: float) -> None:
    state = CalibrationState((), (), likely_level=level)
    assert ForecastCalibration.from_state(state).state().likely_level == (0.35 if level < 0.5 else 0.6)


@pytest.mark.parametrize(("wait", "level"), [(7199.0, 0.5), (7200.0, 0.49), (8000.0, 0.49), (8001.0, 0.51)])
def test_a_short_wait_does_not_change_the_level_of_long_likely_waits(wait: float, level: float) -> None:
    """A start at its likely time is not late."""
    calibration = from_scores({None: (0.5,) * WINDOW})
    calibration.forecast("new", "q", 0, [8000.0])
    calibration.started("new", wait)
    assert calibration.state().likely_level == pytest.approx(level)


@pytest.mark.parametrize(("wait", "is_later"), [(3500.0, False), (3700.0, True)])
def test_the_level_of_long_likely_waits_is_used_from_an_hour_on(wait: float, *, is_later: bool) -> None:
    """Scores from 0 to 1 make the level visible: at 0.6, the likely start is later than the median."""
    scores = tuple(index / WINDOW for index in range(WINDOW))
    samples = [wait * 0.5, wait, wait * 2]
    median = from_scores({None: scores}).forecast("new", "q", 0, samples).likely
    steered = ForecastCalibration.from_state(CalibrationState((), (GroupScores(None, scores),), likely_level=0.6))
    assert (steered.forecast("new", "q", 0, samples).likely > median) is is_later


def test_the_likely_start_is_late_enough_for_half_of_the_long_waits() -> None:
    """Among waits of 2 h and more, most exceed the median of the samples, since the others turned out shorter."""
    random = Random(1)
    calibration = ForecastCalibration()
    exceeding, exceeding_median = list[bool](), list[bool]()
    for index in range(3000):
        centre = 3600 * random.lognormvariate(1, 0.7)
        samples = sorted(centre * random.lognormvariate(0, 0.3) for _ in range(16))
        forecast = calibration.forecast(index, "q", 0, samples)
        wait = centre * random.lognormvariate(0, 0.3)
        calibration.started(index, wait)
        if wait >= 7200 and index >= 500:
            exceeding.append(wait > forecast.likely)
            exceeding_median.append(wait > centre)
    assert sum(exceeding_median) / len(exceeding) > 0.55
    assert sum(exceeding) / len(exceeding) == pytest.approx(0.5, abs=0.03)


def test_a_start_before_the_interval_raises_the_level_too() -> None:
    calibration = from_scores({None: (0.5,) * WINDOW})
    assert calibration.forecast("new", "q", 0, [1000.0]).earliest > 900
    calibration.started("new", 900)
    assert calibration.state().upper_level == pytest.approx(0.909)


@pytest.mark.parametrize(("growth", "fixed"), [(1.002, 0.82), (0.999, 0.92)])
def test_the_coverage_follows_errors_that_change_over_time(growth: float, fixed: float) -> None:
    """The waits become longer or shorter relative to the samples, so the quantiles of earlier ranks lag behind.

    `fixed`: the coverage if the level of the upper quantile never changed.
    """
    random = Random(0)
    calibration = ForecastCalibration()
    scores, hits, fixed_hits = list(FIRST_SCORES), list[bool](), list[bool]()
    for index in range(2000):
        samples = [3600 * random.lognormvariate(0, 1) for _ in range(16)]
        wait = 3600 * growth**index * random.lognormvariate(0, 1)
        hits.append(wait <= calibration.forecast(index, "q", 0, samples).latest)
        fixed_hits.append(Ranks(samples).rank(wait) <= np.quantile(scores[-WINDOW:], 0.9))
        scores.append(Ranks(samples).rank(wait))
        calibration.started(index, wait)
    assert sum(hits[1000:]) / 1000 == pytest.approx(CLAIMED_COVERAGE, abs=0.03)
    assert sum(fixed_hits[1000:]) / 1000 == pytest.approx(fixed, abs=0.03)


@given(st.floats(0, 1e6), st.lists(st.one_of(st.floats(0, 1e6), st.just(inf)), min_size=1, max_size=48))
def test_if_all_waits_were_equal_the_same_samples_yield_that_wait(wait: float, samples: list[float]) -> None:
    """The wait may be before, between or beyond the samples, and any of these may be equal: a rank has one wait."""
    samples = [0.0] * (len(samples) + 1) + samples  # so that the median is known
    forecast = calibrated([wait] * MIN_GROUP_SCORES, tuple(samples)).forecast("new", "q", 0, samples)
    assert forecast.likely == pytest.approx(wait, rel=1e-6, abs=1e-6)


def test_an_interval_has_the_shape_of_the_samples() -> None:
    """Waits are of minutes or of hours, as the samples are. If fewer samples are late, the interval ends earlier."""
    random = Random(0)
    mixed = [60.0] * 8 + [7200.0] * 8
    calibration = calibrated([random.choice(mixed) * random.uniform(0.9, 1.1) for _ in range(400)], tuple(mixed))
    forecasts = [calibration.forecast(late, "q", 0, [60.0] * (16 - late) + [7200.0] * late) for late in (0, 8)]
    assert [forecast.earliest for forecast in forecasts] == [pytest.approx(50, abs=15)] * 2
    assert forecasts[0].latest < 600
    assert forecasts[1].latest > 6000


@given(
    st.lists(st.floats(0, 1e7), max_size=40),
    st.lists(st.one_of(st.floats(0, 1e8), st.just(inf)), min_size=3, max_size=20),
    st.floats(0, 1e8),
)
def test_starts_ascend(waits: list[float], samples: list[float], bound: float) -> None:
    earliest, likely, latest = calibrated(waits).forecast("new", "q", 0, samples, bound)
    assert 0 <= earliest <= likely <= latest
    assert latest <= bound


@pytest.mark.parametrize(("share", "newest"), [(1.0, 40), (0.5, 20), (0.24, 9), (0.0, 0)])
def test_a_share_of_the_state_has_the_newest_records_of_each_kind(share: float, newest: int) -> None:
    calibration = calibrated([float(wait) for wait in range(100, 140)])
    for index in range(40):
        calibration.forecast((index, "open"), "q", float(index), [100] * 3)
    whole, state = calibration.state(), calibration.state(share)
    assert [forecast.key for forecast in state.open] == [(index, "open") for index in range(40)][40 - newest :]
    assert [scores.group for scores in state.scores] == ([None, "q"] if newest else [])
    for scores, every in zip(state.scores, whole.scores, strict=False):
        assert len(every.scores) == 40
        assert scores.scores == every.scores[40 - newest :]


def test_between_two_scores_the_quantile_is_between_their_waits() -> None:
    """The median of an even number of scores is halfway between both waits, on the scale of log(wait + 60 s)."""
    half = MIN_GROUP_SCORES // 2
    forecast = calibrated([110.0] * half + [190.0] * half).forecast("new", "q", 0, [50, 100, 200])
    assert forecast.likely == pytest.approx(sqrt((110 + 60) * (190 + 60)) - 60, abs=0.5)
    odd = calibrated([110.0] * (half + 1) + [190.0] * half).forecast("new", "q", 0, [50, 100, 200])
    assert odd.likely == pytest.approx(110)


@pytest.mark.parametrize(
    ("wait", "samples", "least", "most"),
    [
        (200.0, [3240.0, 3600.0, 36_000.0], 2200, 2500),
        (6500.0, [360.0, 3600.0, 3960.0], 6000, 7000),
        (6500.0, [360.0, 3600.0, 36_000.0], 40_000, 10**6),
    ],
)
def test_beyond_the_samples_the_range_on_that_side_is_the_scale(
    wait: float, samples: list[float], least: float, most: float
) -> None:
    """The scale is the range from the median to the first sample or to the last one."""
    calibration = calibrated([wait] * MIN_GROUP_SCORES, (360, 3600, 3960))
    assert least < calibration.forecast("new", "q", 0, samples).likely < most

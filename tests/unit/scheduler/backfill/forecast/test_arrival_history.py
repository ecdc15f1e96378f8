"""History of the submissions of earlier weeks, which forecasts replay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.pool_jobs import job
from zonewise_scheduler.backfill.forecast import arrival_history
from zonewise_scheduler.backfill.forecast.arrival_history import DAY, MAX_SPAN, WEEK, ArrivalHistory

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job


def observed(*times: float) -> ArrivalHistory[Job]:
    history: ArrivalHistory[Job] = ArrivalHistory()
    for serial, time in enumerate(times):
        history.observe(serial, job(serial, 1, 10), time)
    return history


def replayed(history: ArrivalHistory[Job], now: float, sample: int = 0) -> list[tuple[int, float]]:
    return [(arrival.subject.serial, arrival.time) for arrival in history.replay(now, sample)]


def test_on_the_first_day_nothing_is_replayed() -> None:
    assert replayed(ArrivalHistory(), 5) == []
    assert replayed(observed(0, 10), DAY - 1) == []
    assert replayed(observed(0, 10), 10.5) == []


def test_in_the_first_week_days_are_replayed() -> None:
    """The last day and the one before it are replayed alternately."""
    history = observed(0, 5, DAY + 7)
    now = 2 * DAY
    assert replayed(history, now, 0) == replayed(history, now, 2) == [(2, now + 7)]
    assert replayed(history, now, 1) == replayed(history, now, 3) == [(1, now + 5), (2, now + DAY + 7)]


def test_later_whole_weeks_are_replayed() -> None:
    """Three weeks are replayed alternately; a submission that is more than MAX_SPAN away is left out."""
    history = observed(0, WEEK + 50, 2 * WEEK + 100)
    now = 3 * WEEK
    assert replayed(history, now, 0) == replayed(history, now, 3) == [(2, now + 100)]
    assert replayed(history, now, 1) == [(1, now + 50)]
    assert replayed(history, now, 2) == []


def test_at_most_four_weeks_are_replayed() -> None:
    now = 9 * WEEK
    history = observed(*(week * WEEK + 10.0 for week in range(9)))
    assert [replayed(history, now, sample)[0][0] for sample in range(5)] == [8, 7, 6, 5, 8]


def test_a_run_time_is_known_once_the_job_has_ended() -> None:
    history: ArrivalHistory[Job] = ArrivalHistory()
    jobs = [job(serial, 1, 10) for serial in range(3)]
    for serial, one in enumerate(jobs):
        history.observe(one, one, float(serial))
    history.observe_end(jobs[1], 7)
    assert [(arrival.subject, arrival.run_time) for arrival in history.replay(DAY, 0)] == [
        (jobs[1], 7),
        (jobs[2], None),
    ]


def test_a_submission_observed_late_is_ordered_by_its_time_and_counts_once() -> None:
    history = observed(0, 20, 40)
    for _ in range(2):
        history.observe("late", job(9, 1, 10), 30)
    history.observe_end("late", 5)
    history.observe_end("unknown", 5)
    assert replayed(history, DAY) == [(1, DAY + 20), (9, DAY + 30), (2, DAY + 40)]
    assert [(arrival.key, arrival.run_time) for arrival in history.newest(2)] == [("late", 5), (2, None)]


def test_a_copied_history_is_independent() -> None:
    history = observed(0, 20)
    copied = history.copy()
    history.observe("new", job(9, 1, 10), 30)
    history.observe_end(1, 5)
    assert [arrival.run_time for arrival in copied.replay(DAY, 0)] == [None]
    copied.observe("new", job(8, 1, 10), 30)
    assert [serial for serial, _ in replayed(copied, DAY)] == [1, 8]


def test_only_submissions_within_the_max_span_are_replayed() -> None:
    history = observed(0, 5, MAX_SPAN - 1, MAX_SPAN + 1)
    assert [serial for serial, _ in replayed(history, WEEK)] == [1, 2]


@pytest.mark.parametrize(("age", "cycle"), [(2 * 86_400, 86_400), (3 * 604_800, 604_800)])
def test_the_same_time_of_day_is_replayed_and_later_the_same_time_of_the_week(age: int, cycle: int) -> None:
    """A history of less than a week replays the next day; a longer one replays the next four days."""
    history = observed(0, age - cycle + 7, age - cycle + 4 * 86_400 - 1, age - cycle + 4 * 86_400 + 1)
    ahead = [7, 4 * 86_400 - 1] if cycle == 604_800 else [7]
    assert [time - age for _, time in replayed(history, age)] == ahead


def test_at_most_forty_thousand_submissions_are_kept() -> None:
    history = observed(*map(float, range(40_000)))
    assert len(history) == 40_000
    history.observe("next", job(0, 1, 10), 40_000)
    assert [arrival.time for arrival in history.newest(10**6)] == list(range(20_001, 40_001))


def test_four_weeks_are_left_when_the_first_submission_is_older_than_eight() -> None:
    """A forgotten submission may be observed again."""
    history = observed(0, 3 * WEEK, 5 * WEEK, 8 * WEEK)
    history.observe_end(0, 5)
    assert [arrival.key for arrival in history.newest(9)] == [0, 1, 2, 3]
    history.observe("next", job(4, 1, 10), 8 * WEEK + 1)
    assert [arrival.key for arrival in history.newest(9)] == [2, 3, "next"]
    history.observe(0, job(0, 1, 10), 8 * WEEK + 2)
    assert [(arrival.key, arrival.run_time) for arrival in history.newest(1)] == [(0, None)]


def test_old_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest jobs are kept; without the bound there would be 1,000."""
    monkeypatch.setattr(arrival_history, "MAX_ARRIVALS", 100)
    step = DAY / 1000
    history = observed(*(index * step for index in range(1000)))
    serials = [serial for serial, _ in replayed(history, 999 * step + DAY - step * 200)]
    assert serials == []  # the oldest remaining job is less than a day old
    serials = [serial for serial, _ in replayed(history, 999 * step + DAY - step * 50)]
    assert serials == list(range(950, 1000))


def test_the_oldest_jobs_are_forgotten_once_the_bound_is_exceeded_twofold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrival_history, "MAX_ARRIVALS", 2)
    times = [float(serial) for serial in range(5)]
    assert [serial for serial, _ in replayed(observed(*times[:4]), DAY + 1)] == [2, 3]
    assert replayed(observed(*times), DAY + 1) == []  # the oldest remaining job is less than a day old
    assert [serial for serial, _ in replayed(observed(*times), DAY + 3)] == [4]

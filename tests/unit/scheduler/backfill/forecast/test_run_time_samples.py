"""The number of sample paths in a forecast, and the run times that each sample path draws."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from support.pool_jobs import job
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.run_time_samples import (
    RunTimeDraw,
    SampledRunTimes,
    number_of_sample_paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.pool.job import Job

ANN, ANN_ELSEWHERE, BEN = ("ann", "q"), ("ann", "p"), ("ben", "q")


class Scripted(Random):
    """A random generator that returns given numbers."""

    def __init__(self, *numbers: float) -> None:
        super().__init__()
        self.numbers = iter(numbers)

    def random(self) -> float:
        return next(self.numbers)


def sampled(*running: tuple[Job, float], keys: Iterable[tuple[str, ...]] = (ANN,)) -> SampledRunTimes[Job]:
    """Return run times at 100 s; ten runs of each group took 10 s down to 1 s, and the latest weighs most."""
    history = RunTimeHistory()
    for group in keys:
        for run_time in range(10, 0, -1):
            history.observe(job(0, 1, history_keys=group), run_time)
    return SampledRunTimes(100.0, running, history)


@pytest.mark.parametrize(("jobs", "paths"), [(0, 16), (61, 16), (62, 15), (99, 10), (111, 8), (249, 4), (1000, 3)])
def test_all_sample_paths_together_have_a_limited_number_of_jobs(jobs: int, paths: int) -> None:
    """The limit is a thousand jobs, including the forecast's own job. Paths are whole, and there are at least three."""
    number = number_of_sample_paths(jobs, 1000)
    assert (number, type(number)) == (paths, int)


def test_cheap_sample_paths_are_more_numerous() -> None:
    assert [number_of_sample_paths(jobs, 1000, most=48) for jobs in (0, 19, 20)] == [48, 48, 47]
    assert [number_of_sample_paths(jobs, 1000, least=1) for jobs in (0, 400, 600, 2000)] == [16, 2, 1, 1]


def test_a_draw_below_one_half_takes_the_quantile_of_the_user() -> None:
    """The user's quantile is drawn once, for all queues. Every other draw has a quantile of its own."""
    run_times = sampled(keys=(ANN, ANN_ELSEWHERE, BEN))
    draw = RunTimeDraw(run_times, Scripted(0.5, 0.0, 0.499, 0.9, 0.75, 0.3, 0.0, 0.2, 0.1, 0.4))
    jobs = [job(serial, 1, history_keys=keys) for serial, keys in enumerate((ANN, ANN, ANN, ANN_ELSEWHERE, BEN, BEN))]
    levels = [0.0, 0.9, 0.3, 0.9, 0.1, 0.1]
    expected = [
        distribution.quantile(level)
        for one, level in zip(jobs, levels, strict=True)
        if (distribution := run_times.whole(one)) is not None
    ]
    assert len(set(expected[:3])) == 3
    assert [draw.whole(one) for one in jobs] == expected


def test_two_users_of_a_namespace_have_different_quantiles() -> None:
    """A user's jobs in another queue or of another template have the user's quantile."""
    ann, ann_elsewhere, ben = ("n", "ann", "q", "t"), ("n", "ann", "p", "u"), ("n", "ben", "q", "t")
    run_times = sampled(keys=(ann, ann_elsewhere, ben))
    draw = RunTimeDraw(run_times, Scripted(0.0, 0.9, 0.0, 0.0, 0.1))
    keys = (ann, ann_elsewhere, ben)
    drawn = [draw.whole(job(serial, 1, history_keys=each)) for serial, each in enumerate(keys)]
    expected = [run_times.whole(job(0, 1, history_keys=each)) for each in keys]
    assert drawn == [each and each.quantile(level) for each, level in zip(expected, (0.9, 0.9, 0.1), strict=True)]


def test_half_of_the_draws_of_a_sample_path_are_equal() -> None:
    run_times = sampled()
    draw = run_times.draw(3)
    drawn = [draw.whole(job(1, 1, history_keys=ANN)) for _ in range(2000)]
    (_, most), (_, next_most) = Counter(drawn).most_common(2)
    assert 1000 < most < 1500
    assert next_most < 200
    again = run_times.draw(3)
    assert [again.whole(job(1, 1, history_keys=ANN)) for _ in range(2000)] == drawn


def test_a_job_unlike_any_other_runs_for_its_walltime() -> None:
    draw = sampled().draw(0)
    assert draw.whole(job(1, 1, 7.0, history_keys=BEN)) == 7


def test_the_drawn_run_time_of_a_running_job_has_not_passed_yet() -> None:
    """A job that has run for 8 s takes 8 s to 10 s. A job unlike any other ends at its deadline."""
    run_times = sampled((job(1, 1, history_keys=ANN), 92.0), (job(2, 1, 30.0, history_keys=BEN), 95.0))
    ends = [[(end, one.serial) for end, one in run_times.draw(sample).ends()] for sample in range(50)]
    assert {first for first, _ in ends} == {(100, 1), (101, 1), (102, 1)}
    assert {second for _, second in ends} == {(125, 2)}

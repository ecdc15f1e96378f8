"""The number of plays of a forecast."""

from __future__ import annotations

import pytest

from zonewise_scheduler.backfill.run_time_samples import MIN_SAMPLES, SAMPLES, number_of_plays


@pytest.mark.parametrize(
    ("jobs", "plays"), [(0, SAMPLES), (61, SAMPLES), (62, 15), (99, 10), (111, 8), (249, 4), (1000, MIN_SAMPLES)]
)
def test_all_plays_together_have_so_many_jobs_at_most(jobs: int, plays: int) -> None:
    """A thousand, the forecast's own job included: whole plays, and three at least."""
    number = number_of_plays(jobs, 1000)
    assert (number, type(number)) == (plays, int)


def test_more_plays_where_they_are_cheap() -> None:
    assert [number_of_plays(jobs, 1000, most=48) for jobs in (0, 19, 20)] == [48, 48, 47]
    assert [number_of_plays(jobs, 1000, least=1) for jobs in (0, 400, 600, 2000)] == [SAMPLES, 2, 1, 1]

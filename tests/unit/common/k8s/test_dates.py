"""Dates for any time that an object may declare."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.dates import LAST_TIME, parse_date, utc_clock, utc_date
from zonewise_scheduler.controller.status.pending_note import start_time
from zonewise_scheduler.controller.workloads.conditions import api_time


@given(st.floats(0.0, LAST_TIME))
def test_a_date_has_its_time(seconds: float) -> None:
    assert utc_date(seconds).timestamp() == pytest.approx(seconds, abs=1e-3)


@given(st.integers(0, int(LAST_TIME)))
def test_a_written_time_is_read_back(seconds: int) -> None:
    assert parse_date(api_time(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2026-12-01", "2026-12-01T08:00:00", "08:00Z", "2026-13-01T00:00:00Z"])
def test_a_time_without_a_time_zone_is_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_date(text)


@pytest.mark.parametrize("seconds", [LAST_TIME + 1, 2.0**63, inf])
def test_later_times_have_the_last_date(seconds: float) -> None:
    assert utc_date(seconds).isoformat() == "9999-12-31T23:59:59+00:00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (60.0, "00:01 UTC"),
        (86_399.0, "23:59 UTC"),
        (86_400.0, "1970-01-02 00:00 UTC"),
        (LAST_TIME + 1, "9999-12-31 23:59 UTC"),
        (inf, "9999-12-31 23:59 UTC"),
    ],
)
def test_a_clock_time_that_is_a_day_away_has_its_date(seconds: float, text: str) -> None:
    assert utc_clock(seconds, 0.0) == text
    assert utc_clock(1.8e9, 1.8e9 + seconds) == ("08:00 UTC" if seconds < 86_400 else "2027-01-15 08:00 UTC")


def test_a_job_of_the_longest_run_time_has_an_end() -> None:
    """A Job's activeDeadlineSeconds may have 63 bits. It must not break the notes and the read API of all others."""
    end = 1.8e9 + 2.0**63
    assert api_time(end) == "9999-12-31T23:59:59Z"
    assert start_time(end, 1.8e9) == "at 9999-12-31 23:59 UTC"

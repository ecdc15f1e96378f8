"""Dates for any time that an object may declare."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.dates import LAST_TIME, utc_clock, utc_date
from zonewise_scheduler.controller.status.pending_note import start_time
from zonewise_scheduler.controller.workloads.conditions import api_time


@given(st.floats(0.0, LAST_TIME))
def test_a_date_has_its_time(seconds: float) -> None:
    assert utc_date(seconds).timestamp() == pytest.approx(seconds, abs=1e-3)


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

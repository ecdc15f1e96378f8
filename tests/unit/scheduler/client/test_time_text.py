"""Times in tables and in JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.client.jobs.job_facts import read_job
from zonewise_scheduler.client.time_text import format_time, parse_time

LAST = "9999-12-31T23:59:59Z"


@given(st.integers(0, 253_402_300_799))
def test_times_survive_a_round_trip(seconds: int) -> None:
    assert parse_time(format_time(seconds)) == seconds


@pytest.mark.parametrize("seconds", [253_402_300_800.0, 9.1e15, float("inf")])
def test_later_times_than_supported(seconds: float) -> None:
    assert format_time(seconds) == LAST


def test_a_job_may_declare_any_walltime() -> None:
    """A job with an extremely long walltime must not prevent other jobs from being listed."""
    workload = {
        "metadata": {"name": "w", "annotations": {"zonewise.dev/max-run-seconds": str(2**53)}},
        "status": {"conditions": [
            {"type": each, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
            for each in ("QuotaReserved", "Admitted")
        ]},
    }  # fmt: skip
    assert read_job(workload).document()["deadline"] == LAST

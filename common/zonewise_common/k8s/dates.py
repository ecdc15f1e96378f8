"""Dates of times that objects declare: a Job may declare a run time of ages, and dates end with the year 9999."""

from __future__ import annotations

from datetime import UTC, datetime

LAST_TIME = 253_402_300_799.0
"""Seconds since 1970 of 9999-12-31T23:59:59Z, the last time of RFC 3339."""


def utc_date(seconds: float) -> datetime:
    """Return the date of a time in seconds since 1970; that of LAST_TIME for later ones, infinite ones too."""
    return datetime.fromtimestamp(min(seconds, LAST_TIME), UTC)

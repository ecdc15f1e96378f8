"""Dates of the times that objects declare.

A Job may declare a run time of many centuries, but dates end with the year 9999.
"""

from __future__ import annotations

from datetime import UTC, datetime

LAST_TIME = 253_402_300_799.0
"""The last time of RFC 3339, 9999-12-31T23:59:59Z, in seconds since 1970."""


def utc_date(seconds: float) -> datetime:
    """Return the date of a time in seconds since 1970. Later times, including infinity, become LAST_TIME."""
    return datetime.fromtimestamp(min(seconds, LAST_TIME), UTC)

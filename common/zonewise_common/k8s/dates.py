"""Dates and clock times of the times that objects declare.

A Job may declare a run time of many centuries, but dates end with the year 9999.
"""

from __future__ import annotations

from datetime import UTC, datetime

LAST_TIME = 253_402_300_799.0
"""The last time of RFC 3339, 9999-12-31T23:59:59Z, in seconds since 1970."""
_DAY = 86_400.0


def parse_date(text: str) -> float:
    """Return an RFC 3339 time in seconds since 1970; raise ValueError for any other text, and without a time zone."""
    date = datetime.fromisoformat(text)
    if date.tzinfo is None:
        raise ValueError("the time zone is missing")
    return date.timestamp()


def utc_date(seconds: float) -> datetime:
    """Return the date of a time in seconds since 1970. Later times, including infinity, become LAST_TIME."""
    return datetime.fromtimestamp(min(seconds, LAST_TIME), UTC)


def utc_clock(seconds: float, now: float) -> str:
    """Return a time such as "14:20 UTC"; if it is a day away or more, with its date: "2026-11-23 14:20 UTC"."""
    pattern = "%H:%M UTC" if abs(seconds - now) < _DAY else "%Y-%m-%d %H:%M UTC"
    return utc_date(seconds).strftime(pattern)

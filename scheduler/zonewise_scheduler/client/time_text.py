"""Times as text: for people in tables, and for JSON."""

from __future__ import annotations

from datetime import datetime

from zonewise_common.k8s.dates import utc_date

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def parse_time(value: object) -> float | None:
    """Return an RFC 3339 time in seconds since 1970; None for null and for anything else."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time.timestamp() if time.tzinfo is not None else None


def format_time(seconds: float | None) -> str | None:
    """Return an RFC 3339 time in UTC, at most the last one of RFC 3339; None if unknown."""
    return None if seconds is None else utc_date(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def short_duration(seconds: float | None) -> str:
    """Return "43s", "5m", "2h10m", "3d4h": the largest unit, and the next smaller one if not zero; "" for None."""
    if seconds is None:
        return ""
    rest = max(0, round(seconds))
    for index, (size, unit) in enumerate(_UNITS[:-1]):
        if rest >= size:
            smaller_size, smaller_unit = _UNITS[index + 1]
            smaller = rest % size // smaller_size
            with_smaller = smaller and not (unit == "m" and rest >= 600)
            return f"{rest // size}{unit}{smaller}{smaller_unit}" if with_smaller else f"{rest // size}{unit}"
    return f"{rest}s"


def time_since(time: float | None, now: float) -> str:
    """Return "2h10m ago"; "" if the time is unknown."""
    return "" if time is None else f"{short_duration(now - time)} ago"


def time_until(time: float | None, now: float) -> str:
    """Return "in 2h10m" or "now"; "" if the time is unknown."""
    if time is None:
        return ""
    return "now" if time <= now else f"in {short_duration(time - now)}"

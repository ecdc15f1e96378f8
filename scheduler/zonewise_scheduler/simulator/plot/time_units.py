"""Lengths of time as text and on axes."""

from __future__ import annotations

from typing import NamedTuple

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


class TimeUnit(NamedTuple):
    """A unit of an axis."""

    name: str
    seconds: float


_UNITS = (TimeUnit("days", DAY), TimeUnit("hours", HOUR), TimeUnit("minutes", MINUTE), TimeUnit("seconds", 1.0))
_SHORT = {"days": "d", "hours": "h", "minutes": "min", "seconds": "s"}
TICKS = {
    1.0: "1 s", 10.0: "10 s", MINUTE: "1 min", 10 * MINUTE: "10 min", HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 day",
    7 * DAY: "7 days", 30 * DAY: "30 days", 365 * DAY: "1 year",
}  # fmt: skip
"""Common lengths, about evenly spaced on a logarithmic axis."""


_ROUND_LENGTHS = (
    1.0, 3.0, 10.0, 30.0, MINUTE, 3 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 10 * HOUR, DAY, 3 * DAY,
    10 * DAY, 30 * DAY, 100 * DAY,
)  # fmt: skip


def axis_unit(length: float) -> TimeUnit:
    """Return the unit of an axis of this length in seconds."""
    return next((unit for unit in _UNITS if length >= 3 * unit.seconds), _UNITS[-1])


def excerpt_unit(length: float, unit: TimeUnit) -> TimeUnit:
    """Return the unit for a part of an axis: that of the whole axis, unless the part is too short for it."""
    return unit if length >= unit.seconds / 2 else axis_unit(length)


def format_length(length: float) -> str:
    """Return a length in seconds as a number with its unit."""
    unit = next((unit for unit in _UNITS if length >= 1.5 * unit.seconds), _UNITS[-1])
    number = f"{length / unit.seconds:.1f}".removesuffix(".0")
    return f"{number} {unit.name.removesuffix('s') if number == '1' else unit.name}"


def format_short(length: float) -> str:
    """Return a round length as short text."""
    unit = next((unit for unit in _UNITS if length >= unit.seconds), _UNITS[-1])
    return f"{length / unit.seconds:g} {_SHORT[unit.name]}"


def round_limits(longest: float, count: int) -> list[float]:
    """Return the `count` greatest round lengths below a length, ascending; each is about a third of the next."""
    return [limit for limit in _ROUND_LENGTHS if limit < longest][-count:]

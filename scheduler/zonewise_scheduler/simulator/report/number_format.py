"""Numbers as text. Numbers in a row share one unit, and have as many decimals as the smallest needs."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_AVAILABLE = "-"
"""Text for an unknown or infinite number."""

_UNITS = (("d", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))
_MIN_UNITS = 2
"""Minimum number of units of the largest value: 90 min and 36 h are easier to read than 1.5 h and 1.5 d."""
_MIN_VALUE = 0.1
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BYTE_RESOURCES = ("memory", "ephemeral-storage")
_HUGEPAGES = "hugepages-"
_MAX_DECIMALS = 3


def format_durations(values: Sequence[float | None]) -> list[str]:
    """Return seconds as text in one unit: "1.58 h"."""
    some = [value for value in values if value is not None and isfinite(value) and value > 0]
    for name, size in _UNITS:
        if name == "s" or (some and max(some) >= _MIN_UNITS * size and min(some) >= _MIN_VALUE * size):
            scaled = [None if value is None else value / size for value in values]
            return [text if text == NOT_AVAILABLE else f"{text} {name}" for text in format_numbers(scaled)]
    raise AssertionError("seconds take every value")


def format_numbers(values: Sequence[float | None]) -> list[str]:
    """Return numbers as text with equal decimals; integers and large numbers have none."""
    known = [value for value in values if value is not None and isfinite(value)]
    decimals = (
        0 if all(isinstance(value, int) for value in known) else _decimals([abs(value) for value in known if value])
    )
    return [NOT_AVAILABLE if value is None or not isfinite(value) else f"{value:,.{decimals}f}" for value in values]


def format_percents(values: Sequence[float | None]) -> list[str]:
    """Return shares of one as text: "68.6 %"."""
    return [NOT_AVAILABLE if value is None or not isfinite(value) else f"{100 * value:.1f} %" for value in values]


def format_duration(seconds: float) -> str:
    """Return seconds as short text: "43 s", "2 h"."""
    for name, size in _UNITS:
        if seconds >= _MIN_UNITS * size or name == "s":
            return f"{seconds / size:.0f} {name}"
    raise AssertionError("seconds take every value")


def format_amount(resource: str, size: int) -> str:
    """Return an amount of a resource as text: "100 processors", "10,000 cpu", "9.77 TiB memory"."""
    if resource == "cpu":
        return f"{size / 1000:,.10g} cpu"
    if resource in _BYTE_RESOURCES or resource.startswith(_HUGEPAGES):
        power = min(max(size.bit_length() - 1, 0) // 10, len(_BINARY) - 1)
        return f"{size / (1 << 10 * power):,.4g} {_BINARY[power]} {resource}"
    return f"{size:,} {resource}"


def _decimals(sizes: Sequence[float]) -> int:
    """Return the decimals that show three digits of the largest number and two of the smallest."""
    if not sizes:
        return 0
    decimals = max(2 - floor(log10(max(sizes))), 1 - floor(log10(min(sizes))))
    return min(max(decimals, 0), _MAX_DECIMALS)

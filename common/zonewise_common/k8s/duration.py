"""Durations in API objects and in Kueue's configuration: "1h30m", "5m", "0s" (Go's time.ParseDuration)."""

from __future__ import annotations

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = r"(?:[0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})"
_PART = re.compile(rf"({_NUMBER})(ns|us|µs|ms|s|m|h)", re.ASCII)
_MAX_SECONDS = (1 << 63) / 1e9
"""A time.Duration is less: it is a 64-bit number of nanoseconds."""
_WHOLE = re.compile(rf"(?:{_NUMBER}(?:ns|us|µs|ms|s|m|h)){{1,16}}", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds of a duration that is not negative. Raises ValueError with the text for any other one."""
    if text == "0":
        return 0.0
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if _WHOLE.fullmatch(text) is None or seconds >= _MAX_SECONDS:
        raise ValueError(f"not a duration, such as 1h30m or 45s: {text[:80]!r}")
    return seconds


def format_duration(seconds: float) -> str:
    """Return a duration in seconds as a text that parse_duration() reads."""
    return f"{seconds:.9f}s"

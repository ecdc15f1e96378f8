"""Argument types for argparse. Each raises ArgumentTypeError with the expected form."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime
from math import inf

from zonewise_common.k8s.dates import parse_date
from zonewise_scheduler.simulator.advice.goal import Goal, parse_goal

UNITS = {"s": 1.0, "": 1.0, "ms": 1e-3, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds of each unit of a duration."""
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)
_MOST_DIGITS = 15


def duration(text: str) -> float:
    """Return the seconds of 90, 90s, 15m, 24h, 7d or 500ms; "never" is infinite."""
    if text == "never":
        return inf
    match = _DURATION.fullmatch(text)
    if match is None or len(match[1]) > _MOST_DIGITS:
        raise ArgumentTypeError(f"{text!r} is not a duration, such as 90s, 15m, 24h or 7d")
    return float(match[1]) * UNITS[match[2]]


def finite_duration(text: str) -> float:
    """Return the seconds of a duration as duration() does, but reject "never"."""
    seconds = duration(text)
    if seconds == inf:
        raise ArgumentTypeError(f"{text!r} is not a finite duration, such as 90s, 15m, 24h or 7d")
    return seconds


def span(text: str) -> tuple[float, float]:
    """Return the minimum and maximum seconds of 2s, 1-2s or 500ms-2s; the first defaults to the unit of the second."""
    first, dash, second = text.partition("-")
    if not dash:
        second = first
    elif first[-1:].isdigit():
        first += second.lstrip("0123456789.")
    shortest, longest = duration(first), duration(second)
    if shortest > longest or longest == inf:
        raise ArgumentTypeError(f"{text!r} is not a span of time, such as 2s or 1-2s")
    return shortest, longest


def rate(text: str) -> tuple[float, int]:
    """Return requests per second and the burst of 50/100; the default burst is the requests of one second."""
    per_second, slash, burst = text.partition("/")
    if not _NUMBER.fullmatch(per_second) or not float(per_second) or (slash and not _is_count(burst)):
        raise ArgumentTypeError(f"{text!r} is not a rate, such as 50/100: requests per second, and burst")
    return float(per_second), int(burst) if slash else max(1, int(float(per_second)))


def moment(text: str) -> float:
    """Return the seconds since 1970 of 1790000000.5, or of an RFC 3339 time such as 2026-11-22T12:00:00Z."""
    try:
        seconds = float(text) if _NUMBER.fullmatch(text) else parse_date(text)
        datetime.fromtimestamp(seconds, UTC)  # raises if the year has more than four digits
    except (ValueError, OverflowError, OSError):
        raise ArgumentTypeError(f"{text!r} is not a time, such as 2026-11-22T12:00:00Z") from None
    return seconds


def positive(text: str) -> float:
    """Return a positive number."""
    if not _NUMBER.fullmatch(text) or not float(text):
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return float(text)


def positives(text: str) -> list[float]:
    """Return the distinct positive numbers of a comma-separated list."""
    return list(dict.fromkeys(positive(number.strip()) for number in text.split(",")))


def count(text: str) -> int:
    """Return a positive integer."""
    if not _is_count(text):
        raise ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def advised_setting(text: str) -> tuple[str, str]:
    """Return the setting nodes, reserve-after, quota or quota:QUEUE:RESOURCE:FLAVOR, and the text after the colon."""
    setting, colon, target = text.partition(":")
    if setting not in ("nodes", "quota", "reserve-after") or (colon and (setting != "quota" or not target)):
        raise ArgumentTypeError(f"{text!r} is not a setting: write nodes, reserve-after or quota:QUEUE:RESOURCE:FLAVOR")
    return setting, target


def goal(text: str) -> Goal:
    """Return a goal such as "p95 wait of queue gpu <= 1h"."""
    try:
        return parse_goal(text, finite_duration)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def names(text: str) -> list[str]:
    """Return the distinct names of a comma-separated list, stripped of blanks."""
    distinct = dict.fromkeys(name.strip() for name in text.split(","))
    if "" in distinct:
        raise ArgumentTypeError(f"{text!r} is not a list of names, such as easy,greedy")
    return list(distinct)


def _is_count(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,15}", text, re.ASCII) is not None and int(text) > 0

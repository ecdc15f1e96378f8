"""Whole numbers and versions as Node Feature Discovery's operators read them."""

from __future__ import annotations

import re
from typing import NamedTuple

_INTEGER = re.compile(r"[+-]?[0-9]+")
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_MAX_DIGITS = 4000
"""Longer texts are out of range except for leading zeros, and Python refuses to convert them (sys.int_info)."""

_IDENTIFIERS = r"[0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*"
_VERSION = re.compile(rf"v?([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?")
_MAX_VERSION = 256
"""Maximum bytes of a version (MaxVersionLen)."""
_HIGHEST_PART = (1 << 64) - 1
_LEADING_ZERO = re.compile(r"0[0-9]+")


class Version(NamedTuple):
    """A semantic version without its pre-release, which the operators ignore; versions compare by their parts."""

    major: int
    minor: int
    patch: int


def parse_integer(text: str) -> int:
    """Return the number that Go's strconv.Atoi would read: base 10, 64 bits, ASCII digits. Raises ValueError."""
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a whole number")
    digits = text.lstrip("+-").lstrip("0") or "0"
    number = int(digits) if len(digits) <= _MAX_DIGITS else _HIGHEST + 1
    if text.startswith("-"):
        number = -number
    if not _LOWEST <= number <= _HIGHEST:
        raise ValueError(f"{text[:100]!r} is out of the range of 64 bits")
    return number


def parse_version(text: str) -> Version:
    """Return a version, as tolerantly as NewVersion of github.com/Masterminds/semver/v3 reads it. Raises ValueError.

    "5", "5.4" and "v1.2.3" are versions; leading zeros are accepted except in the numbers of a pre-release.
    """
    match = _VERSION.fullmatch(text) if len(text.encode(errors="replace")) <= _MAX_VERSION else None
    if match is None:
        raise ValueError(f"{text[:100]!r} is not a version")
    parts = [int(part or "0") for part in match.groups()[:3]]
    if max(parts) > _HIGHEST_PART:
        raise ValueError(f"{text[:100]!r} is not a version: a part is out of the range of 64 bits")
    if any(_LEADING_ZERO.fullmatch(part) for part in (match[4] or "").split(".")):
        raise ValueError(f"{text[:100]!r} is not a version: a number of its pre-release begins with 0")
    return Version(parts[0], parts[1], parts[2])

"""One feature file of Node Feature Discovery: lines of `name=value`, with directives.

The rules are those of NFD's source/local/local.go (parseFeatureFile, parseDirectives). A line without a value has the
value "true". Lines that begin with "#" are comments, or directives if they begin with "# +":

| directive | effect |
|---|---|
| expiry-time=TIME | from that time on, the lines up to the next such directive are dropped |
| no-feature | the next line sets no raw feature, and removes one that an earlier line has set |
| no-label | the same for its label |

A damaged directive has no effect. A line that is not UTF-8 is left out; NFD would publish replacement characters.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from zonewise.nfd.types import LocalFeatures, LocalLabel
from zonewise.rules.white_space import WHITE_SPACE

_T = TypeVar("_T")

_DIRECTIVE = "# +"
_MAX_PROBLEMS = 10
"""Maximum number of problems that are described for one file. A file of another kind has a problem in every line."""

_NO_FEATURE, _NO_LABEL = "no-feature", "no-label"

_RFC3339 = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d{1,2}):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII)
"""Times that Go's time.Parse accepts for time.RFC3339, which include a one-digit hour and a decimal comma."""


class _Directives:
    """The effect of a file's directives so far on the next line."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self.expired = False
        self.skipped: set[str] = set()

    def apply(self, line: str) -> None:
        """Apply a line that contains a directive. Raises ValueError."""
        key, _, text = line.removeprefix(_DIRECTIVE).partition("=")
        if key == "expiry-time":
            self.expired = _parse_time(text.strip(WHITE_SPACE)) < self._now
        elif key in (_NO_FEATURE, _NO_LABEL):
            self.skipped.add(key)
        else:
            raise ValueError(
                f"{line[:100]!r} is not a directive: the directives are expiry-time, {_NO_FEATURE}, {_NO_LABEL}"
            )


def parse_feature_file(content: bytes, name: str, now: datetime) -> LocalFeatures:
    """Return the features and labels of a file, and its problems. `name` is for messages; `now` has a time zone."""
    features: dict[str, str] = {}
    labels: dict[str, LocalLabel] = {}
    problems: list[str] = []
    directives = _Directives(now)
    for number, raw_line in enumerate(content.split(b"\n"), 1):
        origin = f"{name}:{number}"
        try:
            line = raw_line.decode().strip(WHITE_SPACE)
            if line.startswith(_DIRECTIVE):
                directives.apply(line)
        except ValueError as error:
            problems.append(f"{origin}: {_reason(error)}; the line is ignored")
            continue
        if not line or line.startswith("#") or directives.expired:
            continue
        key, equals, text = line.partition("=")
        value = text if equals else "true"
        _set(features, key, None if _NO_FEATURE in directives.skipped else value)
        _set(labels, key, None if _NO_LABEL in directives.skipped else LocalLabel(value, origin))
        directives.skipped.clear()
    return LocalFeatures(features, labels, first_problems(problems, name, "lines are ignored"))


def _set(elements: dict[str, _T], key: str, value: _T | None) -> None:
    if value is None:
        elements.pop(key, None)
    else:
        elements[key] = value


def _parse_time(text: str) -> datetime:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"expiry-time {text[:100]!r} is not a time, such as 2030-01-31T12:00:00Z")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    sign, hours, minutes = match[8], int(match[9] or 0), int(match[10] or 0)
    if hours > 24 or minutes > 60:  # Go's limits of an offset
        raise ValueError(f"expiry-time {text[:100]!r}: the offset is out of range")
    fraction = int((match[7] or "0")[:6].ljust(6, "0"))
    try:
        # a datetime has no year 0, which is in the past as well
        local = datetime(year or 4, month, day, hour, minute, second, fraction, UTC)
        offset = timedelta(hours=hours, minutes=minutes)
        return local + offset if sign == "-" else local - offset
    except (ValueError, OverflowError) as error:
        raise ValueError(f"expiry-time {text[:100]!r} is not a time: {error}") from error


def _reason(error: ValueError) -> str:
    return f"is not UTF-8: {error.object[:100]!r}" if isinstance(error, UnicodeDecodeError) else str(error)


def first_problems(problems: list[str], name: str, effect: str) -> tuple[str, ...]:
    """Return the first problems of a file, and the number of the others if there are any."""
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    return (*problems[:_MAX_PROBLEMS], f"{name}: {len(problems) - _MAX_PROBLEMS} more {effect}")

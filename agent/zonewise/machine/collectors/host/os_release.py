"""The distribution that the machine runs: os-release(5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

PATHS = ("etc/os-release", "usr/lib/os-release")
"""The second path is the usual target of the first, in case the link leads out of the mounted or captured tree."""

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)")
_ESCAPED = re.compile(r"\\(.)")
_MOST_FIELDS = 64  # distributions have about 15


def _collect(read: Reader, machine: Machine) -> Machine:
    for path in PATHS:
        content = read.raw(path)
        if content is None:
            continue
        fields = _fields(content.decode("utf-8", "backslashreplace"))
        if fields:
            if not content.endswith(b"\n"):
                read.problem(path, "is truncated: it has no newline", "the part before the cut")
            read.source("os_release", path, len(fields), "the assignments in the file, without their quotes")
            return machine._replace(os_release=fields)
        read.problem(path, "contains no assignment", "other sources of the distribution")
    raise NoData("no os-release")


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in text.splitlines()[: 4 * _MOST_FIELDS]:
        assignment = _ASSIGNMENT.fullmatch(line.strip())
        if assignment and assignment[2].isprintable() and len(fields) < _MOST_FIELDS:
            fields[assignment[1]] = _unquoted(assignment[2])
    return fields


def _unquoted(value: str) -> str:
    """Return a value as a shell would read it: os-release(5) allows both kinds of quotes and no substitution."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1] if value[0] == "'" else _ESCAPED.sub(r"\1", value[1:-1])
    return value


def _volatile(peek: Peek) -> Hashable:
    """Notice an update of the distribution."""
    return peek.content(PATHS[0])


COLLECTOR = Collector("os_release", provides=("os_release",), needs=(), collect=_collect, volatile=_volatile)

"""Replays the errors of a captured machine: the kernel's errors for files that had no content to copy.

A file may exist without being readable: the speed of a link that is down is EINVAL, an attribute only for root is
EACCES. An archive cannot represent that. So a capture lists the errors in a separate file, and a replay raises them
like the kernel.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.files import Files

ERRORS = "zonewise/errors"
"""Each line has an operation, the name of an error, and a path: "read EINVAL sys/class/net/eth0/speed".

An error without a name is listed by its number: a driver may return one that only the kernel uses, such as ENOTSUPP,
524.
"""

_NUMBER = re.compile("[1-9][0-9]{0,3}")  # number of an error, at most 4,095: include/linux/err.h MAX_ERRNO

READ, NAMES, LINK = "read", "names", "link"

Operation = tuple[str, str]
"""The operation, and its path."""


def with_recorded_errors(files: Files) -> Files:
    """Return the files of a capture with the errors that it recorded; other files unchanged."""
    try:
        errors = parse_errors(files.read(ERRORS))
    except OSError:
        return files
    return _ReplayedFiles(files, errors)


def render_errors(errors: dict[Operation, int]) -> bytes:
    """Return the content of the file ERRORS."""
    lines = [
        f"{done} {errno.errorcode.get(number, number)} {path}\n" for (done, path), number in sorted(errors.items())
    ]
    return "".join(lines).encode("utf-8", "surrogateescape")


def parse_errors(content: bytes) -> dict[Operation, int]:
    """Return the errors in the file ERRORS; damaged lines are skipped."""
    errors: dict[Operation, int] = {}
    for line in content.decode("utf-8", "surrogateescape").split("\n"):
        done, _, rest = line.partition(" ")
        name, _, path = rest.partition(" ")
        number = _error_number(name)
        if number is not None and path:
            errors[done, path] = number
    return errors


def _error_number(name: str) -> int | None:
    """Return the number of an error given by its name or number; None for anything else."""
    if _NUMBER.fullmatch(name):
        return int(name)
    number = getattr(errno, name, None) if name.isupper() else None
    return number if isinstance(number, int) else None


class _ReplayedFiles:
    """Files that raise the recorded error if the capture has one."""

    def __init__(self, files: Files, errors: dict[Operation, int]) -> None:
        self.live = files.live
        self._files = files
        self._errors = errors

    def read(self, path: str) -> bytes:
        """Return a file's content; see Files."""
        self._raise_recorded(READ, path)
        return self._files.read(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; see Files."""
        self._raise_recorded(NAMES, path)
        return self._files.names(path)

    def link(self, path: str) -> str:
        """Return the text of a symbolic link; see Files."""
        self._raise_recorded(LINK, path)
        return self._files.link(path)

    def _raise_recorded(self, done: str, path: str) -> None:
        number = self._errors.get((done, path))
        if number is not None:
            raise OSError(number, os.strerror(number), path)

"""The lines of a text file, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.terminal import printable
from zonewise_scheduler.fabric.types import FabricError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    NumberedLines = Iterable[tuple[int, str]]

MAX_LINE = 1 << 20
"""Maximum bytes of a line. A line of topology.conf may list all nodes of a cluster."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN = 60


def numbered_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines without their ends, counted from 1. Raises FabricError for a line that is not text."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        line = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        if len(line) > MAX_LINE:
            raise FabricError(f"{name}, line {number}: longer than {MAX_LINE} bytes: this is not a text file")
        if b"\0" in line:
            raise FabricError(f"{name}, line {number}: contains a null byte: this is not a text file")
        yield number, line.decode("utf-8", "replace").rstrip("\r\n")


def excerpt(text: str) -> str:
    """Return the beginning of a value for a message, in quotes and on one line."""
    return f'"{printable(text[:_SHOWN])}{"..." if len(text) > _SHOWN else ""}"'

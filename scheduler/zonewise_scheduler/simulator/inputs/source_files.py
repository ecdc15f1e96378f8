"""What is in a file, or comes on standard input: each is opened once, and gzip is undone."""

from __future__ import annotations

import gzip
import sys
import zlib
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_scheduler.simulator.inputs.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import BinaryIO

    Content = BufferedReader | gzip.GzipFile

STANDARD_INPUT = "-"
"""The source of that name."""

_GZIP = b"\x1f\x8b"


def source_exists(source: str) -> bool:
    """Tell whether there is such a file or directory, or it is "-"; raise InputError where nobody can tell."""
    try:
        return source == STANDARD_INPUT or (source != "" and Path(source).exists())
    except OSError as error:  # for a name that is too long, until Python 3.12
        raise InputError(source, f"cannot be read: {error.strerror}") from error


def source_name(source: str) -> str:
    """Return how a source is called where something is said of it."""
    return "standard input" if source == STANDARD_INPUT else source


def is_directory(source: str) -> bool:
    """Tell whether it is a directory."""
    return source != STANDARD_INPUT and Path(source).is_dir()


@contextmanager
def open_source(source: str) -> Generator[Content]:
    """Open a file, or standard input with "-"; raise InputError where it cannot be read, then or later."""
    try:
        if source == STANDARD_INPUT:
            yield _plain(_whole(_standard_input()))
        else:
            path = Path(source)
            with path.open("rb") as file:
                yield _plain(file if path.is_file() else _whole(file))
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(source_name(source), f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] -- it is, where a process begins without one
        raise InputError(source_name(STANDARD_INPUT), "cannot be read: it is closed")
    return sys.stdin.buffer


def _whole(file: BinaryIO) -> BufferedReader:
    """Return what a pipe holds, of which the begin could otherwise not be looked at in whole."""
    return BufferedReader(BytesIO(file.read()))


def _plain(file: BufferedReader) -> Content:
    return gzip.GzipFile(fileobj=file) if file.peek(len(_GZIP)).startswith(_GZIP) else file

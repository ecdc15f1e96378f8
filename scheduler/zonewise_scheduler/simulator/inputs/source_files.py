"""Sources: files and standard input. Each source is opened once, and gzip data are decompressed."""

from __future__ import annotations

import codecs
import gzip
import sys
import zlib
from contextlib import contextmanager
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import BinaryIO

    Content = BufferedReader | gzip.GzipFile

STANDARD_INPUT = "-"
"""Name of the source that means standard input."""

_GZIP = b"\x1f\x8b"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class InputError(ValueError):
    """An invalid input; the message names the file, the field and its value, if any."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where


def source_exists(source: str) -> bool:
    """Return whether a file or directory exists, or the source is "-". Raises InputError if this is unknown."""
    try:
        return source == STANDARD_INPUT or (source != "" and Path(source).exists())
    except OSError as error:  # for a name that is too long, until Python 3.12
        raise InputError(source, f"cannot be read: {error.strerror}") from error


def source_name(source: str) -> str:
    """Return the name of a source in messages."""
    return "standard input" if source == STANDARD_INPUT else source


def is_directory(source: str) -> bool:
    """Return whether the source is a directory."""
    return source != STANDARD_INPUT and Path(source).is_dir()


@contextmanager
def open_source(source: str) -> Generator[Content]:
    """Open a file, or standard input with "-", at its text: a byte order mark of UTF-8 is skipped.

    Raises InputError if it is UTF-16, or if it cannot be read, now or later.
    """
    try:
        if source == STANDARD_INPUT:
            yield _text(_decompressed(_read_all(_standard_input())), source)
        else:
            path = Path(source)
            with path.open("rb") as file:
                yield _text(_decompressed(file if path.is_file() else _read_all(file)), source)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(source_name(source), f"cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _standard_input() -> BinaryIO:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] -- it is, where a process begins without one
        raise InputError(source_name(STANDARD_INPUT), "cannot be read: it is closed")
    return sys.stdin.buffer


def _read_all(file: BinaryIO) -> BufferedReader:
    """Return the contents of a pipe in a buffer, so that callers can peek at its head."""
    return BufferedReader(BytesIO(file.read()))


def _decompressed(file: BufferedReader) -> Content:
    return gzip.GzipFile(fileobj=file) if file.peek(len(_GZIP)).startswith(_GZIP) else file


def _text(content: Content, source: str) -> Content:
    """Return the contents without the byte order mark that programs on Windows write."""
    head = content.peek(len(codecs.BOM_UTF8))
    if head.startswith(_UTF16):
        raise InputError(source_name(source), "cannot be read: it is UTF-16 text: save it as UTF-8")
    if head.startswith(codecs.BOM_UTF8):
        content.read(len(codecs.BOM_UTF8))
    return content

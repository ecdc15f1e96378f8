"""Finds records in the lines of files of records and of the controller's log, in either format of the log.

Lines without a record are skipped, as a log has many. A last line without a newline is skipped if it is torn. A record
whose run has been read already is skipped, since two leaders may have recorded it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from zonewise_scheduler.accounting.run_record import LINE_START, LOGGER, RunRecord, decode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LOGGER = LOGGER.encode()
_TEXT_LINE = re.compile(rb"(?:\S+ ){1,2}INFO +" + re.escape(_LOGGER) + rb": (?=" + re.escape(LINE_START) + rb")")
"""What precedes a record in the text format of the log, with one prefix of a log pipeline. Other messages may quote
what users have written."""
_MAX_VALUE = 60
"""Maximum number of characters of a value in a problem."""


class _LogLine(msgspec.Struct):
    """The fields of a JSON line of the log that matter."""

    message: str
    logger: str


_LOG_DECODER = msgspec.json.Decoder(_LogLine)


class LineProblem(NamedTuple):
    """A record that cannot be read."""

    file: str
    line: int
    """Number of the line, from 1."""
    problem: str
    """The field, and what is expected of it."""

    def __str__(self) -> str:
        return f"{self.file}: line {self.line}: {self.problem}"


class RecordReader:
    """Reads the records of any number of files, and keeps the problems of their lines."""

    def __init__(self) -> None:
        self.problems: list[LineProblem] = []
        self.duplicates = 0
        """Number of records that were skipped because their run had been read already."""
        self._identities: set[int] = set()
        """Hashes of the runs read so far: a tenth of the memory of their names."""

    def read(self, lines: Iterable[bytes], file: str) -> Iterator[RunRecord]:
        """Yield the records of a file. An invalid one is added to the problems."""
        for number, line in enumerate(lines, 1):
            found = find_record(line)
            if found is None:
                continue
            try:
                record = decode_record(found)
            except msgspec.DecodeError as error:
                if line.endswith(b"\n"):
                    self.problems.append(LineProblem(file, number, _problem(error, found)))
                continue
            identity = hash(record.identity)
            if identity in self._identities:
                self.duplicates += 1
                continue
            self._identities.add(identity)
            yield record


def find_record(line: bytes) -> bytes | None:
    """Return the record in a line of a file of records or of a log; None: it has none."""
    if line.startswith(LINE_START):
        return line
    if _LOGGER not in line:
        return None
    if (text := _TEXT_LINE.match(line)) is not None:
        return line[text.end() :]
    try:
        entry = _LOG_DECODER.decode(line[line.find(b"{") :])
    except msgspec.DecodeError:
        return None
    message = entry.message.encode()
    return message if entry.logger == LOGGER and message.startswith(LINE_START) else None


def _problem(error: msgspec.DecodeError, record: bytes) -> str:
    """Return the field, its problem and its value."""
    message, _, path = str(error).partition(" - at `$.")
    field = path.removesuffix("`")
    if not field:
        return message
    try:
        value: object = msgspec.json.decode(record)
    except msgspec.DecodeError:
        return f"{field}: {message}"
    name = field.partition(".")[0].partition("[")[0]
    shown = value.get(name) if isinstance(value, dict) else value  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return f"{field}: {message}: {repr(shown)[:_MAX_VALUE]}"  # pyright: ignore[reportUnknownArgumentType]

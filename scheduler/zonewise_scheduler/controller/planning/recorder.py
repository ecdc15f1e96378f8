"""A recording: each entry that the planner is fed, and what each pass decided, one JSON document a line.

`zonewise simulate --replay` feeds the entries to a planner of its own and compares the decisions, byte for byte.
"""

from __future__ import annotations

import logging
from typing import Any, BinaryIO

import msgspec

log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder(order="deterministic")


class Recorder:
    """Appends to an open file. A failure to write ends the recording, never the queue."""

    def __init__(self, file: BinaryIO, header: dict[str, Any]) -> None:
        """`header`: the policy and settings of the planner, the first line."""
        self._file: BinaryIO | None = file
        self.record(header)

    def record(self, document: dict[str, Any]) -> None:
        """Append an entry, or the plan of the last one."""
        if self._file is None:
            return
        line = _ENCODER.encode(document) + b"\n"
        try:
            while line:  # a file without a buffer may take a part, as one on a full disk
                line = line[self._file.write(line) :]
        except OSError as error:
            log.error("the recording ends: %s", error)  # noqa: TRY400 -- the reason says all
            self._file = None

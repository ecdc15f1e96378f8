"""A recording: each entry fed to the planner, and the decisions of each pass, as one JSON document per line.

`zonewise simulate --replay` feeds the entries to its own planner and compares the decisions byte for byte.
"""

from __future__ import annotations

import logging
from typing import Any, BinaryIO

import msgspec

log = logging.getLogger(__name__)

_ENCODER = msgspec.json.Encoder(order="deterministic")


class Recorder:
    """Appends to an open file. A failed write ends the recording, but never the queue."""

    def __init__(self, file: BinaryIO, header: dict[str, Any]) -> None:
        """Write the first line; `header`: the policy and settings of the planner."""
        self._file: BinaryIO | None = file
        self.record(header)

    def record(self, document: dict[str, Any]) -> None:
        """Append an entry, or the plan that followed the last one."""
        if self._file is None:
            return
        line = _ENCODER.encode(document) + b"\n"
        try:
            while line:  # an unbuffered file may write only a part, for example on a full disk
                line = line[self._file.write(line) :]
        except OSError as error:
            log.error("the recording ends: %s", error)  # noqa: TRY400 -- the reason says all
            self._file = None

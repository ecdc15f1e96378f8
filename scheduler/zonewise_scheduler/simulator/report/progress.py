"""Shows the progress of a simulation in one terminal line, which is removed at the end."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, TextIO

from zonewise_scheduler.simulator.report.number_format import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

INITIAL_DELAY = 0.5
"""Seconds before the line first appears: a shorter simulation needs no progress."""
_PERIOD = 0.1
"""Seconds between two updates."""
_DEFAULT_WIDTH = 100


class ProgressLine:
    """Shows the share of finished jobs, or of other things, on a terminal."""

    def __init__(
        self,
        stream: TextIO,
        title: str,
        width: int,
        clock: Callable[[], float] = time.monotonic,
        things: str = "jobs",
    ) -> None:
        """Write to a terminal of this width."""
        self._things = things
        self._stream = stream
        self._title = title
        self._width = width
        self._clock = clock
        self._started = clock()
        self._next_update = self._started + INITIAL_DELAY
        self._first: float | None = None
        self._line = ""

    def update(self, done: int, total: int, now: float | None = None) -> None:
        """Update the number of finished jobs and, if there is a single clock, the simulated time."""
        if self._first is None:
            self._first = now
        simulated = None if now is None or self._first is None else now - self._first
        wall = self._clock()
        if wall >= self._next_update:
            self._next_update = wall + _PERIOD
            self._write(self._text(done, max(total, done, 1), simulated, wall - self._started))

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._line:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _text(self, done: int, total: int, simulated: float | None, elapsed: float) -> str:
        """Return as many parts as the width allows, most important first."""
        parts = (
            f"{100 * done / total:3.0f} %",
            f"{format_duration(elapsed * (total - done) / done)} left" if done else "begun",
            self._title,
            f"{done:,} of {total:,} {self._things}",
            *([] if simulated is None else [f"{format_duration(simulated)} simulated"]),
        )
        text = parts[0]
        for part in parts[1:]:
            longer = f"{text}  {part}"
            if len(longer) >= self._width:  # a line that fills the last column would wrap
                break
            text = longer
        return text

    def _write(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(len(self._line)))
        self._stream.flush()
        self._line = text


def terminal_width(stream: TextIO) -> int:
    """Return the columns of a terminal, from $COLUMNS or the terminal itself; a default for any other stream."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_WIDTH
    except (OSError, ValueError):  # not a terminal, or not even a file
        return _DEFAULT_WIDTH

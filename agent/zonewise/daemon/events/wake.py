"""Wakes the loop from other threads and by signals."""

from __future__ import annotations

import os
import signal
from collections import deque
from typing import TYPE_CHECKING

from zonewise.daemon.events.reasons import Reason

if TYPE_CHECKING:
    from types import FrameType

_SIGNALS = {signal.SIGTERM: Reason.STOP, signal.SIGINT: Reason.STOP, signal.SIGHUP: Reason.RELOAD}


class Wake:
    """Accepts reasons from any thread."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._reasons: deque[Reason] = deque()

    def __call__(self, reason: Reason) -> None:
        """Wake the waiting thread; returns at once."""
        self._reasons.append(reason)  # before the counter: a thread that reads the counter finds the reason
        os.eventfd_write(self._descriptor, 1)

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are reasons."""
        return self._descriptor

    def read(self) -> set[Reason]:
        """Return the pending reasons."""
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            return set()
        return {self._reasons.popleft() for _ in range(len(self._reasons))}

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


class Signals:
    """SIGTERM and SIGINT as STOP, SIGHUP as RELOAD. Constructed once, by the main thread; active from then on.

    Python runs handlers between two instructions of the main thread, so a signal right before a wait would be handled
    only after the wait. The interpreter's C handler writes the signal's number into a pipe at once
    (signal.set_wakeup_fd), in whatever thread it runs. That pipe wakes the loop and is read here; the handlers do
    nothing.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = {number: signal.signal(number, _nothing) for number in _SIGNALS}
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are signals."""
        return self._reader

    def read(self) -> set[Reason]:
        """Return the reasons of the pending signals."""
        try:
            numbers = os.read(self._reader, 4096)
        except BlockingIOError:
            return set()
        return {_SIGNALS[signal.Signals(number)] for number in numbers if number in _SIGNALS}

    def close(self) -> None:
        """Restore the previous handlers."""
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Replace the default action, which would end the process."""

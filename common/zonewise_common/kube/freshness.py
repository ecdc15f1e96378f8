"""How long ago the copy of a reflector was last known to be current. This module does no I/O."""

from __future__ import annotations

import threading
import time


class Freshness:
    """Signs of life of one watch; thread-safe. Times are seconds on a monotonic clock.

    | event | the copy is known to be current until |
    |---|---|
    | a listing begins, and succeeds | its beginning |
    | a watch opens, an event, a bookmark | this moment, and while the watch stays open for `due` seconds more |
    | the watch ends | this moment, or the end of these `due` seconds if that was earlier |
    """

    def __init__(self, due: float, now: float | None = None) -> None:
        """Set the number of seconds after which the next sign of life of an open watch is due."""
        self._due = due
        self._lock = threading.Lock()
        self._last_sign = time.monotonic() if now is None else now
        self._current_until = self._last_sign
        self._is_open = False

    def confirm(self, now: float) -> None:
        """Record a listing, an event or a bookmark."""
        with self._lock:
            self._confirm(now)

    def begin(self, now: float) -> None:
        """Record that a watch is open."""
        with self._lock:
            self._confirm(now)
            self._is_open = True

    def end(self, now: float) -> None:
        """Record that the watch has ended, if one was open."""
        with self._lock:
            if self._is_open:
                self._current_until = max(self._current_until, min(now, self._last_sign + self._due))
            self._is_open = False

    def silence(self, now: float) -> float:
        """Return the seconds since the last sign of life."""
        with self._lock:
            return max(0.0, now - self._last_sign)

    def age(self, now: float) -> float:
        """Return the seconds since the copy was last known to be current; 0 while it is current."""
        with self._lock:
            current_until = self._last_sign + self._due if self._is_open else self._current_until
            return max(0.0, now - current_until)

    def _confirm(self, now: float) -> None:
        self._last_sign = max(self._last_sign, now)
        self._current_until = max(self._current_until, now)

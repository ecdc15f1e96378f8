"""A token bucket that limits the rate of calls."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class TokenBucket:
    """Allows `rate` events per second, and `burst` at once after a pause; thread-safe.

    The only state is the time at which the bucket would be full again (the "virtual scheduling" of ITU-T I.371 annex
    A). Invariant: at most burst + rate * t events are allowed within any t seconds.
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with a full bucket; the clock returns seconds and is monotonic."""
        self._interval = 1 / rate
        self._tolerance = (burst - 1) / rate
        self._clock = clock
        self._full_at = clock()
        self._lock = threading.Lock()

    def reserve(self) -> float:
        """Consume the next token, and return the seconds until it may be used."""
        with self._lock:
            now = self._clock()
            wait = self._wait(now)
            self._consume(now)
            return wait

    @property
    def delay(self) -> float:
        """Return the seconds until a token that is reserved now may be used."""
        with self._lock:
            return self._wait(self._clock())

    def try_acquire(self) -> bool:
        """Consume a token if there is one now; return whether there was."""
        with self._lock:
            now = self._clock()
            if self._wait(now) > 0:
                return False
            self._consume(now)
            return True

    def _wait(self, now: float) -> float:
        return max(0.0, self._full_at - self._tolerance - now)

    def _consume(self, now: float) -> None:
        self._full_at = max(self._full_at, now) + self._interval

"""A clock that tests advance."""

from __future__ import annotations


class Clock:
    """Seconds, as with time.monotonic; only advance() changes them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

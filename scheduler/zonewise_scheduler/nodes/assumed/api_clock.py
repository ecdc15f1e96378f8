"""Estimates the API server's clock from arriving stamps."""

from __future__ import annotations


class ApiClock:
    """Compares the caller's clock with stamps of the API server; the two clocks may differ by any amount.

    The smallest difference between arrival and stamp decides. It is the sum of the difference of the clocks and the
    fastest delivery. Without a stamp, the clocks count as equal. Several API servers count as one clock.
    """

    def __init__(self) -> None:
        self._lag: float | None = None

    def observe(self, stamp: float, at: float) -> None:
        """Record that a stamp arrived at a time of the caller's clock."""
        self._lag = at - stamp if self._lag is None else min(self._lag, at - stamp)

    def stamp(self, at: float) -> float:
        """Return a time that the API server's clock has surely reached when the caller's clock shows `at`."""
        return at - (self._lag or 0.0)

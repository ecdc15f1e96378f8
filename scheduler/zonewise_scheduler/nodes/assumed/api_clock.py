"""The API server's clock, as far as arriving stamps show it."""

from __future__ import annotations


class ApiClock:
    """Compares the caller's clock with stamps of the API server; the two may differ by any time.

    The smallest difference between arrival and stamp decides. It is that of the two clocks and of the fastest delivery.
    Without a stamp the clocks count as equal. Several API servers count as one clock.
    """

    def __init__(self) -> None:
        self._lag: float | None = None

    def observe(self, stamp: float, at: float) -> None:
        """Note that a stamp arrived at a time of the caller's clock."""
        self._lag = at - stamp if self._lag is None else min(self._lag, at - stamp)

    def stamp(self, at: float) -> float:
        """Return a time that the API server's clock has surely reached at `at`."""
        return at - (self._lag or 0.0)

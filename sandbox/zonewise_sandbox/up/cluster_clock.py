"""The clock of a cluster, which runs in real time or faster."""

from __future__ import annotations

import time

MAX_SPEED = 3600.0
"""An hour of the cluster per second. At higher speeds, decisions would take longer than the jobs that they concern."""


class ClusterClock:
    """Seconds since 1970, which start at the system's time and run `speed` times as fast; later steps are ignored."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._start, self._begin = time.time(), time.monotonic()

    def __call__(self) -> float:
        """Return the cluster's time."""
        return self._start + (time.monotonic() - self._begin) * self.speed

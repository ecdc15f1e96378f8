"""How long to wait before repairing an object again after another client has changed it.

Otherwise two programs that both write an object would overwrite each other as fast as the API server allows.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 600.0
"""Seconds for which a repair counts."""
AT_ONCE = 5
"""Number of repairs within the window without a wait: a person edits an object, or a CRD is replaced."""
LONGEST = 60.0
"""Longest pause, in seconds. A program that writes at each pod start is then countered once a minute."""


class RepairPauses:
    """Counts repairs; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: deque[float] = deque()

    def note(self) -> int:
        """Note a repair; return the number of repairs within the window."""
        with self._lock:
            self._times.append(self._clock())
            return self._recent()

    def pause(self) -> float:
        """Return the seconds to wait before the next repair: 0 at first, then doubling from one second."""
        with self._lock:
            excess = self._recent() - AT_ONCE
        return 0.0 if excess < 0 else min(LONGEST, 2.0 ** min(excess, 30))

    def _recent(self) -> int:
        oldest = self._clock() - WINDOW
        while self._times and self._times[0] < oldest:
            self._times.popleft()
        return len(self._times)

"""How long to wait before an object that another client changed is repaired again.

Two programs that both write an object would otherwise overwrite each other as fast as the API server can.
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
"""Repairs within the window that do not wait: a person who edits an object, a CRD that is replaced."""
LONGEST = 60.0
"""Seconds. A program that writes at each pod start is then answered once a minute."""


class RepairPauses:
    """Counts repairs; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: deque[float] = deque()

    def note(self) -> int:
        """Note a repair; return how many there were within the window."""
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

"""Clocks of long-running programs."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOWED = 0.5
"""Speed of a clock that is ahead of the system clock, which thus catches up with it."""


def monotonic_clock(
    system: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> Callable[[], float]:
    """Return a thread-safe clock in seconds since the epoch that follows the system clock, but never goes back.

    A machine may start with a wrong time, and a suspended one resumes with the time of its suspension. Afterwards the
    system clock is set. If it is set forwards, the returned clock follows at once. If it is set back, the returned
    clock runs at half of its speed until both agree.
    """
    lock = threading.Lock()
    now, read_at = system(), monotonic()

    def read() -> float:
        nonlocal now, read_at
        with lock:
            before, read_at = read_at, monotonic()
            now = max(system(), now + (read_at - before) * _SLOWED)
            return now

    return read

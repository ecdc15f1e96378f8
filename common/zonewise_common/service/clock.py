"""Clocks of long-running programs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def monotonic_clock() -> Callable[[], float]:
    """Return a clock in seconds since the epoch that ignores later steps of the system clock."""
    start = time.time() - time.monotonic()
    return lambda: start + time.monotonic()

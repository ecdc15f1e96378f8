"""Log writes that are repeated because their outcome is unknown, without a line for each.

During an outage of the API server, hundreds of writes are repeated every few seconds. All fail for the same reason, so
a few lines suffice. The log level "debug" shows all of them.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from zonewise_common.token_bucket import TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.types import Write

log = logging.getLogger(__name__)

LINES_PER_SECOND, BURST = 0.1, 10


class RepeatLog:
    """Logs repeated writes, at most LINES_PER_SECOND on average; thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the clock, in seconds and monotonic."""
        self._lines = TokenBucket(LINES_PER_SECOND, BURST, clock)
        self._lock = threading.Lock()
        self._omitted = 0
        """Number of repeated writes since the last line."""

    def add(self, write: Write, message: str) -> None:
        """Log a write that is repeated, with the number of others since the last line; or only count it."""
        with self._lock:
            is_shown = self._lines.try_acquire()
            omitted, self._omitted = (self._omitted, 0) if is_shown else (0, self._omitted + 1)
        others = f" ({omitted} others were repeated since the last line)" if omitted else ""
        level = logging.WARNING if is_shown else logging.DEBUG
        log.log(level, "object=%s write=%s is repeated: %s%s", write.key, write.purpose, message, others)

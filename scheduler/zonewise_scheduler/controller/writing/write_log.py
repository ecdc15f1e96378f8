"""Log failed writes without a line for each.

During an outage of the API server, hundreds of writes are repeated every few seconds. If a ResourceQuota or an
admission webhook rejects the writes of a namespace, each is tried again every minute. All fail for the same reason, so
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


class WriteLog:
    """Logs writes that have failed in the same way, at most LINES_PER_SECOND on average; thread-safe."""

    def __init__(self, level: int, failure: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Set the log level and the words for the failure. The clock returns seconds and is monotonic."""
        self._level = level
        self._failure = failure
        self._lines = TokenBucket(LINES_PER_SECOND, BURST, clock)
        self._lock = threading.Lock()
        self._omitted = 0
        """Number of failed writes since the last line."""

    def add(self, write: Write, message: str) -> None:
        """Log a failed write, with the number of others since the last line; or only count it."""
        with self._lock:
            is_shown = self._lines.try_acquire()
            omitted, self._omitted = (self._omitted, 0) if is_shown else (0, self._omitted + 1)
        others = f" ({omitted} others since the last line)" if omitted else ""
        level = self._level if is_shown else logging.DEBUG
        log.log(level, "object=%s write=%s %s: %s%s", write.key, write.purpose, self._failure, message, others)

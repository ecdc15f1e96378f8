"""The kernel log as a source of events: only a record that is a device event wakes the loop.

Corrected errors of PCI Express and of memory come by the hundreds a second. Their counts are read at each scan.
"""

from __future__ import annotations

import logging
import os
import stat
from collections import deque
from typing import TYPE_CHECKING

from zonewise.daemon.events import Reason
from zonewise.health.kernel_events import device_events
from zonewise.machine.kernel_log import KernelLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.machine.kernel_log import LogRecord

log = logging.getLogger(__name__)

NONE = "none"
"""The setting for no kernel log: an empty environment variable counts as unset."""
MAX_PENDING = 4096
"""Maximum number of records that wait for the loop; the newest are kept."""


class KernelLogChannel:
    """Reads the log as it grows. The loop waits for the channel and takes the records that it has read."""

    def __init__(self, kernel_log: KernelLog) -> None:
        self._log = kernel_log
        self._pending: deque[LogRecord] = deque(maxlen=MAX_PENDING)
        self._is_always_readable = stat.S_ISREG(os.fstat(kernel_log.fileno()).st_mode)
        self._failed = False

    def fileno(self) -> int:
        """Return the descriptor that is readable while there are records; -1 if it is readable without any.

        A file is, and a pipe whose writer has left. Both are read at each scan.
        """
        return -1 if self._is_always_readable else self._log.fileno()

    def read(self) -> set[Reason]:
        """Read the pending records of a readable descriptor; return a reason if one is a device event."""
        self._keep(self._records(self._log.read))
        self._is_always_readable = self._log.ended or self._failed
        return {Reason.HEALTH} if self._pending else set()

    def take(self) -> list[LogRecord]:
        """Return the records since the last call that are events."""
        self._keep(self._records(self._log.read_all))
        records = list(self._pending)
        self._pending.clear()
        return records

    def close(self) -> None:
        """Close the log."""
        self._log.close()

    def _records(self, read: Callable[[], list[LogRecord]]) -> list[LogRecord]:
        """Return the records that `read` returns; none if the log fails. A failure is logged once."""
        try:
            records = read()
        except OSError as error:
            if not self._failed:
                log.warning("the kernel log cannot be read, and XIDs are not detected meanwhile: %s", error.strerror)
            self._failed = True
            return []
        self._failed = False
        return records

    def _keep(self, records: Iterable[LogRecord]) -> None:
        self._pending.extend(record for record in records if any(device_events([record])))


def open_kernel_log(path: str) -> KernelLogChannel | None:
    """Return the channel of the log, None if it cannot be read: NVML then reports XIDs."""
    if path in ("", NONE):
        return None
    try:
        return KernelLogChannel(KernelLog(path))
    except OSError as error:
        log.warning("%s: %s: the kernel log is not read, and XIDs come only from NVML", path, error.strerror)
        return None

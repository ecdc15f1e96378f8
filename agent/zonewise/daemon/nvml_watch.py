"""Queries NVML periodically in its own thread, so that a slow driver never delays the loop."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from zonewise.machine.nvml.facts import NvmlFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.health.types import DeviceEvent

log = logging.getLogger(__name__)

_CLOSE_TIMEOUT = 0.2
UNUSABLE_INTERVAL = 600.0
"""Seconds between two queries of an NVML that cannot be used: in a container without NVML this does not change."""
MIN_INTERVAL = 5.0
"""Minimum seconds between the starts of two queries: a program may cause XIDs without end, and each query costs a
process."""
MAX_EVENTS = 1024
"""Maximum number of events that wait for the loop."""


class NvmlWatch:
    """NVML's facts as of the last query, and the events that it reported."""

    def __init__(
        self,
        query: Callable[[], NvmlFacts],
        interval: float,
        changed: Callable[[], None],
        watch_events: Callable[[Callable[[DeviceEvent], None], threading.Event], None] | None = None,
        *,
        min_interval: float = MIN_INTERVAL,
    ) -> None:
        """Call `query` at an interval in seconds, and `changed` when its facts differ or an event arrives.

        `watch_events` runs in a second thread until the event passed to it is set.
        """
        self._query = query
        self._interval = interval
        self._changed = changed
        self._watch_events = watch_events
        self._min_interval = min(min_interval, interval)
        self._stopped = threading.Event()
        self._due = threading.Event()
        self._threads: list[threading.Thread] = []
        self._events: deque[DeviceEvent] = deque(maxlen=MAX_EVENTS)
        self.facts: NvmlFacts | None = None
        """None before the first query has finished."""

    def start(self) -> None:
        """Start, unless already started: a machine without GPUs needs no thread."""
        if self._threads:
            return
        self._threads = [threading.Thread(target=self._run, name="health-nvml", daemon=True)]
        if self._watch_events is not None:
            self._threads.append(threading.Thread(target=self._run_events, name="health-nvml-events", daemon=True))
        for thread in self._threads:
            thread.start()

    def take_events(self) -> list[DeviceEvent]:
        """Return the events since the last call."""
        events: list[DeviceEvent] = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def query_soon(self) -> None:
        """Query before the interval is over, but not before the minimum interval: an event may have changed
        the facts.
        """
        self._due.set()

    def close(self) -> None:
        """Stop; a query in progress ends on its own."""
        self._stopped.set()
        self._due.set()
        for thread in self._threads:
            thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        while not self._stopped.is_set():
            started = time.monotonic()
            facts = self._facts()
            if facts != self.facts:
                self.facts = facts
                self._notify()
            interval = self._interval if facts.problem is None else max(self._interval, UNUSABLE_INTERVAL)
            self._due.wait(max(0.0, interval - (time.monotonic() - started)))
            self._stopped.wait(max(0.0, self._min_interval - (time.monotonic() - started)))
            self._due.clear()

    def _facts(self) -> NvmlFacts:
        try:
            return self._query()
        except Exception as error:  # the top of the thread: without it, the last facts would count forever
            log.exception("a query of NVML failed because of a defect, and will be retried")
            return NvmlFacts(problem=f"the query failed: {error}")

    def _run_events(self) -> None:
        if self._watch_events is not None:
            self._watch_events(self._note, self._stopped)

    def _note(self, event: DeviceEvent) -> None:
        self._events.append(event)
        self._notify()

    def _notify(self) -> None:
        if not self._stopped.is_set():
            self._changed()

"""All that wakes the agent, in one wait that costs nothing while nothing happens."""

from __future__ import annotations

import select
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from zonewise.daemon.events.bursts import MAX_BURST, QUIET, gather
from zonewise.daemon.events.file_watches import FileWatches
from zonewise.daemon.events.uevents import open_uevents

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

    from zonewise.daemon.events.file_watches import WatchRule
    from zonewise.daemon.events.reasons import Reason

POLL_INTERVAL = 1.0
"""Seconds between two looks at files that the kernel does not watch for us."""


class EventChannel(Protocol):
    """Something that tells of events."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to read."""
        ...

    def read(self) -> set[Reason]:
        """Return the reasons of all that is there, without waiting."""
        ...


class EventSource:
    """The events of files and of other channels, which stay their makers' to close."""

    def __init__(
        self,
        watches: FileWatches,
        channels: Iterable[EventChannel] = (),
        *,
        quiet: float = QUIET,
        max_burst: float = MAX_BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._watches = watches
        self._quiet = quiet
        self._patience = max_burst
        self._clock = clock
        self._poll = select.poll()
        self._channels: dict[int, EventChannel] = {
            channel.fileno(): channel for channel in (watches, *channels) if channel.fileno() >= 0
        }
        for descriptor in self._channels:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout: float | None) -> frozenset[Reason]:
        """Return why to look again, bursts as one; nothing after the timeout in seconds, for ever where it is None."""
        reasons = self._first(None if timeout is None else self._clock() + timeout)
        return gather(reasons, self._ready, self._clock, self._quiet, self._patience) if reasons else frozenset()

    def _first(self, deadline: float | None) -> set[Reason]:
        """Return the reasons that come first."""
        reasons = self._watches.settle() | self._ready(0)
        while not reasons:
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                break
            if self._watches.polled:
                left = POLL_INTERVAL if left is None else min(left, POLL_INTERVAL)
            reasons = self._ready(left)
            if self._watches.polled:
                reasons |= self._watches.settle()
        return reasons

    def _ready(self, seconds: float | None) -> set[Reason]:
        """Return what comes within so many seconds, as soon as something comes, which may have no reason for us."""
        reasons: set[Reason] = set()
        for descriptor, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            reasons |= self._channels[descriptor].read()
        return reasons


@contextmanager
def open_events(rules: Iterable[WatchRule], channels: Iterable[EventChannel] = ()) -> Generator[EventSource]:
    """Watch the files of some rules, and hear the kernel's messages where it lets us, as long as this lasts.

    What changes from the entry on is not missed, so that the first look at the files comes after it. Other channels,
    such as Wake and Signals, outlive this, and lose nothing in between.
    """
    with ExitStack() as stack:
        watches = FileWatches(rules)
        stack.callback(watches.close)
        uevents = open_uevents()
        if uevents is not None:
            stack.callback(uevents.close)
        yield EventSource(watches, (*channels, *([uevents] if uevents is not None else [])))

"""All events of the agent in one blocking wait. Bursts are gathered, so that ten files written together cause one scan.

A pod's admission writes its checkpoints within a few milliseconds, and a NIC's virtual functions appear by the
hundreds.
"""

from __future__ import annotations

import select
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from zonewise.daemon.events.file_watches import FileWatches
from zonewise.daemon.events.reasons import Reason
from zonewise.daemon.events.uevents import open_uevents

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Set

    from zonewise.daemon.events.file_watches import WatchRule

QUIET = 0.008
"""Seconds without an event after which a burst is over. A kubelet that admits a pod with CPUs, memory and a GPU writes
its files up to 10 ms apart (median 4 ms). A much shorter pause would publish most pods in two halves."""
MAX_BURST = 0.04
"""Seconds from the first event after which a burst ends in any case."""


def burst_deadline(first: float, last: float, quiet: float, max_burst: float) -> float:
    """Return the time at which gathering ends, from the times of the first and the last event."""
    return min(last + quiet, first + max_burst)


def gather(
    reasons: Set[Reason],
    more: Callable[[float], Set[Reason]],
    clock: Callable[[], float],
    quiet: float = QUIET,
    max_burst: float = MAX_BURST,
) -> frozenset[Reason]:
    """Return the reasons of the whole burst that has just begun.

    `more` waits for at most the given seconds and returns new reasons, possibly none before the time is over. A stop is
    returned at once.
    """
    gathered = set(reasons)
    first = last = clock()
    while Reason.STOP not in gathered:
        left = burst_deadline(first, last, quiet, max_burst) - clock()
        if left <= 0:
            break
        new = more(left)
        if new:
            gathered |= new
            last = clock()
    return frozenset(gathered)


_MAX_POLL = 86_400.0
"""Maximum seconds of one poll: its timeout is a C int of milliseconds (poll(2)), so 25 days would be too many."""
POLL_INTERVAL = 1.0
"""Seconds between two checks of files that the kernel does not watch."""


class EventChannel(Protocol):
    """A source of events that has a file descriptor."""

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to read; -1 if there is none, or none left."""
        ...

    def read(self) -> set[Reason]:
        """Return the reasons of all pending events, without waiting."""
        ...


class EventSource:
    """Events of files and of other channels. The creator of a channel closes it."""

    def __init__(
        self,
        watches: FileWatches,
        channels: Iterable[EventChannel] = (),
        *,
        quiet: float = QUIET,
        max_burst: float = MAX_BURST,
    ) -> None:
        self._watches = watches
        self._quiet = quiet
        self._max_burst = max_burst
        self._poll = select.poll()
        self._channels: dict[int, EventChannel] = {
            channel.fileno(): channel for channel in (watches, *channels) if channel.fileno() >= 0
        }
        for descriptor in self._channels:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, timeout: float | None) -> frozenset[Reason]:
        """Return the reasons to scan again, gathered over a burst; no reason after the timeout in seconds. None waits
        forever.
        """
        reasons = self._first(None if timeout is None else time.monotonic() + timeout)
        return gather(reasons, self._ready, time.monotonic, self._quiet, self._max_burst) if reasons else frozenset()

    def _first(self, deadline: float | None) -> set[Reason]:
        """Return the first reasons."""
        reasons = self._watches.settle() | self._ready(0)
        while not reasons:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                break
            if self._watches.polled:
                left = POLL_INTERVAL if left is None else min(left, POLL_INTERVAL)
            reasons = self._ready(left)
            if self._watches.polled:
                reasons |= self._watches.settle()
        return reasons

    def _ready(self, seconds: float | None) -> set[Reason]:
        """Return the reasons that arrive within the given seconds, as soon as a channel is readable; possibly none."""
        reasons: set[Reason] = set()
        for descriptor, _ in self._poll.poll(None if seconds is None else min(seconds, _MAX_POLL) * 1000):
            channel = self._channels[descriptor]
            reasons |= channel.read()
            if channel.fileno() < 0:
                self._poll.unregister(descriptor)
        return reasons


@contextmanager
def open_event_source(rules: Iterable[WatchRule], channels: Iterable[EventChannel] = ()) -> Generator[EventSource]:
    """Watch the files of several rules, and the kernel's messages if permitted, as long as the context lasts.

    Every change after entering the context is reported, so the first scan belongs after that. Other channels, such as
    Wake and Signals, outlive the context and lose nothing meanwhile.
    """
    with ExitStack() as stack:
        watches = FileWatches(rules)
        stack.callback(watches.close)
        uevents = open_uevents()
        if uevents is not None:
            stack.callback(uevents.close)
        yield EventSource(watches, (*channels, *([uevents] if uevents is not None else [])))

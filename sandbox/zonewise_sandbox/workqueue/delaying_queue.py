"""A queue of keys for several workers (client-go util/workqueue: queue.go, delaying_queue.go).

Only one worker handles a key at a time. A key that is added meanwhile is handed out again afterwards.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

K = TypeVar("K", bound="Hashable")


class DelayingQueue(Generic[K]):
    """Keys in the order in which they were added or became due; thread-safe."""

    def __init__(self, clock: Callable[[], float], speed: float = 1.0) -> None:
        """Create a queue from a clock in seconds, of which `speed` pass in a real second.

        Call wake() after a jump of the clock.
        """
        self._clock = clock
        self._speed = speed
        self._changed = threading.Condition()
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        self._taken: set[K] = set()
        self._later: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._numbers = itertools.count()
        self._closed = False

    def add(self, key: K) -> None:
        """Add a key, unless it is waiting already."""
        with self._changed:
            self._add(key)

    def add_at(self, key: K, time: float) -> None:
        """Add a key at a time of the clock, or earlier if an earlier time was set before."""
        with self._changed:
            if time < self._due.get(key, float("inf")):
                self._due[key] = time
                heapq.heappush(self._later, (time, next(self._numbers), key))
                self._changed.notify_all()

    def get(self) -> K | None:
        """Wait for a key, which must be returned with done(); None once the queue is closed."""
        with self._changed:
            while not self._closed:
                wait = self._move_due()
                if self._ready:
                    key = self._ready.popleft()
                    self._waiting.discard(key)
                    self._taken.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: K) -> None:
        """Record that the worker has finished with a key."""
        with self._changed:
            self._taken.discard(key)
            if key in self._waiting:
                self._ready.append(key)
                self._changed.notify()

    def wake(self) -> None:
        """Compare the times with the clock again, after it has jumped."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Hand out no more keys."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, key: K) -> None:
        if key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._taken:
            self._ready.append(key)
            self._changed.notify()

    def _move_due(self) -> float | None:
        """Add the keys that are due; return the seconds until the next one, or None."""
        now = self._clock()
        while self._later and self._later[0][0] <= now:
            time, _, key = heapq.heappop(self._later)
            if self._due.get(key) == time:
                del self._due[key]
                self._add(key)
        return (self._later[0][0] - now) / self._speed if self._later else None

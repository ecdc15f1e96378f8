"""Which tasks may occupy a thread now, so that one group of tasks does not delay all others.

An admission webhook of one namespace that hangs keeps each request there for up to its timeout, which is 10 s by
default. Without shares, such requests soon occupy all threads.

1. The tasks of one group occupy at most half of the threads.
2. The tasks of all slow groups together occupy at most half of the threads. A group is slow for SLOW_MEMORY after one
   of its tasks has taken longer than SLOW.

Tasks without a share are parked, and the end of another task releases them. Invariant: while a task is parked, at least
one is running, so none remains parked.

1. A task is parked because a limit is reached, or because tasks of its group are. A limit is at least one running task.
2. If the last running task ends, no limit is reached, so its end releases a parked task.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SLOW = 1.0
"""Seconds. An API server responds within milliseconds, unless an admission webhook delays it."""
SLOW_MEMORY = 60.0
"""Seconds, which exceeds the longest timeout of a webhook (30 s) and the backoff of a repeated request."""


class ThreadShares(Generic[T]):
    """The running and the parked tasks by group. Times are in seconds, from one monotonic clock."""

    def __init__(self, threads: int, group: Callable[[T], str]) -> None:
        self._share = max(1, threads // 2)
        self._group = group
        self._running: Counter[str] = Counter()
        self._parked: dict[str, deque[T]] = {}
        self._slow_until: dict[str, float] = {}

    def begin(self, task: T, now: float) -> bool:
        """Return whether a task may run now. If not, it is parked, and end() returns it later."""
        group = self._group(task)
        if group in self._parked or not self._has_room(group, now):
            self._parked.setdefault(group, deque()).append(task)
            return False
        self._running[group] += 1
        return True

    def end(self, task: T, seconds: float, now: float) -> T | None:
        """Record that a task has ended after some seconds. Return a parked task that begins now; None: there is none.

        The groups take turns.
        """
        group = self._group(task)
        self._running[group] -= 1
        self._running += Counter()  # drops the groups without running tasks
        if seconds > SLOW:
            self._slow_until = {name: until for name, until in self._slow_until.items() if until > now}
            self._slow_until[group] = now + SLOW_MEMORY
        released = next((name for name in self._parked if self._has_room(name, now)), None)
        return None if released is None else self._release(released)

    def _release(self, group: str) -> T:
        tasks = self._parked.pop(group)
        task = tasks.popleft()
        if tasks:
            self._parked[group] = tasks
        self._running[group] += 1
        return task

    def _has_room(self, group: str, now: float) -> bool:
        if self._running[group] >= self._share:
            return False
        if not self._is_slow(group, now):
            return True
        return sum(count for name, count in self._running.items() if self._is_slow(name, now)) < self._share

    def _is_slow(self, group: str, now: float) -> bool:
        return self._slow_until.get(group, now) > now

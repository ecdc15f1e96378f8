"""Which tasks may occupy a thread now, so that one group of tasks does not delay all others.

An admission webhook of one namespace that hangs keeps each request there for up to its timeout, which is 10 s by
default. Without shares, such requests soon occupy all threads.

1. A group is known for SLOW after one of its tasks has ended. Any other group runs two tasks at a time, so it does not
   stop the others if it hangs.
2. A known group begins another task only while it runs fewer tasks than threads are free. Alone, it occupies half of
   the threads, and each further group occupies about half of the rest.
3. The last free quarter of the threads is for groups without running tasks.
4. The tasks of all slow groups together occupy at most half of the threads. A group is slow for MEMORY after one of its
   tasks has taken longer than SLOW.

A group without running tasks therefore begins at once if a thread is free and the group is not slow. Of 16 threads, one
remains free if all tasks of nine unknown groups hang, or all tasks of five known groups. Groups that hang after a
second of rest are unknown.

Tasks without a share are parked. Invariant: while a task is parked, at least one is running, so none remains parked.

1. A task is parked because tasks of its group or of slow groups run, or because tasks of its group are parked.
2. Once the last running task has ended, no rule holds a group, so release() returns a parked task.

Source of rule 2: A. K. Choudhury, E. L. Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SLOW = 1.0
"""Seconds. An API server responds within milliseconds, unless an admission webhook delays it. A group that has been
idle for as long may hang by now."""
MEMORY = 60.0
"""Seconds for which a group is slow. They exceed the longest timeout of a webhook (30 s) and the backoff of a repeated
request."""

_UNKNOWN_SHARE = 2


class ThreadShares(Generic[T]):
    """The running and the parked tasks by group. Times are in seconds, from one monotonic clock."""

    def __init__(self, threads: int, group: Callable[[T], str]) -> None:
        self._threads = threads
        self._group = group
        self._running: Counter[str] = Counter()
        self._parked: dict[str, deque[T]] = {}
        self._known = _RecentNames(SLOW)
        self._slow = _RecentNames(MEMORY)

    def begin(self, task: T, now: float) -> bool:
        """Return whether a task may run now, on a free thread. If not, it is parked, and release() returns it later."""
        group = self._group(task)
        if group in self._parked or not self._has_room(group, now):
            self._parked.setdefault(group, deque()).append(task)
            return False
        self._running[group] += 1
        return True

    def end(self, task: T, seconds: float, now: float) -> None:
        """Record that a task has ended after some seconds."""
        group = self._group(task)
        self._running[group] -= 1
        self._running += Counter()  # drops the groups without running tasks
        self._known.add(group, now)
        if seconds > SLOW:
            self._slow.add(group, now)

    def has_parked(self, now: float) -> bool:
        """Return whether a parked task may run now, if a thread is free."""
        return self._releasable(now) is not None

    def release(self, now: float) -> T | None:
        """Return a parked task that runs now, on a free thread; None: there is none. The groups take turns."""
        group = self._releasable(now)
        if group is None:
            return None
        tasks = self._parked.pop(group)
        task = tasks.popleft()
        if tasks:
            self._parked[group] = tasks
        self._running[group] += 1
        return task

    def _releasable(self, now: float) -> str | None:
        return next((name for name in self._parked if self._has_room(name, now)), None)

    def _has_room(self, group: str, now: float) -> bool:
        running = self._running[group]
        if running >= _UNKNOWN_SHARE and not self._known.has(group, now):
            return False
        free = self._threads - self._running.total()
        if running >= free or (running and free <= self._threads // 4):
            return False
        return not self._slow.has(group, now) or self._slow_total(now) < max(1, self._threads // 2)

    def _slow_total(self, now: float) -> int:
        return sum(count for name, count in self._running.items() if self._slow.has(name, now))


class _RecentNames:
    """The names that were added in the last `memory` seconds."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._until: dict[str, float] = {}  # ordered by time

    def add(self, name: str, now: float) -> None:
        self._until.pop(name, None)
        self._until[name] = now + self._memory
        while self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]

    def has(self, name: str, now: float) -> bool:
        return self._until.get(name, now) > now

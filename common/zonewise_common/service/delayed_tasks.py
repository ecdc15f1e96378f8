"""Threads that run tasks, each when it is due."""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from zonewise_common.service.thread_shares import ThreadShares

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

T = TypeVar("T")

_STOP_TIMEOUT = 1.0
"""Seconds that all threads together have to stop."""


class DelayedTasks(Generic[T]):
    """Runs tasks when they are due. It works while the context is entered; remaining tasks are dropped at the end."""

    def __init__(
        self, work: Callable[[T], object], *, threads: int, name: str, group: Callable[[T], str] | None = None
    ) -> None:
        """Create the threads.

        `work` may submit its task again; a task must not be None. An exception in it ends the thread. `group`: returns
        the group of a task, which occupies only its share of the threads (thread_shares.py); None: there are no shares.
        """
        self._work = work
        self._condition = threading.Condition()
        self._tasks: list[tuple[float, int, T]] = []  # a heap: due time, order of submission
        self._submitted = 0
        self._shares = None if group is None else ThreadShares(threads, group)
        self._stopping = False
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{i}", daemon=True) for i in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        deadline = time.monotonic() + _STOP_TIMEOUT
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def submit(self, task: T, delay: float = 0.0) -> None:
        """Run a task after `delay` seconds; tasks that are due at the same time run in the order of submission."""
        with self._condition:
            self._submitted += 1
            heapq.heappush(self._tasks, (time.monotonic() + delay, self._submitted, task))
            self._condition.notify()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            begin = time.monotonic()
            self._work(task)
            if self._shares is not None:
                with self._condition:
                    now = time.monotonic()
                    self._shares.end(task, now - begin, now)

    def _next(self) -> T | None:
        """Wait for a task that is due and has a share of the threads; return None to stop."""
        with self._condition:
            while not self._stopping:
                now = time.monotonic()
                parked = None if self._shares is None else self._released(self._shares, now)
                if parked is not None:
                    return parked
                wait = self._tasks[0][0] - now if self._tasks else None
                if wait is None or wait > 0:
                    self._condition.wait(wait)
                    continue
                task = heapq.heappop(self._tasks)[2]
                if self._shares is None or self._shares.begin(task, now):
                    return task
            return None

    def _released(self, shares: ThreadShares[T], now: float) -> T | None:
        """Return a parked task that this thread runs. Another thread is woken if a further task can run."""
        task = shares.release(now)
        is_due = bool(self._tasks) and self._tasks[0][0] <= now
        if task is not None and (is_due or shares.has_parked(now)):
            self._condition.notify()
        return task

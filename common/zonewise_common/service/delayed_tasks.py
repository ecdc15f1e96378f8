"""Threads that run tasks, each when it is due."""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

T = TypeVar("T")

_STOP_TIMEOUT = 1.0
"""Seconds that all threads together have to stop."""


class DelayedTasks(Generic[T]):
    """Runs tasks when they are due. It works while the context is entered; remaining tasks are dropped at the end."""

    def __init__(self, work: Callable[[T], object], *, threads: int, name: str) -> None:
        """Create the threads.

        `work` may submit its task again; a task must not be None. An exception in it ends the thread.
        """
        self._work = work
        self._condition = threading.Condition()
        self._tasks: list[tuple[float, int, T]] = []  # a heap: due time, order of submission
        self._submitted = 0
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
            self._work(task)

    def _next(self) -> T | None:
        """Wait for a task that is due; return None to stop."""
        with self._condition:
            while not self._stopping:
                wait = self._tasks[0][0] - time.monotonic() if self._tasks else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._tasks)[2]
                self._condition.wait(wait)
            return None

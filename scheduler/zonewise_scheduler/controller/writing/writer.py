"""Threads that execute writes within a rate limit, and report each outcome.

If the outcome of a write is unknown, it is repeated with backoff until the outcome is known. A forbidden write is
repeated FORBIDDEN_REPEATS times, because an API server that has just started forbids what roles permit, until it has
read them (plugin/pkg/auth/authorizer/rbac). Each write is conditional, so a repetition does no harm. The controller has
at most one pending write per object, so writes need no order.

An admission webhook that hangs delays each write of a namespace, so the writes of a namespace occupy only a share of
the threads (thread_shares.py). Non-namespaced objects count as one namespace.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import TYPE_CHECKING

from zonewise_common.kube.backoff import Backoff
from zonewise_common.service.delayed_tasks import DelayedTasks
from zonewise_common.token_bucket import TokenBucket
from zonewise_scheduler.controller.writing.outcome import Outcome, guarded_attempt
from zonewise_scheduler.controller.writing.write_log import WriteLog

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.types import Write

THREADS = 16
"""Maximum number of concurrent requests. An API server responds to a patch within a few milliseconds."""
DELAYED = 20.0
"""Seconds after which a write that is still repeated counts as delayed."""
_REPEAT_SHARE = 0.5
"""Rate of repetitions as a fraction of the rate of writes. They have their own limit: an API server that sheds load
gets few requests, and writes that fail delay no others."""
_BACKOFF = Backoff(base=0.1, cap=5.0)
SETTLING = 1.0
"""Seconds before a write that needs a kind is sent. If the kind is being deleted, so are its objects, and an API server
may notify of these before it knows about the kind."""
FORBIDDEN_REPEATS = 3
_FORBIDDEN_BACKOFF = Backoff(base=0.5, cap=2.0)
_NOT_LEADING = Outcome("stale", message="this replica does not lead")


class _QueuedWrite:
    __slots__ = ("attempts", "is_delayed", "submitted_at", "write")

    def __init__(self, write: Write) -> None:
        self.write = write
        self.attempts = 0
        self.is_delayed = False
        self.submitted_at = time.monotonic()

    @property
    def namespace(self) -> str:
        return self.write.key.namespace


class Writer:
    """Runs the writer threads. It works while the context is entered."""

    def __init__(
        self,
        client: Client,
        report: Callable[[Write, Outcome], object],
        *,
        rate: float,
        burst: int,
        threads: int = THREADS,
        may_write: Callable[[], bool] = lambda: True,
        count: Callable[[Write, Outcome], object] = lambda _write, _outcome: None,
        report_delay: Callable[[Write, Outcome], object] = lambda _write, _outcome: None,
    ) -> None:
        """Limit new writes to `rate` per second, and to `burst` at once after a rest.

        `report` gets each write with its final outcome, in a thread of the writer; `count` gets each attempt.
        `report_delay` gets each delayed write once, with the outcome of its last attempt. No write is sent while
        `may_write` returns False, because another replica leads.
        """
        self._client = client
        self._report = report
        self._count = count
        self._report_delay = report_delay
        self._may_write = may_write
        self._bucket = TokenBucket(rate, burst)
        self._repeat_bucket = TokenBucket(rate * _REPEAT_SHARE, burst)
        self._tasks = DelayedTasks(self._handle, threads=threads, name="writer", group=lambda task: task.namespace)
        self._condition = threading.Condition()  # guards the backlog
        self._backlog = 0
        self._repeats = WriteLog(logging.WARNING, "is repeated")

    def __enter__(self) -> Self:
        self._tasks.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._tasks.__exit__()

    @property
    def backlog(self) -> int:
        """Return the number of writes whose outcome is not yet known."""
        with self._condition:
            return self._backlog

    @property
    def delay(self) -> float:
        """Return the seconds for which the rate limit delays a write that is submitted now."""
        return self._bucket.delay

    def drain(self, timeout: float) -> bool:
        """Wait until no write is pending, for at most `timeout` seconds; return whether none is."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._backlog, timeout)

    def submit(self, write: Write) -> None:
        """Execute a write soon."""
        with self._condition:
            self._backlog += 1
        delay = self._bucket.reserve()
        self._tasks.submit(_QueuedWrite(write), delay if write.needs is None else max(delay, SETTLING))

    def _handle(self, task: _QueuedWrite) -> None:
        self._end(task, guarded_attempt(self._client, task.write) if self._may_write() else _NOT_LEADING)

    def _end(self, task: _QueuedWrite, outcome: Outcome) -> None:
        self._count(task.write, outcome)
        if outcome.result == "unknown" or (outcome.is_forbidden and task.attempts < FORBIDDEN_REPEATS):
            self._repeats.add(task.write, outcome.message)
            if not task.is_delayed and time.monotonic() - task.submitted_at > DELAYED:
                task.is_delayed = True
                self._report_delay(task.write, outcome)
            backoff = _FORBIDDEN_BACKOFF if outcome.is_forbidden else _BACKOFF
            delay = backoff.delay(task.attempts, random.random(), outcome.retry_after)  # noqa: S311 -- no secret
            task.attempts += 1
            self._tasks.submit(task, max(delay, self._repeat_bucket.reserve()))
            return
        with self._condition:
            self._backlog -= 1
            self._condition.notify_all()
        self._report(task.write, outcome)

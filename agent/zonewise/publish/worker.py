"""A thread that publishes the newest submitted value, and retries until it succeeds."""

from __future__ import annotations

import logging
import random
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from zonewise_common.kube.backoff import Backoff
from zonewise_common.kube.errors import ApiError, Forbidden, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

Value = TypeVar("Value")

_CLOSE_TIMEOUT = 0.2
"""Seconds to wait for a request in progress: a response takes milliseconds, or until its timeout."""
DEFAULT_BACKOFF = Backoff(base=0.1, cap=30.0)
ABSENT_BACKOFF = Backoff(base=0.1, cap=1.0)
"""Pauses while the server does not serve the kind, for ABSENT_ATTEMPTS failures: a CRD that is replaced is back in
seconds."""
ABSENT_ATTEMPTS = 60


class PublishWorker(Generic[Value]):
    """Publishes values in its own thread, so that a slow or absent API server never delays a scan.

    Only the newest value counts: a value is never sent if a newer one arrives while an earlier one is being sent.
    """

    def __init__(
        self,
        name: str,
        publish: Callable[[Value], None],
        failed: Callable[[Exception], None],
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        draw: Callable[[], float] = random.random,
        advice: str = "",
    ) -> None:
        """Create a worker. If `publish` raises an error, `failed` is called, and `publish` is called again later.

        `advice` describes how to grant the permission to publish, for the log if the server rejects a request.
        """
        self._name = name
        self._publish = publish
        self._backoff = backoff
        self._failed = failed
        self._draw = draw
        self._advice = advice
        self._failures = 0  # since the last success
        self._last_error = ""  # why the last attempt failed
        self._changed = threading.Condition()
        self._pending: list[Value] = []  # none or one
        self._latest: list[Value] = []  # none or one
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"publish-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, value: Value) -> None:
        """Publish a value in place of any pending one."""
        with self._changed:
            self._pending = self._latest = [value]
            self._changed.notify_all()

    def repeat(self) -> None:
        """Publish the newest value again, if there is any."""
        with self._changed:
            self._pending = self._latest
            self._changed.notify_all()

    def idle(self) -> bool:
        """Return whether everything submitted has been published."""
        with self._changed:
            return not self._pending and not self._busy

    def wait_idle(self, seconds: float) -> bool:
        """Wait until everything submitted is published; return whether that took less than the given number
        of seconds.
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self._pending and not self._busy, seconds)

    def close(self) -> None:
        """Stop; a pending value is dropped, and a request without a response ends on its own."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_TIMEOUT)

    def _run(self) -> None:
        while (value := self._next_value()) is not None:
            try:
                self._publish(value[0])
            except Exception as error:  # noqa: BLE001 -- the top of the loop: a defect must not end publishing
                self._failed(error)
                self._retry_later(value[0], error)
            else:
                self._succeeded()
            finally:
                self._done()

    def _next_value(self) -> list[Value] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._pending)
            if self._closed:
                return None
            values, self._pending, self._busy = self._pending, [], True
            return values

    def _succeeded(self) -> None:
        if self._failures:
            log.info("the %s is published again, after %d failures", self._name, self._failures)
        self._failures, self._last_error = 0, ""

    def _retry_later(self, value: Value, error: Exception) -> None:
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        is_absent = isinstance(error, NotFound) and self._failures < ABSENT_ATTEMPTS
        backoff = ABSENT_BACKOFF if is_absent else self._backoff
        delay = backoff.delay(self._failures, self._draw(), retry_after)
        self._failures += 1
        known = isinstance(error, KubeError)
        # an outage of hours does not need a line every half minute
        level = logging.DEBUG if str(error) == self._last_error else logging.WARNING
        self._last_error = str(error)
        advice = f"; {self._advice}" if self._advice and isinstance(error, Forbidden) else ""
        message = "cannot publish the %s, trying again in %.1f s: %s%s"
        log.log(level, message, self._name, delay, error, advice, exc_info=not known)
        with self._changed:
            self._changed.wait_for(lambda: self._closed, delay)
            self._pending = self._pending or [value]

    def _done(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()

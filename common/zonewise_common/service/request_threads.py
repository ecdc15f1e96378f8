"""The threads of an HTTP server, in the Leader/Followers pattern (Schmidt and others, POSA volume 2).

One thread, the leader, polls all connections. When a whole request has arrived, the leader serves it at once, and
another thread becomes the leader. No request therefore passes from one thread to another, which would cost a thread
switch of the interpreter. One thread serves only probes, so probes are served whatever the other threads wait for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.service.connection import Connection

log = logging.getLogger(__name__)

THREADS = 16
"""Maximum threads. They start as needed: a client that sends one request at a time needs two."""
MAX_WAITING = 256
"""Maximum number of requests that wait for a thread."""
_PAUSE = 0.1
"""Seconds of pause after a failed poll, so that a persistent failure does not occupy a CPU."""


class RequestThreads:
    """Polls and serves until it is stopped."""

    def __init__(self, poll: Callable[[], None], serve: Callable[[Connection], None]) -> None:
        """Create the threads from two functions: one polls all connections once, the other serves a request."""
        self._poll = poll
        self._serve = serve
        self._leadership = threading.Lock()
        self._mutex = threading.Lock()
        self._probes: deque[Connection] = deque()
        self._waiting: deque[Connection] = deque()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._stopping = False

    def start(self) -> None:
        """Start the first leader."""
        with self._mutex:
            self._start_thread()

    def stop(self, wake: Callable[[], None], timeout: float) -> bool:
        """Stop all threads, and return whether all of them ended within `timeout` seconds."""
        self._stopping = True
        wake()
        deadline = time.monotonic() + timeout
        for thread in tuple(self._threads):
            thread.join(max(deadline - time.monotonic(), 0.0))
        return not any(thread.is_alive() for thread in self._threads)

    def enqueue(self, connection: Connection, *, probe: bool) -> bool:
        """Queue a connection with a whole request for a thread; return False if too many wait already."""
        with self._mutex:
            if probe:
                self._probes.append(connection)
            elif len(self._waiting) < MAX_WAITING:
                self._waiting.append(connection)
            else:
                return False
        return True

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name="http", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (connection := self._next_connection()) is not None:
            try:
                self._serve(connection)
            except Exception:  # a defect in one request must not end a thread, since there are few
                log.exception("a request failed")
            with self._mutex:
                self._busy -= 1

    def _next_connection(self) -> Connection | None:
        """Return a connection with a whole request; None when the threads stop."""
        connection = self._take()  # the request waited while all threads were busy, and the leader may sleep
        if connection is not None:
            return connection
        with self._leadership:
            while not self._stopping:
                connection = self._take()
                if connection is not None:
                    return connection
                try:
                    self._poll()
                except Exception:  # a defect in one connection must not end the service for all
                    log.exception("polling the connections failed")
                    time.sleep(_PAUSE)
        return None

    def _take(self) -> Connection | None:
        """Return the connection that this thread serves next, if any."""
        with self._mutex:
            if self._stopping:
                return None
            if self._probes:
                connection = self._probes.popleft()
            elif self._waiting and self._busy < THREADS - 1:
                connection = self._waiting.popleft()
            else:
                return None
            self._busy += 1
            if self._busy == len(self._threads) < THREADS:
                self._start_thread()  # the next leader
            return connection

"""The loop that serves all connections of an HTTP server without blocking, within budgets and deadlines.

A request must arrive within REQUEST_TIMEOUT, and a response must be read within RESPONSE_TIMEOUT, however many bytes
arrive meanwhile. The numbers of connections and of bytes in memory have limits. If one is exceeded, silent connections
are closed in the order of ConnectionTable.

The leader works in rounds, and serves a request at the end of the round that completes it. A round first receives from
all established connections. Then it handles a few events of strangers and new connections, and closes a few connections
whose deadline has passed. The length of a round, and thus the wait of a client, therefore does not grow with the number
of strangers.

The body of some responses is a stream. Its connection is silent and occupies no thread: the leader checks periodically
for the next part to send. A client that does not read delays nothing: its stream has one part in memory.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import threading
import time
from typing import TYPE_CHECKING

from zonewise_common.service.connection import Connection
from zonewise_common.service.connection_table import LARGE, ConnectionTable
from zonewise_common.service.handlers import UNAUTHENTICATED_PATHS, is_public, text_response
from zonewise_common.service.http_messages import HttpError, format_response
from zonewise_common.service.request_threads import MAX_WAITING, RequestThreads

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from zonewise_common.service.handlers import Response
    from zonewise_common.service.http_messages import HttpRequest
    from zonewise_common.service.tls import Certificates

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 2048
"""Maximum number of connections of a server without TLS. A silent one costs about 3 KiB, including the kernel's
part."""
MAX_TLS_CONNECTIONS = 512
"""Maximum number of connections of a server with TLS, which cost up to 50 KiB once a client begins its handshake. Both
limits exceed the number of requests that may wait, so some connections can always be closed."""
REQUEST_TIMEOUT = 10.0
"""Seconds from the first to the last byte of a request, including the TLS handshake before it."""
RESPONSE_TIMEOUT = 30.0
STREAM_TIMEOUT = 300.0
"""Maximum seconds of a stream. Its client then reconnects, and its token is reviewed again."""
MAX_STREAMS = 64
_STREAM_PERIOD = 0.25
"""Seconds between two checks for new parts of the streams."""
_DRAIN_TIMEOUT = 2.0
_STOP_TIMEOUT = 2.0
"""Seconds that requests have to finish when the server stops."""
_TICK = 0.5
"""Seconds between two checks of the deadlines."""
_EXPIRED_AT_ONCE = 8
_EXPIRED_PAUSE = 0.02
"""Seconds between two groups of expired connections. Otherwise, clients that connected together would be closed
together, reconnect together, and delay new clients each time. The pause closes some of them late: 2,048 of them within
5 s."""
_BUFFERED = 8 << 20
"""Maximum bytes of requests and responses in memory, in addition to two bodies of the largest size."""
_EVENTS_AT_ONCE = 8
"""Maximum number of events of strangers in one round."""
_ACCEPTED_AT_ONCE = 8


class ConnectionLoop:
    """Serves the connections of a listener. Only the leading thread touches silent connections."""

    def __init__(
        self,
        listener: socket.socket,
        respond: Callable[[HttpRequest, str], Response],
        *,
        max_body: int,
        certificates: Certificates | None,
        idle: float,
    ) -> None:
        """Create a loop around the function that responds to a request; its second argument is the client's IP address.

        `idle` is the time in seconds after which a connection without a request is closed.
        """
        self._listener, self._respond = listener, respond
        self._max_body, self._certificates, self._idle = max_body, certificates, idle
        self._threads = RequestThreads(self._poll, self._serve)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll, self._strangers = select.epoll(), select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._epoll.register(self._strangers, select.EPOLLIN)
        self._strangers.register(listener, select.EPOLLIN)
        self._mutex = threading.Lock()
        """Guards the table and the listener; held only briefly."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        limit = MAX_CONNECTIONS if certificates is None else MAX_TLS_CONNECTIONS
        self._table = ConnectionTable(max(min(limit, files // 4), 16))
        self._closing = False
        self._large = False
        self._next_tick = 0.0
        self._streams: dict[int, Connection] = {}
        """Streams by file descriptor; changed under the mutex."""
        self._next_parts = 0.0

    def start(self) -> None:
        """Start to serve."""
        self._threads.start()

    def stop(self) -> None:
        """Free the port, let active requests finish, and close all connections."""
        with self._mutex:
            if self._closing:
                return
            self._closing = True
            self._listener.close()
        ended = self._threads.stop(lambda: os.eventfd_write(self._wake, 1), _STOP_TIMEOUT)
        for connection in self._table.all():
            self._close(connection)
        if ended:  # a late thread ends with the process
            self._strangers.close()
            self._epoll.close()
            os.close(self._wake)

    # --- the leader: silent connections

    def _poll(self) -> None:
        due = min(self._next_tick, self._next_parts) if self._streams else self._next_tick
        timeout = max(due - time.monotonic(), 0.0) if len(self._table) else None
        ready = [fd for fd, _ in self._epoll.poll(timeout)]
        for fd in ready:
            self._handle(fd)
        if self._strangers.fileno() in ready:
            for fd, _ in self._strangers.poll(0, _EVENTS_AT_ONCE):
                self._handle(fd)
        now = time.monotonic()
        if self._streams and now >= self._next_parts:
            self._send_parts(now)
        if self._large or now >= self._next_tick:
            self._enforce_limits(now)

    def _handle(self, fd: int) -> None:
        connection = self._table.silent(fd)
        if connection is not None:
            self._advance(connection)
        elif fd == self._listener.fileno():
            self._accept()

    def _enforce_limits(self, now: float) -> None:
        self._large = False
        with self._mutex:
            slow = self._table.take_expired(now, _EXPIRED_AT_ONCE)
            large = self._table.over_budget(_BUFFERED + 2 * self._max_body)
        self._next_tick = now + (_TICK if len(slow) < _EXPIRED_AT_ONCE else _EXPIRED_PAUSE)
        for connection in slow:
            log.debug("closed a connection whose client is too slow or idle")
            self._close(connection)
        for connection in large:
            log.warning("closed a connection of %d bytes: too many bytes are in memory", connection.size)
            self._close(connection)

    def _send_parts(self, now: float) -> None:
        """Send each stream its next part, if its client has read the last one."""
        self._next_parts = now + _STREAM_PERIOD
        with self._mutex:
            streams = list(self._streams.values())
        for connection in streams:
            if connection.sending or connection.stream is None:
                continue
            try:
                part = connection.stream()
                if part is None:
                    self._close(connection)
                elif part:
                    connection.send(part)
                    stalls_at = now + RESPONSE_TIMEOUT if connection.sending else connection.stream_end
                    connection.deadline = min(connection.stream_end, stalls_at)
                    self._release(connection)
            except OSError as error:
                log.debug("the client of a stream left: %s", error)
                self._close(connection)
            except Exception:  # a defect in one stream must not end the others
                log.exception("a stream failed")
                self._close(connection)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            with self._mutex:
                if self._closing:
                    return
                try:
                    stream, address = self._listener.accept()
                except BlockingIOError:
                    return
                except OSError as error:  # such as too many open files
                    log.warning("cannot accept a connection: %s", error)
                    stream, address = None, ("",)
                full = self._table.full
            evicted = (full or stream is None) and self._evict()
            if stream is None:
                time.sleep(0.0 if evicted else _TICK / 10)
            elif full and not evicted:
                stream.close()
            else:
                self._add(Connection(stream, self._max_body, self._certificates, address[0]))

    def _add(self, connection: Connection) -> None:
        connection.deadline = time.monotonic() + self._idle
        with self._mutex:
            self._table.release(connection)
        self._strangers.register(connection.fd, connection.events | select.EPOLLONESHOT)

    def _evict(self) -> bool:
        connection = self._table.longest_silent()
        if connection is not None:
            log.debug("closed the longest silent connection in favour of a new one")
            self._close(connection)
        return connection is not None

    def _advance(self, connection: Connection) -> None:
        """Send and receive on a silent connection, as far as possible without blocking."""
        try:
            connection.flush()
            if connection.sending:
                self._release(connection)
            elif connection.draining:
                connection.drain()
                self._release(connection)
            elif connection.responding:
                self._finish(connection)
            elif connection.stream is not None:
                connection.skip()
                connection.deadline = connection.stream_end
                self._release(connection)
            else:
                connection.receive()
                self._expect_request(connection)
        except HttpError as error:
            self._reject(connection, error)
        except OSError as error:
            log.debug("a connection failed: %s", error)
            self._close(connection)

    def _expect_request(self, connection: Connection) -> None:
        """Queue a whole request for a thread, or wait for the next bytes of an incomplete one. Raises HttpError."""
        request = connection.reader.take()
        if request is not None:
            self._enqueue(connection, request)
            return
        started = connection.handshaking or connection.reader.started
        if not started:
            connection.deadline = time.monotonic() + self._idle
        elif not connection.started:
            connection.deadline = time.monotonic() + REQUEST_TIMEOUT
        connection.started = started
        self._release(connection)

    # --- the leader, or the thread that serves the request

    def _enqueue(self, connection: Connection, request: HttpRequest) -> None:
        connection.request = request
        with self._mutex:
            self._table.activate(connection)
        connection.started = False
        connection.closing = not request.keep_alive
        if not self._threads.enqueue(connection, probe=request.path in UNAUTHENTICATED_PATHS):
            self._reject(connection, HttpError(503, f"{MAX_WAITING} requests are already waiting"))

    def _serve(self, connection: Connection) -> None:
        request = connection.request
        if request is None:
            return
        response = self._respond(request, connection.address)
        if response.stream is not None and len(self._streams) >= MAX_STREAMS:
            response = text_response(503, f"{MAX_STREAMS} clients already have a stream\n")
        log.debug("%s %s %d", request.method, request.path, response.status)
        connection.establishes = response.status == 200 and not is_public(request.path)
        if response.stream is not None:
            connection.closing = True
            connection.stream = None if request.method == "HEAD" else response.stream
        keep_alive, with_body = not connection.closing, request.method != "HEAD"
        self._send(connection, format_response(response, keep_alive=keep_alive, with_body=with_body))

    def _reject(self, connection: Connection, error: HttpError) -> None:
        """Respond to an unreadable request, and close the connection once the client has the response."""
        log.debug("%d %s", error.status, error.reason)
        connection.closing, connection.request = True, None
        response = text_response(error.status, f"{error.reason}\n")
        self._send(connection, format_response(response, keep_alive=False))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.responding = True
        connection.deadline = time.monotonic() + RESPONSE_TIMEOUT
        try:
            connection.send(data)
            if connection.sending:
                self._release(connection)
            else:
                self._finish(connection)
        except HttpError as error:
            self._reject(connection, error)
        except OSError as error:
            log.debug("a client left before its response: %s", error)
            self._close(connection)

    def _finish(self, connection: Connection) -> None:
        """Continue after a whole response. Raises HttpError and OSError."""
        rejected = connection.closing and connection.request is None
        connection.request, connection.responding = None, False
        if connection.establishes and not connection.established:
            self._establish(connection)
        if rejected:
            connection.drain()
            connection.deadline = time.monotonic() + _DRAIN_TIMEOUT
            self._release(connection)
        elif connection.stream is not None and not self._closing:
            connection.stream_end = connection.deadline = time.monotonic() + STREAM_TIMEOUT
            with self._mutex:
                self._streams[connection.fd] = connection
            self._release(connection)
        elif connection.closing or self._closing:
            self._close(connection)
        else:
            if connection.pending:
                connection.receive()
            self._expect_request(connection)

    def _establish(self, connection: Connection) -> None:
        connection.established = True
        with contextlib.suppress(OSError):  # closed when the server stopped
            self._strangers.unregister(connection.fd)
            self._epoll.register(connection.fd, select.EPOLLONESHOT)

    def _release(self, connection: Connection) -> None:
        """Return a connection to the leader, which waits for its client."""
        if connection.size >= LARGE:
            self._large = True
        epoll = self._epoll if connection.established else self._strangers
        with self._mutex, contextlib.suppress(OSError):  # closed when the server stopped
            self._table.release(connection)
            epoll.modify(connection.fd, connection.events | select.EPOLLONESHOT)

    def _close(self, connection: Connection) -> None:
        with self._mutex:
            if self._streams.get(connection.fd) is connection:
                del self._streams[connection.fd]
            self._table.remove(connection)
            connection.close()

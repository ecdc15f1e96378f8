"""Connections to one API server: verified, kept for the next request, and never waited for without end.

http.client speaks HTTP here, which the standard library has anyway; all of urllib3 would weigh 3 MiB more.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
import time
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from math import inf
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from zonewise_common.kube.errors import ConfigError, TransportError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

    from _typeshed import ReadableBuffer, WriteableBuffer

    from zonewise_common.kube.config import Config

_KEPT = 4
"""Idle connections kept for the next request; more requests at once open more."""
_PIECE = 1 << 16
_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # a peer that vanished without a word is found after 30 + 3 x 15 seconds
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class ConnectionPool:
    """The connections to one server; thread-safe. What goes wrong on them is raised as http.client raises it."""

    def __init__(self, config: Config) -> None:
        """Connect to nothing yet. Raises ConfigError for a bad URL or certificate."""
        self._config = config
        self._lock = threading.Lock()
        self._idle: list[_Connection] | None = []
        url = urlsplit(config.url)
        try:
            host, port = url.hostname, url.port
        except ValueError as error:
            raise ConfigError(f"{config.url}: {error}") from error
        if url.scheme not in {"http", "https"} or not host:
            raise ConfigError(f"{config.url!r} is no URL of an API server: http://HOST[:PORT] or https://HOST[:PORT]")
        self._encrypted = url.scheme == "https"
        self._place = host, port or (443 if self._encrypted else 80)
        self._trust = _trust(config) if self._encrypted else None

    def request(
        self, deadline: float, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ServerResponse:
        """Send a request and return its answer, which must come by a moment of the monotonic clock, body and all."""
        connection = self._take()
        try:
            connection.limit.until, connection.limit.silence = deadline, inf
            return ServerResponse(self, connection, connection.ask(method, target, body, headers))
        except BaseException:
            connection.close()
            raise

    def put_back(self, connection: _Connection) -> None:
        """Keep a connection for the next request, if it is open and there is room."""
        with self._lock:
            if self._idle is not None and connection.sock is not None and len(self._idle) < _KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def reload_certificates(self) -> None:
        """Read the certificates anew for the next connection: authorities are replaced while agents run."""
        self._trust = _trust(self._config) if self._encrypted else None

    def close(self) -> None:
        """Close the connections that no request holds, the others when they are given back."""
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _take(self) -> _Connection:
        """Return the connection that was used last, as long as the server has not closed it, or a new one."""
        with self._lock:
            if self._idle is None:
                raise TransportError("the client is closed")
            while self._idle:
                connection = self._idle.pop()
                if connection.is_quiet():
                    return connection
                connection.close()
        return _Connection(self._place, self._trust, self._config.server_name)


class ServerResponse:
    """The answer to one request, of which the body is not read yet. It must be ended, by the thread that reads."""

    def __init__(self, connections: ConnectionPool, connection: _Connection, exchange: _Exchange) -> None:
        self._connections = connections
        self._connection: _Connection | None = connection
        self._limit = connection.limit
        self._response, self._sock = exchange
        self._whole = False
        self.status = self._response.status
        self.headers: Message = self._response.headers

    def read(self) -> bytes:
        """Return the whole body."""
        body = self._response.read()
        self._whole = True
        return body

    def read_chunk(self, idle: float) -> bytes:
        """Return what comes next, after that many seconds at most, and without end as a whole; nothing at the end."""
        self._limit.until, self._limit.silence = inf, idle
        piece = self._response.read1(_PIECE)
        if not piece and self._response.length:  # read() tells, read1() does not
            raise IncompleteRead(piece, self._response.length)
        self._whole = not piece
        return piece

    def abort(self) -> None:
        """Break the connection, from any thread: who reads is told at once."""
        with contextlib.suppress(OSError):  # it has ended already
            # not SSLSocket's own, which takes the encryption away from under who reads
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def release(self) -> None:
        """Give the connection back where the body was read to its end, else close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._response.close()
        if self._whole:
            self._connections.put_back(connection)
        else:
            connection.close()


class _Limit:
    """How long a connection is waited for."""

    until = inf
    """A moment of the monotonic clock, for all together."""
    silence = inf
    """Seconds, for the next bytes."""

    def left(self) -> float | None:
        """Return for how many seconds to wait now; None: for ever. Raises TimeoutError."""
        seconds = min(self.silence, self.until - time.monotonic())
        if seconds <= 0:
            raise TimeoutError("timed out")
        return seconds if seconds < inf else None


class _Socket(socket.socket):
    """A socket on which each wait is as long as a limit leaves, so that what drips ends in time as well."""

    limit = _Limit()

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        self.settimeout(self.limit.left())
        return super().recv_into(buffer, nbytes or 0, flags)

    def sendall(self, data: ReadableBuffer, flags: int = 0) -> None:
        self.settimeout(self.limit.left())
        super().sendall(data, flags)


class _EncryptedSocket(_Socket, ssl.SSLSocket):
    """The same, encrypted."""


_Exchange = tuple[HTTPResponse, _Socket]


class _Connection(HTTPConnection):
    """One connection, which one request has at a time."""

    sock: _Socket | None

    def __init__(self, place: tuple[str, int], trust: ssl.SSLContext | None, name: str) -> None:
        super().__init__(*place)
        self.limit = _Limit()
        self._trust = trust
        self._name = name

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self.limit.left())
        for option in _SOCKET_OPTIONS:
            plain.setsockopt(*option)
        if self._trust is None:
            self.sock = _Socket(fileno=plain.detach())
        else:
            plain.settimeout(self.limit.left())
            wrapped = self._trust.wrap_socket(plain, server_hostname=self._name or self.host)
            self.sock = cast("_EncryptedSocket", wrapped)
        self.sock.limit = self.limit

    def ask(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> _Exchange:
        """Send a request; return the head of its answer, and the socket on which the body comes."""
        if self.sock is None:
            self.connect()
        sock = cast("_Socket", self.sock)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it may have said no before it heard all
            self.request(method, target, body, headers)
        return self.getresponse(), sock

    def is_quiet(self) -> bool:
        """Tell whether the server has neither closed the connection nor said what nobody asked for."""
        poll = select.poll()
        poll.register(cast("_Socket", self.sock), select.POLLIN)
        return not poll.poll(0)


def _trust(config: Config) -> ssl.SSLContext:
    """Return how the server is verified and how we show who we are."""
    inline = config.ca.startswith("-----BEGIN")
    try:
        context = ssl.create_default_context(
            cafile=None if inline else config.ca or None, cadata=config.ca if inline else None
        )
        context.sslsocket_class = _EncryptedSocket
        # on by default since Python 3.13, and refuses the authorities that many clusters have made (no key identifier)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.certificate:
            context.load_cert_chain(config.certificate.chain, config.certificate.key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = [name for name in ("" if inline else config.ca, *(config.certificate or ())) if name]
        raise ConfigError(f"certificates ({', '.join(names) or 'given as text'}): {error}") from error
    return context

"""A pool of connections to one API server: verified, reused, and with a limit on every wait.

It uses http.client from the standard library; urllib3 would need 3 MiB more memory.
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
from zonewise_common.kube.file_versions import file_versions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

    from _typeshed import ReadableBuffer, WriteableBuffer

    from zonewise_common.kube.config import Config
    from zonewise_common.kube.file_versions import FileVersions

_MAX_IDLE = 12
"""Maximum number of idle connections in the pool; more concurrent requests open more connections. A program with many
writing threads needs one connection for each: a handshake costs more than a request."""
_CHUNK = 1 << 16
_KEEP_IDLE: int = vars(socket).get("TCP_KEEPIDLE") or vars(socket)["TCP_KEEPALIVE"]
"""macOS names the option TCP_KEEPALIVE (tcp(4))."""
_SOCKET_OPTIONS = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # a peer that vanished silently is detected after 30 + 3 x 15 seconds
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, _KEEP_IDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)


class ConnectionPool:
    """The connections to one server; thread-safe. Errors are those of http.client."""

    def __init__(self, config: Config) -> None:
        """Create an empty pool. Raises ConfigError for an invalid URL or certificate."""
        self._config = config
        self._lock = threading.Lock()
        self._idle: list[_Connection] | None = []
        try:
            url = urlsplit(config.url)
            host, port = url.hostname, url.port
        except ValueError as error:
            raise ConfigError(f"{config.url}: {error}") from error
        if url.scheme not in {"http", "https"} or not host:
            raise ConfigError(
                f"{config.url!r} is not a URL of an API server: http://HOST[:PORT] or https://HOST[:PORT]"
            )
        self._encrypted = url.scheme == "https"
        self._address = host, port or (443 if self._encrypted else 80)
        self._load_certificates()

    def request(
        self, deadline: float, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> ServerResponse:
        """Send a request and return its response. `deadline`, on the monotonic clock, limits the whole exchange."""
        connection = self._acquire()
        try:
            connection.limit.deadline, connection.limit.idle = deadline, inf
            return ServerResponse(self, connection, connection.exchange(method, target, body, headers))
        except BaseException:
            connection.close()
            raise

    def put_back(self, connection: _Connection) -> None:
        """Return an open connection to the pool, or close it if the pool is full."""
        with self._lock:
            if self._idle is not None and connection.sock is not None and len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def renew_authorities(self) -> None:
        """Read the authorities again for the next connection, since they are replaced while agents run.

        Raises ConfigError.
        """
        if self._config.load_ca is not None:
            self._config = self._config._replace(ca=self._config.load_ca())
        self._load_certificates()

    def _load_certificates(self) -> None:
        version = file_versions(_certificate_files(self._config))
        self._tls = _tls_context(self._config) if self._encrypted else None
        self._certificate_version = version

    def renew_certificate(self, rejected: ServerResponse) -> bool:
        """Read the client's certificate again; return whether it is newer than that of a rejected request."""
        load = self._config.load_certificate
        if load is not None and rejected.certificate_version == self._certificate_version:
            self._config = self._config._replace(certificate=load())
        if file_versions(_certificate_files(self._config)) != self._certificate_version:
            self._load_certificates()
        return rejected.certificate_version != self._certificate_version

    def close(self) -> None:
        """Close the idle connections now, and the others when they are put back."""
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()

    def __del__(self) -> None:
        self.close()

    def _acquire(self) -> _Connection:
        """Return the most recently used connection that the server has not closed, or a new one.

        Connections with an outdated client certificate are closed.
        """
        with self._lock:
            if self._idle is None:
                raise TransportError("the client is closed")
            while self._idle:
                connection = self._idle.pop()
                if connection.certificate_version == self._certificate_version and connection.is_quiet():
                    return connection
                connection.close()
        return _Connection(self._address, self._tls, self._config.server_name, self._certificate_version)


class ServerResponse:
    """The response to one request, before its body is read. The reading thread must release it."""

    def __init__(self, connections: ConnectionPool, connection: _Connection, exchange: _Exchange) -> None:
        self._connections = connections
        self._connection: _Connection | None = connection
        self._limit = connection.limit
        self.certificate_version = connection.certificate_version
        self._response, self._sock = exchange
        self._complete = False
        self.status = self._response.status
        self.headers: Message = self._response.headers

    def read(self) -> bytes:
        """Return the whole body."""
        body = self._response.read()
        self._complete = True
        return body

    def read_chunk(self, idle: float) -> bytes:
        """Return the next part of the body after at most `idle` seconds; b"" at the end. The body has no limit."""
        self._limit.deadline, self._limit.idle = inf, idle
        chunk = self._response.read1(_CHUNK)
        if not chunk and self._response.length:  # read() raises, read1() does not
            raise IncompleteRead(chunk, self._response.length)
        self._complete = not chunk
        return chunk

    def abort(self) -> None:
        """Break the connection, from any thread: the reading thread gets an error or the end of the body at once."""
        with contextlib.suppress(OSError):  # the connection has ended already
            # not SSLSocket's own shutdown, which removes the encryption while another thread reads
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)

    def release(self) -> None:
        """Put the connection back if the body was read to its end, otherwise close it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._response.close()
        if self._complete:
            self._connections.put_back(connection)
        else:
            connection.close()


class _Limit:
    """The limit on each wait of a connection."""

    deadline = inf
    """The end of the whole exchange, on the monotonic clock."""
    idle = inf
    """The longest wait for the next bytes, in seconds."""

    def remaining(self) -> float | None:
        """Return the seconds that remain for the next wait; None for no limit. Raises TimeoutError."""
        seconds = min(self.idle, self.deadline - time.monotonic())
        if seconds <= 0:
            raise TimeoutError("timed out")
        return seconds if seconds < inf else None


class _Socket(socket.socket):
    """A socket on which no wait exceeds a limit, so even a response that trickles in byte by byte ends in time."""

    limit = _Limit()

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        self.settimeout(self.limit.remaining())
        return super().recv_into(buffer, nbytes or 0, flags)

    def sendall(self, data: ReadableBuffer, flags: int = 0) -> None:
        self.settimeout(self.limit.remaining())
        super().sendall(data, flags)


class _EncryptedSocket(_Socket, ssl.SSLSocket):
    """The same with TLS."""


_Exchange = tuple[HTTPResponse, _Socket]


class _Connection(HTTPConnection):
    """One connection, with one request at a time."""

    sock: _Socket | None

    def __init__(
        self, address: tuple[str, int], tls: ssl.SSLContext | None, name: str, certificate_version: FileVersions
    ) -> None:
        super().__init__(*address)
        self.limit = _Limit()
        self._tls = tls
        self._name = name
        self.certificate_version = certificate_version
        """Version of the client's certificate in the TLS context."""
        self._parts: list[bytes] = []
        """Parts of a request that is not sent yet."""

    def connect(self) -> None:
        # closed if a limit has passed or an option is refused; wrap_socket and detach take over the descriptor
        with _connected_socket(self.host, self.port, self.limit) as plain:
            for option in _SOCKET_OPTIONS:
                plain.setsockopt(*option)
            if self._tls is None:
                self.sock = _Socket(fileno=plain.detach())
            else:
                plain.settimeout(self.limit.remaining())
                wrapped = self._tls.wrap_socket(plain, server_hostname=self._name or self.host)
                self.sock = cast("_EncryptedSocket", wrapped)
        self.sock.limit = self.limit

    def exchange(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> _Exchange:
        """Send a request; return the head of its response, and the socket from which to read the body."""
        if self.sock is None:
            self.connect()
        sock = cast("_Socket", self.sock)
        self.request(method, target, body, headers)
        request, self._parts = b"".join(self._parts), []
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the server may respond early
            super().send(request)
        return self.getresponse(), sock

    def send(self, data: object) -> None:
        """Buffer a part of a request: head and body are sent together, in one TLS record and one packet."""
        self._parts.append(cast("bytes", data))

    def is_quiet(self) -> bool:
        """Return whether the server has neither closed the connection nor sent unrequested data."""
        poll = select.poll()
        poll.register(cast("_Socket", self.sock), select.POLLIN)
        return not poll.poll(0)


def _connected_socket(host: str, port: int, limit: _Limit) -> socket.socket:
    """Return a connection to the first address of a host that responds. Raises OSError.

    Each address gets an equal share of the remaining time (Go src/net/dial.go partialDeadline).
    """
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left in range(len(addresses), 0, -1):
        family, kind, protocol, _, address = addresses[-left]
        remaining = limit.remaining()
        plain = socket.socket(family, kind, protocol)
        try:
            plain.settimeout(None if remaining is None else remaining / left)
            plain.connect(address)
        except BaseException as error:
            plain.close()
            if left == 1 or not isinstance(error, OSError):
                raise
        else:
            return plain
    raise OSError(f"{host} has no address")


def _certificate_files(config: Config) -> tuple[str, ...]:
    return tuple(filter(None, config.certificate or ()))


def _tls_context(config: Config) -> ssl.SSLContext:
    """Return the TLS context, with the authorities that verify the server and the client's certificate."""
    inline = config.ca.startswith("-----BEGIN")
    try:
        context = ssl.create_default_context(
            cafile=None if inline else config.ca or None, cadata=config.ca if inline else None
        )
        context.sslsocket_class = _EncryptedSocket
        # default since Python 3.13; it rejects the authorities of many clusters, which have no key identifier
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.certificate:
            context.load_cert_chain(config.certificate.chain, config.certificate.key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = [name for name in ("" if inline else config.ca, *(config.certificate or ())) if name]
        raise ConfigError(f"certificates ({', '.join(names) or 'given as text'}): {error}") from error
    return context

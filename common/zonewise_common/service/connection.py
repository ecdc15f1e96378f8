"""One client connection of the HTTP server: a socket that never blocks, TLS, and the bytes in transit."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from typing import TYPE_CHECKING

from zonewise_common.service.http_messages import CONTINUE, RequestReader

if TYPE_CHECKING:
    from zonewise_common.service.handlers import ResponseStream
    from zonewise_common.service.http_messages import HttpRequest
    from zonewise_common.service.tls import Certificates

_MAX_READ = 1 << 20
"""Maximum bytes that are read at once from one connection, before the next one is served."""


class Connection:
    """A connection that only one thread uses at a time."""

    __slots__ = (
        "_certificates", "_stream", "_unsent", "address", "closing", "deadline", "draining", "established",
        "establishes", "events", "fd", "handshaking", "reader", "request", "responding", "started", "stream",
        "stream_end",
    )  # fmt: skip

    def __init__(self, stream: socket.socket, max_body: int, certificates: Certificates | None, address: str) -> None:
        stream.setblocking(False)
        with contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = stream
        self._certificates = certificates
        self._unsent = memoryview(b"")
        self.fd = stream.fileno()
        self.reader = RequestReader(max_body)
        self.request: HttpRequest | None = None
        """The request that waits for its response."""
        self.address = address
        """The IP address of the client."""
        self.events = select.EPOLLIN
        """The poll events for which the connection waits."""
        self.handshaking = False
        self.started = False
        """Whether the client has begun a request or a TLS handshake."""
        self.established = False
        """Whether a request other than a probe has been served."""
        self.establishes = False
        """Whether the connection is established once the response is sent."""
        self.closing = False
        """Whether the connection is closed after the response."""
        self.responding = False
        """Whether a response is being sent."""
        self.draining = False
        """Whether the last response is sent, and further bytes from the client are discarded."""
        self.deadline = 0.0
        self.stream: ResponseStream | None = None
        """The rest of a streamed response; None if the response ends by itself."""
        self.stream_end = 0.0
        """The time by which the stream is closed."""

    @property
    def sending(self) -> bool:
        """Return whether a part of a response is still unsent."""
        return bool(self._unsent)

    @property
    def pending(self) -> bool:
        """Return whether TLS holds decrypted bytes, which the socket no longer signals."""
        return isinstance(self._stream, ssl.SSLSocket) and not self.handshaking and self._stream.pending() > 0

    @property
    def size(self) -> int:
        """Return the number of bytes in memory for this connection."""
        request = self.request
        return self.reader.size + len(self._unsent) + (len(request.body) if request is not None else 0)

    def receive(self) -> None:
        """Read the received bytes, up to the end of one request. Raises HttpError, and OSError if the client left."""
        self.events = select.EPOLLIN
        try:
            self._shake_hands()
            budget = _MAX_READ
            while (missing := self.reader.missing) and (budget > 0 or self.pending):
                size = min(missing, _MAX_READ)
                data = self._stream.recv(size)
                if not data:
                    self.reader.check_end()
                    raise ConnectionResetError("closed by the client")
                self.reader.feed(data)
                if len(data) < size and not isinstance(self._stream, ssl.SSLSocket):
                    break  # no more bytes have arrived
                budget -= len(data)
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except ssl.SSLWantWriteError:
            self.events = select.EPOLLOUT
        if self.reader.continue_due:
            self.reader.continue_due = False
            self.send(CONTINUE)

    def send(self, data: bytes) -> None:
        """Send as many bytes as the socket accepts. Raises OSError if the client left."""
        self._unsent = memoryview(data)
        self.flush()

    def flush(self) -> None:
        """Continue to send. Raises OSError if the client left."""
        self.events = select.EPOLLOUT
        try:
            while self._unsent:
                self._unsent = self._unsent[self._stream.send(self._unsent) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            return
        except ssl.SSLWantReadError:
            self.events = select.EPOLLIN
            return
        self._unsent = memoryview(b"")
        self.events = select.EPOLLIN

    def drain(self) -> None:
        """Discard bytes that arrive after the last response. Raises OSError if the client left.

        Closing a socket with unread bytes resets the connection, and the client could lose the response.
        """
        if not self.draining:
            self.draining = True
            self._stream.shutdown(socket.SHUT_WR)
        self.skip()

    def skip(self) -> None:
        """Discard received bytes. Raises OSError if the client left."""
        with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not self._stream.recv(_MAX_READ):
                raise ConnectionResetError("closed by the client")

    def close(self) -> None:
        """Close the socket."""
        with contextlib.suppress(OSError):
            self._stream.close()

    def _shake_hands(self) -> None:
        # TLS begins with the first byte: a silent connection costs neither its memory nor its computation
        if self._certificates is not None:
            # wrap_socket would leave the socket open if the client has reset the connection
            if not self._stream.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("closed by the client")
            context, self._certificates = self._certificates.context(), None
            self.handshaking = True
            self._stream = context.wrap_socket(self._stream, server_side=True, do_handshake_on_connect=False)
        if self.handshaking and isinstance(self._stream, ssl.SSLSocket):
            self._stream.do_handshake()
            self.handshaking = False

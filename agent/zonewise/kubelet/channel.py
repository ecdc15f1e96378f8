"""gRPC calls to the kubelet's unix sockets, with h2 for HTTP/2.

The package grpcio would need 13 MiB more of resident memory and six more threads. Source of the rules:
doc/PROTOCOL-HTTP2.md of grpc/grpc.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from itertools import islice
from math import inf
from typing import TYPE_CHECKING
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from zonewise.kubelet.errors import BadResponse, KubeletError, KubeletTimeout, KubeletUnavailable, Throttled

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_CHUNK = 1 << 16
_WINDOW = (1 << 31) - 1
"""Bytes that the server may send ahead, the maximum of HTTP/2: one List may have 17.8 MB (kubernetes#141335)."""
_DEFAULT_WINDOW = (1 << 16) - 1
_CONNECT_TIMEOUT = 1.0
"""Seconds. With any timeout, connecting to a unix socket never waits: it fails if the server's queue is full
(unix(7))."""
_MAX_MESSAGE = 32 << 20
"""Maximum bytes of a response; without it, a broken server could take all of the node's memory within a deadline."""
_STREAM = 1  # the first stream of a client
_PREFIX = 5  # bytes before each message: a flag for compression, and the length
_MAX_DETAILS = 300  # maximum characters of a server's details in the log

_STATUS_NAMES = {
    "1": "CANCELLED", "2": "UNKNOWN", "3": "INVALID_ARGUMENT", "4": "DEADLINE_EXCEEDED", "5": "NOT_FOUND",
    "6": "ALREADY_EXISTS", "7": "PERMISSION_DENIED", "8": "RESOURCE_EXHAUSTED", "9": "FAILED_PRECONDITION",
    "10": "ABORTED", "11": "OUT_OF_RANGE", "12": "UNIMPLEMENTED", "13": "INTERNAL", "14": "UNAVAILABLE",
    "15": "DATA_LOSS", "16": "UNAUTHENTICATED",
}  # fmt: skip
_ERROR_TYPES: dict[str, type[KubeletError]] = {
    "UNAVAILABLE": KubeletUnavailable,
    "CANCELLED": KubeletUnavailable,
    "RESOURCE_EXHAUSTED": Throttled,
}
_RESETS: dict[int, str] = {
    ErrorCodes.REFUSED_STREAM: "UNAVAILABLE",
    ErrorCodes.CANCEL: "CANCELLED",
    ErrorCodes.ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
}


class Channel:
    """Calls to the server on one socket; thread-safe.

    Each call has a connection of its own: connecting takes microseconds, and a restarted server needs no other rule.
    Errors name the method and the socket. Raises KubeletUnavailable, KubeletTimeout, Throttled or BadResponse.
    """

    def __init__(self, socket_path: str, service: str) -> None:
        """Set the socket, and the name of the service with its package."""
        self._path = socket_path
        self._service = service
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed = False

    def call(self, method: str, request: bytes, timeout: float) -> bytes:
        """Return the response of a method that has one response, within `timeout` seconds."""
        responses = list(islice(self._responses(method, request, timeout), 2))
        if len(responses) != 1:
            raise BadResponse(f"{method} on {self._path}: {'several' if responses else 'no'} responses instead of one")
        return responses[0]

    def stream(self, method: str, request: bytes) -> Iterator[bytes]:
        """Yield the responses of a method that has many, as they come, until the server or close() ends the call."""
        return self._responses(method, request, inf)

    def close(self) -> None:
        """End every call in progress; later calls raise KubeletUnavailable."""
        with self._lock:
            self._closed = True
            for connection in self._open:
                with contextlib.suppress(OSError):  # the server has closed it
                    connection.shutdown(socket.SHUT_RDWR)

    def _responses(self, method: str, request: bytes, timeout: float) -> Iterator[bytes]:
        what = f"{method} on {self._path}"
        deadline = time.monotonic() + timeout
        try:
            with self._connected(what) as connection:
                call = _Call(connection, deadline)
                call.send(f"/{self._service}/{method}", request)
                yield from call.responses()
        except _CallError as error:
            details = " ".join(error.details.split())[:_MAX_DETAILS]
            raise _ERROR_TYPES.get(error.status, BadResponse)(f"{what}: {error.status}: {details}") from error
        except TimeoutError as error:
            raise KubeletTimeout(f"{what}: no response in time") from error
        except ProtocolError as error:  # of a server that stops: h2 expects no frame after a GOAWAY
            raise KubeletUnavailable(f"{what}: the connection broke: {error}") from error
        except OSError as error:
            raise KubeletUnavailable(f"{what}: the connection broke: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _connected(self, what: str) -> Generator[socket.socket]:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_TIMEOUT)
            with self._lock:
                if self._closed:
                    raise KubeletUnavailable(f"{what}: the client is closed")
                try:
                    connection.connect(self._path)
                except OSError as error:
                    raise KubeletUnavailable(f"{what}: cannot connect: {error.strerror or error}") from error
                self._open.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._open.discard(connection)


class _CallError(Exception):
    """A call that ended with a status other than OK."""

    def __init__(self, status: str, details: str) -> None:
        super().__init__(status, details)
        self.status = status
        self.details = details


class _Call:
    """One call on a connection of its own."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline
        self._http = H2Connection(H2Configuration(header_encoding=None))
        self._http.local_settings = Settings(
            client=True, initial_values={SettingCodes.ENABLE_PUSH: 0, SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW}
        )
        self._received = bytearray()
        self._status: str | None = None
        self._ended = False

    def send(self, path: str, request: bytes) -> None:
        """Send the request."""
        headers = [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"), ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]  # fmt: skip
        if self._deadline < inf:
            left = max(1, int((self._deadline - time.monotonic()) * 1000))
            headers.append(("grpc-timeout", f"{left}m"))
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_WINDOW - _DEFAULT_WINDOW)
        self._http.send_headers(_STREAM, headers)
        self._http.send_data(_STREAM, b"\0" + len(request).to_bytes(4, "big") + request, end_stream=True)
        self._flush()

    def responses(self) -> Iterator[bytes]:
        """Yield the responses. Raises _CallError, ProtocolError, TimeoutError, or OSError if the connection breaks."""
        while not self._ended:
            _limit(self._connection, self._deadline)
            content = self._connection.recv(_CHUNK)
            if not content:
                raise _CallError("UNAVAILABLE", "the connection was closed")
            for event in self._http.receive_data(content):
                self._handle(event)
                yield from self._messages()
            with contextlib.suppress(ConnectionError):  # the rest of the response may have arrived before
                self._flush()

    def _flush(self) -> None:
        _limit(self._connection, self._deadline)
        self._connection.sendall(self._http.data_to_send())

    def _messages(self) -> Iterator[bytes]:
        """Yield the messages that were received as a whole."""
        while len(self._received) >= _PREFIX:
            end = _PREFIX + int.from_bytes(self._received[1:_PREFIX], "big")
            if self._received[0]:
                raise _CallError("INTERNAL", "the response is compressed")
            if end - _PREFIX > _MAX_MESSAGE:
                raise _CallError("INTERNAL", f"the response has {end - _PREFIX} bytes, more than {_MAX_MESSAGE}")
            if len(self._received) < end:
                return
            message = bytes(self._received[_PREFIX:end])
            del self._received[:end]
            yield message

    def _handle(self, event: Event) -> None:
        match event:
            case DataReceived():
                self._received += event.data or b""
                self._http.acknowledge_received_data(event.flow_controlled_length or 0, _STREAM)
            case ResponseReceived() | TrailersReceived():
                self._read_headers({_text(name): _text(value) for name, value in event.headers or ()})
            case StreamEnded():
                if self._status is None:
                    raise _CallError("UNKNOWN", "the response has no status")
                self._ended = True
            case StreamReset():
                raise _CallError(_RESETS.get(event.error_code or 0, "INTERNAL"), "the server has reset the call")
            case ConnectionTerminated():
                raise _CallError("UNAVAILABLE", "the server stops")
            case _:
                pass

    def _read_headers(self, headers: dict[str, str]) -> None:
        """Read the headers before or after the responses. Raises _CallError unless they show success."""
        if headers.get(":status", "200") != "200":
            raise _CallError("UNKNOWN", f"HTTP status {headers[':status']}")
        self._status = headers.get("grpc-status")
        if self._status in (None, "0"):
            return
        name = _STATUS_NAMES.get(self._status, "UNKNOWN")
        if name == "DEADLINE_EXCEEDED":
            raise TimeoutError
        raise _CallError(name, unquote(headers.get("grpc-message", "")))


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _limit(connection: socket.socket, deadline: float) -> None:
    """Let the next operation of a socket end by a deadline. Raises TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    connection.settimeout(None if left == inf else left)

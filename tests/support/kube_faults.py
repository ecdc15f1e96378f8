"""A scripted HTTP server with control over every byte, for faults that clients of an API server must tolerate.

It uses real sockets. Each request gets the next scripted response; the last response repeats forever.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, Self

Object = dict[str, Any]

as_dict = msgspec.json.Decoder(Object).decode
"""For reflectors that cache whole objects."""


class Request(NamedTuple):
    """A client's request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes
    connection: int
    """The number of the connection that it came over, counted from 0."""

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Exchange:
    """One request and the response, as the test writes it."""

    def __init__(self, request: Request, sock: socket.socket, closing: threading.Event) -> None:
        self.request = request
        self.keep = True
        self._sock = sock
        self._closing = closing

    @property
    def client_names(self) -> list[str]:
        """The names in the client's certificate, if TLS has verified one."""
        certificate = self._sock.getpeercert() if isinstance(self._sock, ssl.SSLSocket) else None
        names: Any = (certificate or {}).get("subjectAltName", ())
        return [name for _, name in names]

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        given = {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        self.send(f"HTTP/1.1 {status} Said\r\n{lines}\r\n".encode() + body)

    def begin(self) -> None:
        """Begin a chunked response."""
        self.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end(self) -> None:
        """End the chunked response as HTTP requires."""
        self.send(b"0\r\n\r\n")

    def hang_up(self) -> None:
        """Close the connection (FIN), whatever length the header declares."""
        self.keep = False

    def reset(self) -> None:
        """Abort the connection (RST)."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.keep = False

    def stay_silent(self) -> None:
        """Send nothing more until the server is closed."""
        self._closing.wait()
        self.keep = False


if TYPE_CHECKING:
    Answer = Callable[[Exchange], None]


class ScriptedServer:
    """A server on loopback with one script of responses for watches and another for all other requests."""

    def __init__(
        self, answers: Sequence[Answer], watches: Sequence[Answer] = (), *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[Request] = []
        self._answers = {False: deque(answers), True: deque(watches or [watch_on()])}
        self._tls = tls
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://{'localhost' if tls else '127.0.0.1'}:{self.port}"

    @property
    def watches(self) -> list[Request]:
        return [request for request in list(self.requests) if request.is_watch]

    @property
    def lists(self) -> list[Request]:
        return [request for request in list(self.requests) if not request.is_watch]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for sock in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock, len(self._open) - 1), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):  # errors that the client causes do not concern the server
            if self._tls:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._open[number] = sock
            with sock, sock.makefile("rb") as reader:
                while request := read_request(reader, number):
                    exchange = Exchange(request, sock, self._closing)
                    self._next(request)(exchange)
                    if not exchange.keep:
                        with contextlib.suppress(OSError):
                            sock.shutdown(socket.SHUT_WR)
                        return
        sock.close()

    def _next(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            answers = self._answers[request.is_watch]
            return answers.popleft() if len(answers) > 1 else answers[0]


def read_request(reader: BinaryIO, connection: int) -> Request | None:
    """Read one request; return None if the client has closed the connection."""
    first = reader.readline()
    if not first.strip():
        return None
    method, target, _ = first.decode().split()
    headers: dict[str, str] = {}
    while line := reader.readline().decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    url = urlsplit(target)
    query = {name: values[-1] for name, values in parse_qs(url.query).items()}
    body = reader.read(int(headers.get("content-length", "0")))
    return Request(method, url.path, query, headers, body, connection)


# --- responses


def give(status: int, content: object, headers: dict[str, str] | None = None) -> Answer:
    """Respond with JSON, or with bytes unchanged."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda exchange: exchange.answer(status, body, headers)


def refuse(status: int, reason: str, message: str = "no", headers: dict[str, str] | None = None) -> Answer:
    """Respond with a Status."""
    return give(status, failure(status, reason, message), headers)


def watch_on(*events: Object) -> Answer:
    """Send events, then keep the watch open without sending anything."""

    def run(exchange: Exchange) -> None:
        exchange.begin()
        for one in events:
            exchange.chunk(line(one))
        exchange.stay_silent()

    return run


def watch_once(*events: Object) -> Answer:
    """Send events, then end as HTTP requires."""

    def run(exchange: Exchange) -> None:
        exchange.begin()
        for one in events:
            exchange.chunk(line(one))
        exchange.end()

    return run


# --- contents of responses


def pod(name: str, version: int, **more: Any) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **more}


def pods(version: int, *items: Object, more: str = "") -> Object:
    metadata = {"resourceVersion": str(version), **({"continue": more} if more else {})}
    return {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": list(items)}


def event(kind: str, obj: Object) -> Object:
    return {"type": kind, "object": obj}


def bookmark(version: int) -> Object:
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": str(version)}})


def failure(code: int, reason: str, message: str = "no", **details: Any) -> Object:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    return {**status, "reason": reason, "message": message, **({"details": details} if details else {})}


def line(content: Object) -> bytes:
    return json.dumps(content).encode() + b"\n"

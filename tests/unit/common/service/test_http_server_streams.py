"""Streams of the HTTP server: a slow client affects only itself."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from support.http_requests import get, serve
from support.waiting import PATIENCE, eventually
from zonewise_common.service import connection_loop
from zonewise_common.service.handlers import GetHandler, Request, Response, text_response
from zonewise_common.service.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGE = 4 << 20
"""More bytes than the sockets of both ends buffer."""


class Source:
    """A stream whose parts a test sets."""

    def __init__(self) -> None:
        self.parts: list[bytes | None] = []
        self.calls = 0

    def __call__(self) -> bytes | None:
        self.calls += 1
        return self.parts.pop(0) if self.parts else b""


class Streams:
    """A server whose clients each get their own stream, in the order in which they connect."""

    def __init__(self) -> None:
        self.sources = [Source() for _ in range(8)]
        self.count = 0
        self.port = 0

    def stream(self, _request: Request) -> Response:
        self.count += 1
        return Response(
            200, "text/event-stream", b"begin\n", (("Cache-Control", "no-store"),), self.sources[self.count - 1]
        )

    def open(self, method: str = "GET") -> socket.socket:
        stream = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        stream.sendall(f"{method} /stream HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        return stream


@pytest.fixture
def streams() -> Iterator[Streams]:
    served = Streams()
    handler = GetHandler({"/stream": served.stream, "/other": lambda _request: text_response(200, "ok\n")})
    for port in serve(HttpServer("127.0.0.1:0", handler)):
        served.port = port
        yield served


def read_until(stream: socket.socket, end: bytes) -> bytes:
    data = b""
    while not data.endswith(end):
        received = stream.recv(1 << 16)
        assert received, data
        data += received
    return data


def test_parts_arrive_as_they_come(streams: Streams) -> None:
    with streams.open() as client:
        head = read_until(client, b"begin\n")
        assert b"Content-Length" not in head
        assert b"Connection: close" in head
        for part in (b"one\n", b"two\n"):
            streams.sources[0].parts.append(part)
            assert read_until(client, b"\n") == part
        streams.sources[0].parts.append(None)
        assert client.recv(10) == b""


def test_a_client_that_does_not_read_delays_no_other(streams: Streams) -> None:
    """The source of its stream must wait, so the data that it has not read never accumulates in memory."""
    slow, fast = streams.open(), streams.open()
    with slow, fast:
        for client in (slow, fast):
            read_until(client, b"begin\n")
        first, second = streams.sources[:2]
        first.parts += [b"x" * LARGE, b"end\n"]
        eventually(lambda: len(first.parts) == 1)
        for i in range(4):
            second.parts.append(b"part %d\n" % i)
            assert read_until(fast, b"\n") == b"part %d\n" % i
            assert get(streams.port, "/other").status == 200
        assert first.parts == [b"end\n"]
        assert len(read_until(slow, b"end\n")) == LARGE + 4


def test_the_source_of_a_client_that_has_left_is_not_called_any_more(streams: Streams) -> None:
    with streams.open() as client:
        read_until(client, b"begin\n")
        eventually(lambda: streams.sources[0].calls > 0)
    with streams.open() as other:
        read_until(other, b"begin\n")
        calls = streams.sources[0].calls
        seen = streams.sources[1].calls
        eventually(lambda: streams.sources[1].calls >= seen + 4)
        assert streams.sources[0].calls <= calls + 1


def test_a_defect_ends_only_its_own_stream(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    class Defect(Exception):
        pass

    def fail(_self: Source) -> bytes:
        raise Defect

    with streams.open() as client, streams.open() as other:
        read_until(client, b"begin\n")
        read_until(other, b"begin\n")
        streams.sources[0].__class__ = type("Broken", (Source,), {"__call__": fail})
        assert client.recv(10) == b""
        streams.sources[1].parts.append(b"still\n")
        assert read_until(other, b"\n") == b"still\n"


def test_the_number_of_streams_is_limited(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_loop, "MAX_STREAMS", 1)
    with streams.open() as client:
        read_until(client, b"begin\n")
        eventually(lambda: streams.sources[0].calls > 0)
        assert get(streams.port, "/stream").status == 503


def test_a_stream_ends_after_a_time(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """A withdrawn token therefore works at most that long."""
    monkeypatch.setattr(connection_loop, "STREAM_TIMEOUT", 0.1)
    with streams.open() as client:
        assert read_until(client, b"begin\n")
        assert client.recv(10) == b""


def test_head_gets_no_stream(streams: Streams) -> None:
    with streams.open("HEAD") as client:
        assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert client.recv(10) == b""
    assert streams.sources[0].calls == 0


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:80", 200),
        ("127.0.0.1", 200),
        ("[::1]:8080", 200),
        ("", 200),
        ("evil.example", 403),
        ("1.2.3.4.evil.example", 403),
    ],
)
def test_a_name_from_elsewhere_does_not_reach_the_api(host: str, status: int) -> None:
    """A page cannot read the API with a local user's browser by having its own host name resolve to this host."""
    handler = GetHandler({"/api/v1/x": lambda _request: text_response(200, "ok\n")})
    for port in serve(HttpServer("127.0.0.1:0", handler)):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as client:
            client.sendall(f"GET /api/v1/x HTTP/1.1\r\n{f'Host: {host}' if host else 'A: b'}\r\n\r\n".encode())
            assert client.recv(1 << 16).startswith(f"HTTP/1.1 {status}".encode())

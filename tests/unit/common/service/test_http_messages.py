"""HTTP messages: the requests are the same however their bytes are split, and as the standard library reads them."""

from __future__ import annotations

import http.client
import io
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.handlers import Response
from zonewise_common.service.http_messages import MAX_HEAD, HttpError, HttpRequest, RequestReader, format_response

NAMES = st.text("abcXYZ-019", min_size=1, max_size=8).map(lambda name: f"X-{name}")
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12)
PATHS = st.text("abc/._-%", max_size=12).map(lambda path: f"/{path}")


class Sent(NamedTuple):
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def encode(self) -> bytes:
        lines = [f"{self.method} {self.path}?query HTTP/1.1", *(f"{name}: {value} " for name, value in self.headers)]
        lines += [f"Content-Length: {len(self.body)}"] if self.method == "POST" else []
        return "\r\n".join([*lines, "", ""]).encode() + self.body


@st.composite
def sent_requests(draw: st.DrawFn) -> Sent:
    method = draw(st.sampled_from(["GET", "HEAD", "POST"]))
    headers = draw(st.lists(st.tuples(NAMES, VALUES), max_size=4, unique_by=lambda header: header[0].lower()))
    return Sent(method, draw(PATHS), headers, draw(st.binary(max_size=40)) if method == "POST" else b"")


def read_all(pieces: list[bytes], max_body: int = 100) -> list[HttpRequest]:
    reader = RequestReader(max_body)
    requests: list[HttpRequest] = []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.take()) is not None:
            requests.append(request)
    assert not reader.started
    return requests


@given(st.lists(sent_requests(), min_size=1, max_size=4), st.data())
def test_any_pieces(sent: list[Sent], data: st.DataObject) -> None:
    """Requests on one connection are read completely and in order, wherever their bytes are split."""
    content = b"".join(request.encode() for request in sent)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(content)), max_size=12)))
    pieces = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    requests = read_all(pieces)
    assert [(request.method, request.path, request.body) for request in requests] == [
        (request.method, request.path, request.body) for request in sent
    ]
    for request, original in zip(requests, sent, strict=True):
        fields = http.client.parse_headers(io.BytesIO(original.encode().partition(b"\r\n")[2]))
        assert request.headers == {name.lower(): value.strip() for name, value in fields.items()}


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes(content: bytes, size: int) -> None:
    """Any bytes produce requests or an HttpError, and never occupy more memory than one head and one body."""
    reader = RequestReader(10)
    with suppress(HttpError):
        for start in range(0, len(content), size):
            reader.feed(content[start : start + size])
            reader.take()
            assert reader.missing >= 0
    assert reader.size <= len(content)


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"nonsense", 400),
        (b"GET /  HTTP/1.1", 400),
        (b"GET / HTTP/2.0", 505),
        (b"DELETE / HTTP/1.1", 501),
        (b"GET / HTTP/1.1\r\nNo-Colon", 400),
        (b"GET / HTTP/1.1\r\nSpace : x", 400),
        (b"GET / HTTP/1.1\r\nFolded: x\r\n y", 400),
        (b"GET / HTTP/1.1\r\nBare: x\ny", 400),
        (b"POST / HTTP/1.1", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: -1", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 1_0", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", 411),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 101", 413),
        (b"POST / HTTP/1.1\r\nContent-Length: " + b"9" * 5000, 413),
        (b"GET / HTTP/1.1\r\nContent-Length: 101", 413),
        (b"GET / HTTP/1.1\r\nLong: " + b"x" * MAX_HEAD, 431),
    ],
)
def test_errors(head: bytes, status: int) -> None:
    """Each error has its status, and a reason of one line."""
    with pytest.raises(HttpError) as raised:
        read_all([head + b"\r\n\r\n"])
    assert raised.value.status == status
    assert raised.value.reason.isprintable()


def test_a_head_without_end() -> None:
    """A head larger than the limit is an error before it ends."""
    reader = RequestReader(0)
    reader.feed(b"GET / HTTP/1.1 ")
    with pytest.raises(HttpError, match="larger than 16384 bytes"):
        reader.feed(b"x" * (MAX_HEAD - reader.size))


@pytest.mark.parametrize(
    ("version", "connection", "keep_alive"),
    [("1.1", "", True), ("1.1", "close", False), ("1.0", "", False), ("1.0", "Keep-Alive", True)],
)
def test_keep_alive(version: str, connection: str, keep_alive: bool) -> None:
    """HTTP/1.1 connections are kept open unless the client closes them; HTTP/1.0 connections only on request."""
    (request,) = read_all([f"\r\nGET / HTTP/{version}\r\nConnection: {connection}\r\n\r\n".encode()])
    assert request.keep_alive is keep_alive


def test_expect_continue() -> None:
    """A client that waits before it sends its body gets 100 Continue, unless the body has arrived."""
    head = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"
    reader = RequestReader(2)
    reader.feed(head)
    assert reader.continue_due
    reader = RequestReader(2)
    reader.feed(head + b"{}")
    assert not reader.continue_due
    assert reader.take() is not None


class _Bytes:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self._content)


@pytest.mark.parametrize("status", [200, 400, 401, 404, 413, 431, 500, 503])
@pytest.mark.parametrize("keep_alive", [True, False])
def test_responses(status: int, keep_alive: bool) -> None:
    """The standard library reads a response as intended."""
    content = format_response(Response(status, "text/plain", b"body"), keep_alive=keep_alive)
    response = http.client.HTTPResponse(_Bytes(content))  # pyright: ignore[reportArgumentType]  # no socket
    response.begin()
    assert (response.status, response.read(), response.getheader("Content-Type")) == (status, b"body", "text/plain")
    assert response.getheader("Connection") == (None if keep_alive else "close")
    assert (response.getheader("WWW-Authenticate") == "Bearer") is (status == 401)
    assert parsedate_to_datetime(response.getheader("Date") or "").tzinfo is not None
    head = format_response(Response(status, "text/plain", b"body"), keep_alive=keep_alive, with_body=False)
    assert head == content.removesuffix(b"body")

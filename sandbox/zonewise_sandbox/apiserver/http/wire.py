"""The part of HTTP/1.1 that API clients use: persistent connections, and bodies by length or in chunks.

The standard library's http.server needs more time for a request's headers than the store for a write. This module needs
a tenth of that time.
"""

from __future__ import annotations

import select
from http.client import responses
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote

from zonewise_common.service.http_messages import http_date

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator, Iterator
    from io import BufferedIOBase

MAX_LINE = 65_536
MAX_HEADERS = 200
MAX_BODY = 3 << 20
"""Maximum bytes of a body, kube-apiserver's limit (MaxRequestBodyBytes)."""


class BadRequest(ValueError):
    """The bytes are not an HTTP request; the connection must be closed."""


class Request(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    """Headers by lower-case name."""
    body: bytes
    close: bool
    """Whether the client sends no further request on this connection."""

    @property
    def content_type(self) -> str:
        """Return the media type of the body without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Response(NamedTuple):
    """One response: a body, or a stream of chunks."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    stream: Generator[bytes] | None = None
    headers: tuple[tuple[str, str], ...] = ()


def read_request(reader: BufferedIOBase, writer: BufferedIOBase) -> Request | None:
    """Read the next request; return None at the end of the connection. Raises BadRequest."""
    line = reader.readline(MAX_LINE + 1)
    if not line.strip():
        return None
    try:
        method, target, version = line.decode("latin-1").split()
    except ValueError:
        raise BadRequest(f"no request line: {line[:80]!r}") from None
    headers = _read_headers(reader)
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.flush()
    path, _, query = target.partition("?")
    close = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
    parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
    return Request(method, unquote(path), parameters, headers, _read_body(reader, headers), close)


def write_response(writer: BufferedIOBase, response: Response, now: float) -> None:
    """Write a response with a body; `now` is the time for its Date, in seconds since 1970."""
    head = _head(response, now, f"Content-Length: {len(response.body)}\r\n")
    writer.write(head + response.body)
    writer.flush()


def write_stream(writer: BufferedIOBase, response: Response, now: float, connection: socket.socket) -> None:
    """Write a response in chunks, until it ends or the client has closed the connection."""
    writer.write(_head(response, now, "Transfer-Encoding: chunked\r\n"))
    writer.flush()
    for chunk in response.stream or ():
        if chunk:
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            writer.flush()
        elif _is_closed(connection):
            break  # closed by the client; or this server reads no more, and the client waits for the end
    writer.write(b"0\r\n\r\n")
    writer.flush()


def _head(response: Response, now: float, framing: str) -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in response.headers)
    reason = responses.get(response.status, "")
    text = (
        f"HTTP/1.1 {response.status} {reason}\r\nContent-Type: {response.content_type}\r\n"
        f"Cache-Control: no-cache, private\r\nDate: {http_date(now)}\r\n{more}{framing}\r\n"
    )
    return text.encode("latin-1")


def _read_headers(reader: BufferedIOBase) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(MAX_HEADERS):
        line = reader.readline(MAX_LINE + 1)
        if line in {b"\r\n", b"\n", b""}:
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise BadRequest(f"no header: {line[:80]!r}")
        headers[name.strip().lower()] = value.strip()
    raise BadRequest("too many headers")


def _read_body(reader: BufferedIOBase, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return b"".join(_chunks(reader))
    text = headers.get("content-length", "0")
    if not text.isdigit() or int(text) > MAX_BODY:
        raise BadRequest(f"no length of a body: {text[:80]!r}")
    length = int(text)
    body = reader.read(length) if length else b""
    if len(body) < length:
        raise BadRequest("the body is truncated")
    return body


def _chunks(reader: BufferedIOBase) -> Iterator[bytes]:
    total = 0
    while True:
        size = reader.readline(MAX_LINE).partition(b";")[0].strip()
        try:
            length = int(size, 16)
        except ValueError:
            raise BadRequest(f"no length of a chunk: {size[:80]!r}") from None
        total += length
        if total > MAX_BODY:
            raise BadRequest("the body is too large")
        data = reader.read(length)
        reader.readline(MAX_LINE)
        if not length:
            return
        yield data


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the client closed its end: the socket is then readable, and a waiting client sends nothing."""
    poll = select.poll()  # not select(), which is limited to 1,024 descriptors
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))

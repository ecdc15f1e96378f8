"""HTTP/1.1 messages as bytes: it parses requests that arrive in any pieces, and formats responses.

Source: RFC 9112 (message syntax) and RFC 9110 (semantics). Chunked request bodies are not supported.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.service.handlers import Response

MAX_HEAD = 16 << 10
"""Maximum bytes of a request line and its headers. The largest header is a bearer token, of 1 to 8 KiB."""
METHODS = ("GET", "HEAD", "POST")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim response for a client that waits for it before it sends the body."""

RETRY_AFTER = 1
"""Seconds after which a client with status 429 may try again."""

_END = b"\r\n\r\n"
_MAX_DIGITS = 18
"""Maximum number of digits of a Content-Length: int() raises an error for very many."""
_REQUEST_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/([0-9])\.([0-9])")
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class HttpError(Exception):
    """A request that is invalid HTTP or exceeds a limit. The connection cannot be used any longer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class HttpRequest(NamedTuple):
    """One whole request."""

    method: str
    """One of METHODS."""
    path: str
    """The path without the query."""
    headers: Mapping[str, str]
    """Headers by lower-case name; several values of one name are joined with commas."""
    keep_alive: bool
    """Whether the client may send another request on the connection."""
    body: bytes = b""
    query: str = ""
    """The query as it was sent, without the question mark."""


class _Head(NamedTuple):
    request: HttpRequest
    length: int
    """Bytes of the body."""


class RequestReader:
    """Collects the bytes of one connection, and returns whole requests. It buffers at most one head and one body."""

    def __init__(self, max_body: int) -> None:
        """Create a reader; a body of more than `max_body` bytes is an error before it is read."""
        self._max_body = max_body
        self._buffer = bytearray()
        self._head: _Head | None = None
        self.continue_due = False
        """Whether the client waits for CONTINUE; the sender clears it."""

    @property
    def size(self) -> int:
        """Return the number of bytes in the buffer."""
        return len(self._buffer)

    @property
    def started(self) -> bool:
        """Return whether a part of a request has arrived."""
        return bool(self._buffer) or self._head is not None

    @property
    def missing(self) -> int:
        """Return how many bytes the request may still need; 0 once it is whole."""
        if self._head is not None:
            return max(self._head.length - len(self._buffer), 0)
        return MAX_HEAD - len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add the next bytes. Raises HttpError."""
        searched = max(len(self._buffer) - len(_END), 0)
        self._buffer += data
        if self._head is None:
            self._read_head(searched)

    def take(self) -> HttpRequest | None:
        """Return the next request if it is whole, otherwise None. Raises HttpError."""
        if self._head is None or len(self._buffer) < self._head.length:
            return None
        request, length = self._head
        body = bytes(memoryview(self._buffer)[:length])
        del self._buffer[:length]
        self._head, self.continue_due = None, False
        if self._buffer:
            self._read_head(0)
        return request._replace(body=body)

    def check_end(self) -> None:
        """Handle the end of the client's bytes. Raises HttpError if a request is incomplete."""
        if self._head is not None:
            raise HttpError(400, f"the body ends after {len(self._buffer)} of {self._head.length} bytes")
        if self._buffer:
            raise HttpError(400, "the request ends within its headers")

    def _read_head(self, searched: int) -> None:
        if self._buffer.startswith(b"\r\n"):  # RFC 9112 section 2.2: empty lines before a request are ignored
            self._buffer = self._buffer.lstrip(b"\r\n")
            searched = 0
        end = self._buffer.find(_END, searched)
        if end < 0 and len(self._buffer) < MAX_HEAD:
            return
        if not 0 <= end <= MAX_HEAD:
            raise HttpError(431, f"the request line and the headers are larger than {MAX_HEAD} bytes")
        head = _parse_head(self._buffer[:end].decode("latin-1"), self._max_body)
        del self._buffer[: end + len(_END)]
        self.continue_due = (
            head.request.headers.get("expect", "").lower() == "100-continue" and len(self._buffer) < head.length
        )
        self._head = head


def _parse_head(text: str, max_body: int) -> _Head:
    request_line, *lines = text.split("\r\n")
    match = _REQUEST_LINE.fullmatch(request_line)
    if match is None:
        raise HttpError(400, "the request line is not METHOD PATH HTTP/1.1")
    method, target, major, minor = match.groups()
    if major != "1":
        raise HttpError(505, "only HTTP/1.1 and HTTP/1.0 are supported")
    if method not in METHODS:
        raise HttpError(501, f"the methods are {', '.join(METHODS)}")
    headers = _parse_headers(lines)
    options = [option.strip() for option in headers.get("connection", "").lower().split(",")]
    keep_alive = "close" not in options and (minor != "0" or "keep-alive" in options)
    path, _, query = target.partition("?")
    request = HttpRequest(method, path, headers, keep_alive, query=query)
    return _Head(request, _body_length(request, max_body))


def _parse_headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(":")
        if not separator or not _NAME.fullmatch(name) or "\n" in value or "\r" in value or "\0" in value:
            raise HttpError(400, f"no header: {line[:80]!r}")
        key, value = name.lower(), value.strip(" \t")
        if key == "content-length" and headers.get(key, value) != value:
            raise HttpError(400, "two Content-Length headers differ")
        headers[key] = f"{headers[key]}, {value}" if key in headers and key != "content-length" else value
    return headers


def _body_length(request: HttpRequest, max_body: int) -> int:
    text = request.headers.get("content-length", "0" if request.method != "POST" else "")
    if not (text.isascii() and text.isdecimal()) or "transfer-encoding" in request.headers:
        raise HttpError(411, "the header Content-Length is required: chunked bodies are not supported")
    if len(text) > _MAX_DIGITS or int(text) > max_body:
        raise HttpError(413, f"the body of {text[:_MAX_DIGITS]} bytes is larger than {max_body} bytes")
    return int(text)


def format_response(response: Response, *, keep_alive: bool, with_body: bool = True) -> bytes:
    """Return the bytes of a response, up to its stream. A response to HEAD has no body."""
    lines = [
        f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}",
        "Server: zonewise",
        f"Date: {http_date(time.time())}",
    ]
    if response.status != 304:  # RFC 9110 section 15.4.5: the headers would describe the body that it lacks
        lines.append(f"Content-Type: {response.content_type}")
        if response.stream is None:
            lines.append(f"Content-Length: {len(response.body)}")
    lines += [f"{name}: {value}" for name, value in response.headers]
    if response.status == 401:
        lines.append("WWW-Authenticate: Bearer")
    if response.status == 429:
        lines.append(f"Retry-After: {RETRY_AFTER}")
    if not keep_alive:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head + response.body if with_body else head


def http_date(seconds: float) -> str:
    """Return a date in the format of RFC 9110 section 5.6.7, whatever the locale."""
    utc = time.gmtime(seconds)
    day = f"{_DAYS[utc.tm_wday]}, {utc.tm_mday:02} {_MONTHS[utc.tm_mon - 1]} {utc.tm_year}"
    return f"{day} {utc.tm_hour:02}:{utc.tm_min:02}:{utc.tm_sec:02} GMT"

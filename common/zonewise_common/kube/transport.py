"""Requests to one API server: it sends and receives bytes, and raises the errors of this package."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections import Counter
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from zonewise_common.kube.connection_pool import ConnectionPool
from zonewise_common.kube.errors import (
    BadResponse,
    ConfigError,
    ServerError,
    TooManyRequests,
    TransportError,
    error_from_status,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from zonewise_common.kube.config import Config
    from zonewise_common.kube.connection_pool import ServerResponse
    from zonewise_common.kube.errors import ApiError

log = logging.getLogger(__name__)

JSON = "application/json"
_READ_ERRORS = (OSError, HTTPException, ValueError)
"""Errors while reading a response: the connection broke, the response is not HTTP, or a length in it is not a
number."""


class Transport:
    """Requests to one server; thread-safe.

    A request is repeated in one case only: after a 401, if there is a newer token or client certificate.
    """

    def __init__(self, config: Config, *, timeout: float, user_agent: str) -> None:
        """Create a transport whose requests may take `timeout` seconds each. Raises ConfigError."""
        self.timeout = timeout
        self._credentials = config.credentials
        self._user_agent = user_agent
        self._connections = ConnectionPool(config)  # also checks the URL
        self._prefix = urlsplit(config.url).path.rstrip("/")
        self._lock = threading.Lock()
        self._failures: Counter[tuple[str, str]] = Counter()
        self._date = ""
        """The header Date of the last response that had one."""

    @property
    def failures(self) -> dict[tuple[str, str], int]:
        """Return the number of failed requests that a retry may fix, by method and reason.

        The reasons are "429", "5xx" and "connection": no response, a late one, or a broken one.
        """
        with self._lock:
            return dict(self._failures)

    @property
    def server_time(self) -> float | None:
        """Return the server's clock at its last response, in seconds since 1970; None if it has sent no time.

        The source is the header Date, which has whole seconds (RFC 9110, section 6.6.1).
        """
        try:
            return parsedate_to_datetime(self._date).timestamp()
        except (ValueError, TypeError, OverflowError):
            return None

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> bytes:
        """Send a request with additional headers, and return the body of its response.

        `timeout` is in seconds; None: that of the transport. Raises ApiError for an error response, TransportError if
        no response arrives in time.
        """
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        with self._counting(method):
            return _body(self._exchange(deadline, method, path, query, body, content_type, headers))

    def stream(
        self, path: str, query: Mapping[str, object], *, idle: float, headers: Mapping[str, str] | None = None
    ) -> Stream:
        """Send a GET request whose response does not end; after `idle` seconds of silence it counts as dead."""
        # the head must arrive within the usual timeout
        with self._counting("GET"):
            return Stream(
                self._exchange(time.monotonic() + self.timeout, "GET", path, query, more_headers=headers), idle
            )

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._connections.close()

    @contextlib.contextmanager
    def _counting(self, method: str) -> Generator[None]:
        try:
            yield
        except (TransportError, TooManyRequests, ServerError) as error:
            reason = "connection" if isinstance(error, TransportError) else "429" if error.status == 429 else "5xx"
            with self._lock:
                self._failures[method, reason] += 1
            raise

    def _exchange(
        self,
        deadline: float,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes | None = None,
        content_type: str = JSON,
        more_headers: Mapping[str, str] | None = None,
    ) -> ServerResponse:
        """Return a successful response, before its body is read."""
        parameters = {name: _text(value) for name, value in query.items() if value != "" and value is not None}
        target = self._prefix + path + (f"?{urlencode(parameters)}" if parameters else "")
        headers = {"Accept": JSON, "User-Agent": self._user_agent, **(more_headers or {})}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._credentials:
            headers["Authorization"] = self._credentials.header()
        response = self._send(deadline, method, target, body, headers)
        if response.status == 401:
            rejection = _error(response)
            if not self._renew(headers, response):
                raise rejection
            response = self._send(deadline, method, target, body, headers)
        if response.status >= 300:
            raise _error(response)
        return response

    def _renew(self, headers: dict[str, str], response: ServerResponse) -> bool:
        """Read the client's identity, and its token into the headers; return whether the identity is newer."""
        token = headers.get("Authorization")
        try:
            if self._credentials:
                headers["Authorization"] = self._credentials.header(fresh=True)
            has_newer_certificate = self._connections.renew_certificate(response)
        except ConfigError as error:
            log.warning("the credentials that the server rejected cannot be renewed: %s", error)
            return False
        return has_newer_certificate or headers.get("Authorization") != token

    def _send(
        self, deadline: float, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> ServerResponse:
        try:
            response = self._connections.request(deadline, method, target, body, headers)
        except (OSError, HTTPException, UnicodeError) as error:  # the last for an invalid host name
            if isinstance(error, ssl.SSLError):
                self._connections.renew_authorities()
            raise TransportError(f"{method} {target.partition('?')[0]}: {_detail(error)}") from error
        self._date = response.headers.get("Date", self._date)
        return response


class Stream:
    """The body of a response without an end, line by line."""

    def __init__(self, response: ServerResponse, idle: float) -> None:
        self._response = response
        self._idle = idle

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines as they arrive; the last one may be incomplete.

        Raises TransportError if the connection breaks, is silent for too long, or ends without the last chunk.
        """
        pending: list[bytes] = []  # parts of one line, joined only once: a line may have megabytes
        while chunk := self._chunk():
            first, *lines = chunk.split(b"\n")
            pending.append(first)
            if lines:
                yield b"".join(pending)
                yield from lines[:-1]
                pending = [lines[-1]]
        yield b"".join(pending)

    def abort(self) -> None:
        """End the stream, from any thread: the reading thread gets the end or a TransportError at once."""
        self._response.abort()

    def close(self) -> None:
        """Release the connection; call it in the reading thread."""
        self._response.release()

    def _chunk(self) -> bytes:
        try:
            return self._response.read_chunk(self._idle)
        except _READ_ERRORS as error:
            raise TransportError(f"the stream broke: {_detail(error)}") from error


def _error(response: ServerResponse) -> ApiError:
    """Return the error of an error response, and release the connection."""
    return error_from_status(_body(response), response.status, response.headers)


def _body(response: ServerResponse) -> bytes:
    """Read a whole body, and release the connection."""
    try:
        return response.read()
    except TimeoutError as error:
        raise TransportError("the response did not end in time") from error
    except _READ_ERRORS as error:
        raise BadResponse(f"the response was truncated: {_detail(error)}") from error
    finally:
        response.release()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _detail(error: BaseException) -> str:
    return str(error) or type(error).__name__

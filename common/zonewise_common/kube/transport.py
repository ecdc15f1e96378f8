"""Requests to one API server: bytes out, bytes in, errors as ours."""

from __future__ import annotations

import ssl
import time
from http.client import HTTPException
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from zonewise_common.kube.connection_pool import ConnectionPool
from zonewise_common.kube.errors import BadResponse, TransportError, error_from_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.kube.config import Config
    from zonewise_common.kube.connection_pool import ServerResponse

JSON = "application/json"
_DAMAGES = (OSError, HTTPException, ValueError)
"""What reading an answer raises: the connection broke, it is no HTTP, a length in it is no number."""


class Transport:
    """The connections to one server; thread-safe.

    Nothing is tried again here but a request that was refused with 401 when there is a fresher token.
    """

    def __init__(self, config: Config, *, timeout: float, user_agent: str) -> None:
        """Take the seconds that a request may last as a whole. Raises ConfigError for a bad URL or certificate."""
        self.timeout = timeout
        self._credentials = config.credentials
        self._user_agent = user_agent
        self._prefix = urlsplit(config.url).path.rstrip("/")
        self._connections = ConnectionPool(config)

    def request(
        self, method: str, path: str, query: Mapping[str, object], body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        """Send a request and return the body of its answer.

        Raises ApiError where the server answers no, TransportError where it does not answer in time.
        """
        until = time.monotonic() + self.timeout
        return _body(self._ask(until, method, path, query, body, content_type))

    def stream(self, path: str, query: Mapping[str, object], *, idle: float) -> Stream:
        """Send a GET whose answer goes on; `idle` is how many seconds it may be silent before it counts as dead."""
        # until the first word of it counts what an answer may last else
        return Stream(self._ask(time.monotonic() + self.timeout, "GET", path, query), idle)

    def close(self) -> None:
        """Close the connections that no request holds."""
        self._connections.close()

    def _ask(
        self,
        until: float,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> ServerResponse:
        """Return an answer that is a yes, of which the body is not read yet."""
        given = {name: _text(value) for name, value in query.items() if value != "" and value is not None}
        target = self._prefix + path + (f"?{urlencode(given)}" if given else "")
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        if body is not None:
            headers["Content-Type"] = content_type
        if self._credentials:
            headers["Authorization"] = self._credentials.header()
        answer = self._send(until, method, target, body, headers)
        if answer.status == 401 and self._credentials:
            fresh = self._credentials.header(fresh=True)
            if fresh != headers["Authorization"]:
                answer.release()
                answer = self._send(until, method, target, body, {**headers, "Authorization": fresh})
        if answer.status >= 300:
            raise error_from_status(_body(answer), answer.status, answer.headers)
        return answer

    def _send(
        self, until: float, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> ServerResponse:
        try:
            return self._connections.request(until, method, target, body, headers)
        except (OSError, HTTPException, UnicodeError) as error:  # the last for a host that no name can be
            if isinstance(error, ssl.SSLError):
                self._connections.reload_certificates()
            raise TransportError(f"{method} {target.partition('?')[0]}: {_why(error)}") from error


class Stream:
    """The body of an answer that goes on, line by line."""

    def __init__(self, response: ServerResponse, idle: float) -> None:
        self._answer = response
        self._idle = idle

    def __iter__(self) -> Iterator[bytes]:
        """Yield whole lines as they come; the last one may lack its end.

        Raises TransportError where the connection breaks, is silent for too long, or ends without the last chunk.
        """
        pending: list[bytes] = []  # pieces of one line: joined once, for lines of megabytes
        while piece := self._piece():
            first, *others = piece.split(b"\n")
            pending.append(first)
            if others:
                yield b"".join(pending)
                yield from others[:-1]
                pending = [others[-1]]
        yield b"".join(pending)

    def abort(self) -> None:
        """End the stream from any thread: whoever reads it gets its end, or a TransportError, at once."""
        self._answer.abort()

    def close(self) -> None:
        """Let the connection go, by the thread that reads."""
        self._answer.release()

    def _piece(self) -> bytes:
        try:
            return self._answer.read_chunk(self._idle)
        except _DAMAGES as error:
            raise TransportError(f"the stream broke: {_why(error)}") from error


def _body(answer: ServerResponse) -> bytes:
    """Read a whole body, and let the connection go."""
    try:
        return answer.read()
    except TimeoutError as error:
        raise TransportError("the answer did not end in time") from error
    except _DAMAGES as error:
        raise BadResponse(f"the answer was cut short: {_why(error)}") from error
    finally:
        answer.release()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _why(error: BaseException) -> str:
    return str(error) or type(error).__name__

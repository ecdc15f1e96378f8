"""Requests to one API server over connections that are kept alive and verified: bytes out, bytes in, errors as ours."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError, SSLError

from zonewise.kube.errors import BadAnswer, ConfigError, TransportError, error_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from urllib3.response import BaseHTTPResponse

    from zonewise.kube.config import Config

JSON = "application/json"
_KEPT = 4
"""Idle connections kept for the next request; more requests at once open more."""
_PIECE = 1 << 16
_SOCKET_OPTIONS = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    # a peer that vanished without a word is found after 30 + 3 x 15 seconds
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]


class Transport:
    """The connections to one server; thread-safe.

    Nothing is tried again here but a request that was refused with 401 when there is a fresher token.
    """

    def __init__(self, config: Config, *, timeout: float, user_agent: str) -> None:
        """Take the seconds that a request may last as a whole. Raises ConfigError for a bad URL or certificate."""
        self.timeout = timeout
        self._config = config
        self._credentials = config.credentials
        self._user_agent = user_agent
        self._prefix = urlsplit(config.url).path.rstrip("/")
        self._pool = _pool(config)

    def request(
        self, method: str, path: str, query: Mapping[str, object], body: bytes | None = None, content_type: str = JSON
    ) -> bytes:
        """Send a request and return the body of its answer.

        Raises ApiError where the server answers no, TransportError where it does not answer in time.
        """
        until = time.monotonic() + self.timeout
        return _body(self._ask(until, method, path, query, body, content_type), until)

    def stream(self, path: str, query: Mapping[str, object], *, idle: float) -> Stream:
        """Send a GET whose answer goes on; `idle` is how many seconds it may be silent before it counts as dead."""
        answer = self._ask(time.monotonic() + self.timeout, "GET", path, query)
        # what was in force so far is the time that the server has for its first word
        _set_timeout(answer, idle)
        return Stream(answer)

    def close(self) -> None:
        """Close the connections that no request holds."""
        self._pool.close()

    def _ask(
        self,
        until: float,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> BaseHTTPResponse:
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
                _drop(answer)
                answer = self._send(until, method, target, body, {**headers, "Authorization": fresh})
        if answer.status >= 300:
            raise error_of(_body(answer, until), answer.status, answer.headers)
        return answer

    def _send(
        self, until: float, method: str, target: str, body: bytes | None, headers: dict[str, str]
    ) -> BaseHTTPResponse:
        left = max(until - time.monotonic(), 0.001)
        try:
            return self._pool.urlopen(
                method, target, body, headers, retries=False, redirect=False, preload_content=False,
                timeout=urllib3.Timeout(total=left),
            )  # fmt: skip
        except HTTPError as error:
            if isinstance(error, SSLError):
                self._renew()
            # not the exception's own text, which shows the path with its query twice
            raise TransportError(f"{method} {target.partition('?')[0]}: {_why(error)}") from error

    def _renew(self) -> None:
        """Read the certificates anew for the next request: authorities are replaced while agents run."""
        self._pool.close()
        self._pool = _pool(self._config)


class Stream:
    """The body of an answer that goes on, line by line."""

    def __init__(self, answer: BaseHTTPResponse) -> None:
        self._answer = answer

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
        with contextlib.suppress(ValueError, RuntimeError, OSError):  # it has ended already
            self._answer.shutdown()

    def close(self) -> None:
        """Close the connection, by the thread that reads."""
        _drop(self._answer)

    def _piece(self) -> bytes:
        try:
            return self._answer.read1(_PIECE, decode_content=False)
        except HTTPError as error:
            raise TransportError(f"the stream broke: {_why(error)}") from error


def _pool(config: Config) -> urllib3.HTTPConnectionPool:
    url = urlsplit(config.url)
    try:
        host, port = url.hostname, url.port
    except ValueError as error:
        raise ConfigError(f"{config.url}: {error}") from error
    if url.scheme not in {"http", "https"} or not host:
        raise ConfigError(f"{config.url!r} is no URL of an API server: http://HOST[:PORT] or https://HOST[:PORT]")
    if url.scheme == "http":
        return urllib3.HTTPConnectionPool(host, port or 80, maxsize=_KEPT, socket_options=_SOCKET_OPTIONS)
    return urllib3.HTTPSConnectionPool(
        host, port or 443, maxsize=_KEPT, socket_options=_SOCKET_OPTIONS, ssl_context=_trust(config),
        server_hostname=config.server_name or None,
    )  # fmt: skip


def _trust(config: Config) -> ssl.SSLContext:
    """Return how the server is verified and how we show who we are."""
    inline = config.ca.startswith("-----BEGIN")
    try:
        context = ssl.create_default_context(
            cafile=None if inline else config.ca or None, cadata=config.ca if inline else None
        )
        # on by default since Python 3.13, and refuses the authorities that many clusters have made (no key identifier)
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if config.certificate:
            context.load_cert_chain(config.certificate.chain, config.certificate.key)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        names = [name for name in ("" if inline else config.ca, *(config.certificate or ())) if name]
        raise ConfigError(f"certificates ({', '.join(names) or 'given as text'}): {error}") from error
    return context


def _body(answer: BaseHTTPResponse, until: float) -> bytes:
    """Read a whole body by a moment of the monotonic clock, however slowly its bytes drip."""
    pieces: list[bytes] = []
    try:
        while piece := answer.read1(_PIECE, decode_content=False):
            pieces.append(piece)
            left = until - time.monotonic()
            if left <= 0:
                _drop(answer)
                raise TransportError("the answer did not end in time")
            _set_timeout(answer, left)
    except ReadTimeoutError as error:
        raise TransportError("the answer did not end in time") from error
    except HTTPError as error:
        raise BadAnswer(f"the answer was cut short: {_why(error)}") from error
    answer.release_conn()
    return b"".join(pieces)


def _set_timeout(answer: BaseHTTPResponse, seconds: float) -> None:
    # the protocol class that connections are typed with lacks what all of them have
    sock: socket.socket | None = getattr(answer.connection, "sock", None)
    if sock is not None:
        sock.settimeout(seconds)


def _drop(answer: BaseHTTPResponse) -> None:
    answer.close()
    answer.release_conn()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _why(error: BaseException) -> str:
    """Return the words of the innermost cause: "Connection refused", not how a library wraps it."""
    while inner := error.__cause__ or next((arg for arg in error.args if isinstance(arg, BaseException)), None):
        error = inner
    return str(error) or type(error).__name__

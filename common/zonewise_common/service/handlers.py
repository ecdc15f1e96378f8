"""HTTP handlers: functions from requests to responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prometheus_client import CollectorRegistry

_TEXT = "text/plain; charset=utf-8"
UNAUTHENTICATED_PATHS = ("/healthz", "/readyz")
"""Probes come from the kubelet, which has no token; their responses are one sentence, and made without waiting."""
LOCAL_PREFIXES = ("/debug/", "/api/")
"""Paths with details about nodes, pods and workloads: for local clients, or for bearers of a token."""
PUBLIC_PREFIXES = ("/page/",)
"""Static files, which are the same in every cluster: a browser loads them before its user has entered a token."""


class Request(NamedTuple):
    """A request of a client."""

    method: str
    """GET or POST; HEAD is GET here."""
    path: str
    """Without the query."""
    accept: str = ""
    """The header Accept."""
    body: bytes = b""
    query: str = ""
    """Without the question mark."""
    headers: Mapping[str, str] = {}
    """By name in lower case."""


class ResponseStream(Protocol):
    """The body of a response that lasts: the server takes the next part once the client has read the last one."""

    def __call__(self) -> bytes | None:
        """Return the next part without waiting, b"" where there is none yet; None: the body ends."""
        ...


class Response(NamedTuple):
    """The response to a request."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Others than those of every response."""
    stream: ResponseStream | None = None
    """What follows `body`, until the server or the client closes the connection; None: nothing."""


class Handler(Protocol):
    """The responses of one program; called by several threads at once."""

    max_body: int
    """Bytes of a request's body; a larger request is rejected unread."""

    def methods(self, path: str) -> Collection[str]:
        """Return the methods of a path, "GET" or "POST"; none for an unknown path."""
        ...

    def handle(self, request: Request) -> Response:
        """Return the response to a request with a method of its path."""
        ...


class GetHandler:
    """A handler of GET requests alone."""

    max_body = 0

    def __init__(self, handlers: Mapping[str, Callable[[Request], Response]]) -> None:
        """Create a handler from one function for each path; one that ends with "/*" stands for all paths below."""
        self._handlers = {path: handler for path, handler in handlers.items() if not path.endswith("/*")}
        self._below = {path[:-1]: handler for path, handler in handlers.items() if path.endswith("/*")}

    def methods(self, path: str) -> Collection[str]:
        """Return the methods of a path."""
        return ("GET",) if self._handler(path) is not None else ()

    def handle(self, request: Request) -> Response:
        """Return the response of a path's function. Raises KeyError for an unknown path."""
        handler = self._handler(request.path)
        if handler is None:
            raise KeyError(request.path)
        return handler(request)

    def _handler(self, path: str) -> Callable[[Request], Response] | None:
        handler = self._handlers.get(path)
        if handler is not None:
            return handler
        prefix = next((prefix for prefix in self._below if path.startswith(prefix) and path != prefix), "")
        return self._below.get(prefix)


def is_public(path: str) -> bool:
    """Tell whether a path needs no token, so that a response to it says nothing about the client."""
    return path in {"/", *UNAUTHENTICATED_PATHS} or path.startswith(PUBLIC_PREFIXES)


def is_loopback(address: str) -> bool:
    """Tell whether an IP address is of the loopback interface; IPv4 may be mapped into IPv6."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")


def text_response(status: int, text: str) -> Response:
    """Return a response of plain text."""
    return Response(status, _TEXT, text.encode())


def json_response(value: object, status: int = 200) -> Response:
    """Return a response of indented JSON."""
    return Response(status, "application/json", json.dumps(value, indent=2).encode() + b"\n")


def metrics_response(registry: CollectorRegistry, accept: str) -> Response:
    """Return a registry's metrics in the format that the scraper prefers."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Response(200, content_type, encode(registry))

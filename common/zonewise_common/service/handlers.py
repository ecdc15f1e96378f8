"""HTTP handlers: functions from requests to responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prometheus_client import CollectorRegistry

_TEXT = "text/plain; charset=utf-8"
UNAUTHENTICATED_PATHS = ("/healthz", "/readyz")
"""Paths of probes by the kubelet, which has no token; the responses are one sentence, produced without waiting."""
LOCAL_PREFIXES = ("/debug/", "/api/")
"""Paths with details about nodes, pods and workloads: only for local clients and bearers of a token."""
PUBLIC_PREFIXES = ("/page/",)
"""Static files, which are the same in every cluster: a browser loads them before its user has entered a token."""


class Request(NamedTuple):
    """A request of a client."""

    method: str
    """GET or POST; HEAD is mapped to GET."""
    path: str
    """The path without the query."""
    accept: str = ""
    """The header Accept."""
    body: bytes = b""
    query: str = ""
    """The query without the question mark."""
    headers: Mapping[str, str] = {}
    """Headers by lower-case name."""


class ResponseStream(Protocol):
    """The body of a long-lived response: the server takes the next part once the client has read the last one."""

    def __call__(self) -> bytes | None:
        """Return the next part without waiting; b"" if there is none yet, None at the end of the body."""
        ...


class Response(NamedTuple):
    """The response to a request."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Headers in addition to those of every response."""
    stream: ResponseStream | None = None
    """The stream that follows `body`, until the server or the client closes the connection; None if there is none."""


class Handler(Protocol):
    """The responses of one program; several threads call it at once."""

    max_body: int
    """Maximum bytes of a request's body; a larger request is rejected unread."""

    def methods(self, path: str) -> Collection[str]:
        """Return the methods that a path allows, "GET" or "POST"; none for an unknown path."""
        ...

    def handle(self, request: Request) -> Response:
        """Return the response to a request, whose method its path allows."""
        ...


class GetHandler:
    """A handler of GET requests only."""

    max_body = 0

    def __init__(self, handlers: Mapping[str, Callable[[Request], Response]]) -> None:
        """Create a handler from one function for each path; a path that ends with "/*" stands for all paths below."""
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
    """Return whether a path needs no token, in which case a response to it proves nothing about the client."""
    return path in {"/", *UNAUTHENTICATED_PATHS} or path.startswith(PUBLIC_PREFIXES)


def is_loopback(address: str) -> bool:
    """Return whether an IP address belongs to the loopback interface; IPv4 may be mapped into IPv6."""
    return address == "::1" or address.removeprefix("::ffff:").startswith("127.")


def text_response(status: int, text: str) -> Response:
    """Return a response of plain text."""
    return Response(status, _TEXT, text.encode())


def json_response(value: object) -> Response:
    """Return a response of indented JSON."""
    return Response(200, "application/json", json.dumps(value, indent=2).encode() + b"\n")


def metrics_response(registry: CollectorRegistry, accept: str) -> Response:
    """Return a registry's metrics in the format that the scraper prefers."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Response(200, content_type, encode(registry))

"""HTTP handlers: functions from requests to responses."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prometheus_client import CollectorRegistry

_TEXT = "text/plain; charset=utf-8"
UNAUTHENTICATED_PATHS = ("/healthz", "/readyz")
"""Probes come from the kubelet, which has no token; their responses are one sentence."""


class Request(NamedTuple):
    """A request of a client."""

    method: str
    """GET or POST; HEAD is GET here."""
    path: str
    """Without the query."""
    accept: str = ""
    """The header Accept."""
    body: bytes = b""


class Response(NamedTuple):
    """The response to a request."""

    status: int
    content_type: str
    body: bytes


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
        """Create a handler from one function for each path."""
        self._handlers = handlers

    def methods(self, path: str) -> Collection[str]:
        """Return the methods of a path."""
        return ("GET",) if path in self._handlers else ()

    def handle(self, request: Request) -> Response:
        """Return the response of a path's function."""
        return self._handlers[request.path](request)


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

"""What a server serves, as functions from requests to answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prometheus_client import CollectorRegistry

_TEXT = "text/plain; charset=utf-8"
UNAUTHENTICATED_PATHS = ("/healthz", "/readyz")
"""Probes come from the kubelet, which has no token for us; the answers hold nothing but a sentence."""


class Request(NamedTuple):
    """What a client wants."""

    method: str
    """GET or POST; HEAD is GET here."""
    path: str
    """Without the query."""
    accept: str = ""
    """The header Accept."""
    body: bytes = b""


class Response(NamedTuple):
    """An answer."""

    status: int
    content_type: str
    body: bytes


class Handler(Protocol):
    """The answers of one program; asked by several threads at once."""

    max_body: int
    """Bytes that a client may send; larger requests are refused unread."""

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path: "GET" or "POST"; nothing where there is no such path."""
        ...

    def handle(self, request: Request) -> Response:
        """Answer to a method that the path has."""
        ...


class GetHandler:
    """A site of pages that can be read, and nothing else."""

    max_body = 0

    def __init__(self, pages: Mapping[str, Callable[[Request], Response]]) -> None:
        """Take what answers under each path."""
        self._pages = pages

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path."""
        return ("GET",) if path in self._pages else ()

    def handle(self, request: Request) -> Response:
        """Answer for a path that there is."""
        return self._pages[request.path](request)


def text_response(status: int, text: str) -> Response:
    """Return a text."""
    return Response(status, _TEXT, text.encode())


def json_response(value: object) -> Response:
    """Return a value as JSON that people can read too."""
    return Response(200, "application/json", json.dumps(value, indent=2).encode() + b"\n")


def metrics_response(registry: CollectorRegistry, accept: str) -> Response:
    """Return a registry's metrics in the form that a scraper prefers."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Response(200, content_type, encode(registry))

"""What a server serves, as functions from requests to answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from prometheus_client import CollectorRegistry

_TEXT = "text/plain; charset=utf-8"
OPEN_TO_ALL = ("/healthz", "/readyz")
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


class Page(NamedTuple):
    """An answer."""

    status: int
    type: str
    body: bytes


class Site(Protocol):
    """The answers of one program; asked by several threads at once."""

    most_body: int
    """Bytes that a client may send; larger requests are refused unread."""

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path: "GET" or "POST"; nothing where there is no such path."""
        ...

    def answer(self, request: Request) -> Page:
        """Answer to a method that the path has."""
        ...


class ReadingSite:
    """A site of pages that can be read, and nothing else."""

    most_body = 0

    def __init__(self, pages: Mapping[str, Callable[[Request], Page]]) -> None:
        """Take what answers under each path."""
        self._pages = pages

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path."""
        return ("GET",) if path in self._pages else ()

    def answer(self, request: Request) -> Page:
        """Answer for a path that there is."""
        return self._pages[request.path](request)


def text_page(status: int, text: str) -> Page:
    """Return a text."""
    return Page(status, _TEXT, text.encode())


def json_page(value: object) -> Page:
    """Return a value as JSON that people can read too."""
    return Page(200, "application/json", json.dumps(value, indent=2).encode() + b"\n")


def metrics_page(registry: CollectorRegistry, accept: str) -> Page:
    """Return a registry's metrics in the form that a scraper prefers."""
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return Page(200, content_type, encode(registry))

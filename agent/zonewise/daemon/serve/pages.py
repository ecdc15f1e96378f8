"""What is answered under which path, as a function of what the agent knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.report.machine_json import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from zonewise.daemon.status import Status

_TEXT = "text/plain; charset=utf-8"
_INDEX = """\
zonewise agent
/healthz      200 while the agent works
/readyz       200 while what it has published is known to be right
/metrics      for Prometheus
/debug/state  what it knows, as JSON
"""
OPEN_TO_ALL = ("/healthz", "/readyz")
"""Probes come from the kubelet, which has no token for us; the answers hold nothing but a sentence."""


class Page(NamedTuple):
    """An answer."""

    status: int
    type: str
    body: bytes


class Pages:
    """The answers of one agent."""

    def __init__(
        self, status: Status, registry: CollectorRegistry, *, silence_limit: float, readiness_limit: float
    ) -> None:
        """Make the pages; both limits in seconds."""
        self._status = status
        self._registry = registry
        self._silence_limit = silence_limit
        self._readiness_limit = readiness_limit
        self._paths: dict[str, Callable[[str], Page]] = {
            "/": lambda _accept: _text(200, _INDEX),
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
            "/debug/state": self._state,
        }

    def answer(self, path: str, accept: str) -> Page:
        """Return the answer for a path, and the header Accept."""
        page = self._paths.get(path.partition("?")[0])
        return page(accept) if page is not None else _text(404, f"nothing under {path[:80]}; see /\n")

    def _health(self, _accept: str) -> Page:
        silence = self._status.silence()
        if silence > self._silence_limit:
            return _text(503, f"the agent has done nothing for {silence:.0f} s (limit {self._silence_limit:.0f} s)\n")
        return _text(200, "ok\n")

    def _readiness(self, _accept: str) -> Page:
        age = self._status.age()
        if age is None:
            return _text(503, "nothing has been published yet\n")
        if age > self._readiness_limit:
            return _text(503, f"the last good publish is {age:.0f} s old (limit {self._readiness_limit:.0f} s)\n")
        return _text(200, f"ok: the last good publish is {age:.1f} s old\n")

    def _metrics(self, accept: str) -> Page:
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return Page(200, content_type, encode(self._registry))

    def _state(self, _accept: str) -> Page:
        snapshot = self._status.snapshot
        state: dict[str, Any] = {
            "node": snapshot.node_name,
            "publishedAgeSeconds": self._status.age(),
            "problems": {
                "machine": [plain(problem) for problem in snapshot.machine.problems],
                "kubelet": list(snapshot.problems),
            },
            "collectors": [plain(run) for run in snapshot.runs],
            "kubeletConfig": plain(snapshot.config),
            "usage": plain(snapshot.usage),
            "labels": snapshot.labels,
            "nodeResourceTopology": snapshot.nrt,
        }
        return Page(200, "application/json", json.dumps(state, indent=2).encode() + b"\n")


def _text(status: int, text: str) -> Page:
    return Page(status, _TEXT, text.encode())

"""Health, readiness, metrics and state of the scheduler."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from zonewise.service.site import Page, Request, metrics_page, text_page

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from prometheus_client import CollectorRegistry

    from zonewise_scheduler.control.cluster import Cluster
    from zonewise_scheduler.control.watching import Watching

_INDEX = """\
zonewise scheduler
/healthz      200 while the program works
/readyz       200 once all nodes, reports and pods are known
/metrics      for Prometheus
/debug/state  what it knows of each node, as JSON
"""


class Pages:
    """The answers of one scheduler."""

    most_body = 0

    def __init__(self, cluster: Cluster, registry: CollectorRegistry, watching: Watching) -> None:
        self._cluster = cluster
        self._watching = watching
        self._paths: dict[str, Callable[[Request], Page]] = {
            "/": lambda _request: text_page(200, _INDEX),
            "/healthz": lambda _request: text_page(200, "ok\n"),
            "/readyz": self._readiness,
            "/metrics": lambda request: metrics_page(registry, request.accept),
            "/debug/state": self._state,
        }

    def methods(self, path: str) -> Collection[str]:
        """Return what may be asked of a path: it is all for reading."""
        return ("GET",) if path in self._paths else ()

    def answer(self, request: Request) -> Page:
        """Answer for a path that there is."""
        return self._paths[request.path](request)

    def _readiness(self, _request: Request) -> Page:
        missing = self._watching.missing
        return text_page(503, f"not known yet: {', '.join(missing)}\n") if missing else text_page(200, "ok\n")

    def _state(self, _request: Request) -> Page:
        return Page(200, "application/json", json.dumps(self._cluster.described(), indent=2).encode() + b"\n")

"""Health, readiness, metrics and state of the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.service.site import Page, ReadingSite, Request, json_page, metrics_page, text_page

if TYPE_CHECKING:
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


class Pages(ReadingSite):
    """The answers of one scheduler."""

    def __init__(self, cluster: Cluster, registry: CollectorRegistry, watching: Watching) -> None:
        self._cluster = cluster
        self._watching = watching
        super().__init__({
            "/": lambda _request: text_page(200, _INDEX),
            "/healthz": lambda _request: text_page(200, "ok\n"),
            "/readyz": self._readiness,
            "/metrics": lambda request: metrics_page(registry, request.accept),
            "/debug/state": self._state,
        })  # fmt: skip

    def _readiness(self, _request: Request) -> Page:
        missing = self._watching.missing
        return text_page(503, f"not known yet: {', '.join(missing)}\n") if missing else text_page(200, "ok\n")

    def _state(self, _request: Request) -> Page:
        return json_page(self._cluster.described())

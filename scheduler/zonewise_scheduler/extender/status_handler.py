"""Serves health, readiness, metrics and state of the extender over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.service.handlers import (
    GetHandler,
    Request,
    Response,
    json_response,
    metrics_response,
    text_response,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from zonewise_scheduler.extender.cache_view import CacheView
    from zonewise_scheduler.extender.informers import Informers

_INDEX = """\
zonewise scheduler
/healthz      200 while the program works
/readyz       200 while all nodes, reports and pods are known and current
/metrics      metrics for Prometheus
/debug/state  the scheduler's view of each node, as JSON
"""


class StatusHandler(GetHandler):
    """Serves the paths that the index page lists."""

    def __init__(self, view: CacheView, registry: CollectorRegistry, informers: Informers) -> None:
        self._view = view
        self._informers = informers
        super().__init__({
            "/": lambda _request: text_response(200, _INDEX),
            "/healthz": lambda _request: text_response(200, "ok\n"),
            "/readyz": self._readyz,
            "/metrics": lambda request: metrics_response(registry, request.accept),
            "/debug/state": self._state,
        })  # fmt: skip

    def _readyz(self, _request: Request) -> Response:
        unsynced = self._informers.unsynced
        if unsynced:
            return text_response(503, f"waits for the first list of {', '.join(unsynced)}\n")
        outdated = [f"{name} for {age:.0f} s" for name, age in self._informers.outdated.items()]
        return text_response(503, f"not current: {', '.join(outdated)}\n") if outdated else text_response(200, "ok\n")

    def _state(self, _request: Request) -> Response:
        return json_response(self._view.dump())

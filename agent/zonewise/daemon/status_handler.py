"""Serves health, readiness, metrics and state of the agent over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.objects.machine_json import plain
from zonewise_common.service.handlers import (
    GetHandler,
    Request,
    Response,
    json_response,
    metrics_response,
    text_response,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from zonewise.daemon.status import Status
    from zonewise.health.types import Fault

_INDEX = """\
zonewise agent
/healthz      200 while the agent works
/readyz       200 while the published objects are known to be right
/metrics      metrics for Prometheus
/debug/state  state of the agent, as JSON
"""


class AgentStatusHandler(GetHandler):
    """Serves the paths in the index."""

    def __init__(
        self, status: Status, registry: CollectorRegistry, *, silence_limit: float, readiness_limit: float
    ) -> None:
        """Create a handler; both limits are in seconds."""
        self._status = status
        self._silence_limit = silence_limit
        self._readiness_limit = readiness_limit
        super().__init__({
            "/": lambda _request: text_response(200, _INDEX),
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": lambda request: metrics_response(registry, request.accept),
            "/debug/state": self._state,
        })  # fmt: skip

    def _health(self, _request: Request) -> Response:
        silence = self._status.silence()
        if silence > self._silence_limit:
            return text_response(
                503, f"the agent has done nothing for {silence:.0f} s (limit {self._silence_limit:.0f} s)\n"
            )
        return text_response(200, "ok\n")

    def _readiness(self, _request: Request) -> Response:
        age = self._status.age()
        if age is None:
            return text_response(503, "nothing has been published yet\n")
        if age > self._readiness_limit:
            return text_response(
                503, f"the last successful publish is {age:.0f} s old (limit {self._readiness_limit:.0f} s)\n"
            )
        return text_response(200, f"ok: the last successful publish is {age:.1f} s old\n")

    def _state(self, _request: Request) -> Response:
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
            "faults": None if snapshot.faults is None else _faults(snapshot.faults),
            "labels": snapshot.labels,
            "nodeResourceTopology": snapshot.nrt,
        }
        return json_response(state)


def _faults(faults: Iterable[Fault]) -> list[dict[str, Any]]:
    """Return faults as `zonewise health -o json` prints them. Modules of health are loaded only if it is on."""
    from zonewise.health.report import fault_to_json

    return [fault_to_json(fault) for fault in faults]

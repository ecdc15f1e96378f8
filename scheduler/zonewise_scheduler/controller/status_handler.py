"""Health, metrics, state and the read API of the controller over HTTP.

| path | content |
|---|---|
| /api/v1/queues | ClusterQueues and LocalQueues |
| /api/v1/workloads?queue=&namespace=&limit=&offset= | workloads, one page at a time |
| /api/v1/workloads/NAMESPACE/NAME | one workload with the full explanation |
| /api/v1/plan | what runs and until when, and what is reserved to start and when |
| /api/v1/forecast?queue=&pods=&requests=&walltime= | when a job that is not submitted would start |
| /api/v1/cluster | nodes, workloads and queues as tables, for the page |
| /api/v1/cluster/events | changes of these tables, as Server-Sent Events |
| /page/ | the page |

Clients share the list of workloads and the plan. Each is built again after MIN_AGE at the earliest, and after AGE_RATIO
times the duration of its last build. Explanations are rate-limited. So clients that poll cost the controller a bounded
part of its time.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from zonewise_common.service.encoded_response import encode_response
from zonewise_common.service.handlers import (
    GetHandler,
    Request,
    Response,
    json_response,
    metrics_response,
    text_response,
)
from zonewise_common.token_bucket import TokenBucket
from zonewise_scheduler.controller.readapi import hypothetical
from zonewise_scheduler.controller.readapi.cluster_feed import ClusterFeed
from zonewise_scheduler.controller.readapi.hypothetical import HypotheticalForecasts
from zonewise_scheduler.controller.readapi.job_details import ended_json, job_json
from zonewise_scheduler.controller.readapi.query_parameters import read_number, read_parameters
from zonewise_scheduler.controller.readapi.views import (
    cluster_queue_json,
    cohort_json,
    local_queue_json,
    matching_rows,
    plan_json,
    row_json,
    workload_json,
    workload_rows,
)
from zonewise_scheduler.web.static_files import redirect_browser, serve_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from prometheus_client import CollectorRegistry

    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.readapi.controller_call import ControllerCall
    from zonewise_scheduler.controller.readapi.views import WorkloadRow
    from zonewise_scheduler.controller.status.queue_summaries import QueueSummaries
    from zonewise_scheduler.controller.status.reporter import StatusReporter
    from zonewise_scheduler.controller.types import Json

CALL_TIMEOUT = 5.0
"""Seconds in which the controller must respond."""
MIN_AGE, AGE_RATIO = 1.0, 20.0
EXPLANATIONS_PER_SECOND, EXPLANATION_BURST = 5.0, 20
DEFAULT_LIMIT, MAX_LIMIT = 100, 1000
"""Default and maximum number of workloads on a page."""
_PARAMETERS = {"queue": "", "namespace": "", "limit": str(DEFAULT_LIMIT), "offset": "0"}
_WORKLOADS = "/api/v1/workloads"
_INDEX = """\
zonewise controller
/healthz           200 while the program works
/readyz            200 while all watched kinds are known and current, whether this replica leads or stands by
/metrics           metrics for Prometheus
/debug/state       state of the controller, as JSON
/api/v1/queues     ClusterQueues and LocalQueues
/api/v1/workloads  pending and running workloads: ?queue=, ?namespace=, ?limit=, ?offset=
/api/v1/workloads/NAMESPACE/NAME  explanation why a workload waits
/api/v1/plan       the expected ends of running workloads, and reserved starts
/api/v1/forecast   forecast of the start of a job: ?queue=, ?pods=, ?requests=cpu=8,memory=64Gi, ?walltime=
/api/v1/cluster    nodes, workloads and queues as tables; /api/v1/cluster/events: their changes
/page/             all of this in a browser
"""
T = TypeVar("T")


class Watches(Protocol):
    """The state of the informers."""

    @property
    def unsynced(self) -> list[str]:
        """Return the kinds whose first list is not complete yet."""
        ...

    @property
    def ages(self) -> Mapping[str, float]:
        """Return by kind the seconds since it was last known to be current."""
        ...


class _Page(NamedTuple):
    queue: str
    namespace: str
    limit: int
    offset: int


class _SharedResult(Generic[T]):
    """A response that all clients share until it is too old."""

    def __init__(self, call: ControllerCall, function: Callable[[QueueController], T]) -> None:
        self._call = call
        self._function = function
        self._lock = threading.Lock()
        self._result: T | None = None
        self._until = 0.0

    def get(self) -> T:
        """Return the response. Raises TimeoutError."""
        with self._lock:
            begin = time.monotonic()
            if self._result is None or begin >= self._until:
                self._result = self._call(self._function, CALL_TIMEOUT)
                end = time.monotonic()
                self._until = end + max(MIN_AGE, AGE_RATIO * (end - begin))
            return self._result


class ControllerStatusHandler(GetHandler):
    """Serves the paths in the index."""

    def __init__(
        self,
        reporter: StatusReporter,
        registry: CollectorRegistry,
        watches: Watches,
        call: ControllerCall,
        clock: Callable[[], float],
        *,
        kueue_claim: Callable[[], str] = str,
        stale_after: float,
    ) -> None:
        """Create a handler; `clock` returns seconds since 1970.

        The controller is not ready once a watch has not been current for `stale_after` seconds. `kueue_claim` returns
        why Kueue manages the queues; "": it does not.
        """
        self._reporter = reporter
        self._watches = watches
        self._call = call
        self._clock = clock
        self._kueue_claim = kueue_claim
        self._stale_after = stale_after
        self._explanations = TokenBucket(EXPLANATIONS_PER_SECOND, EXPLANATION_BURST)
        self._rows = _SharedResult(
            call, lambda controller: workload_rows(controller, reporter.notes, reporter.forecasts)
        )
        self._feed = ClusterFeed(call, reporter, clock)
        self._plan = _SharedResult(call, lambda controller: plan_json(controller, clock()))
        super().__init__({
            "/": lambda request: redirect_browser(request, _INDEX),
            "/page/": serve_file,
            "/page/*": serve_file,
            "/healthz": lambda _request: text_response(200, "ok\n"),
            "/readyz": self._readyz,
            "/metrics": lambda request: encode_response(request, metrics_response(registry, request.accept)),
            "/debug/state": self._state,
            "/api/v1/queues": self._queues,
            hypothetical.PATH: HypotheticalForecasts(call, reporter, clock).respond,
            "/api/v1/plan": lambda request: encode_response(request, _response(self._plan.get)),
            "/api/v1/cluster": self._feed.respond,
            "/api/v1/cluster/events": self._feed.stream,
            _WORKLOADS: self._workloads,
            f"{_WORKLOADS}/*": self._workload,
        })  # fmt: skip

    def _readyz(self, _request: Request) -> Response:
        unsynced = self._watches.unsynced
        if unsynced:
            return text_response(503, f"waits for the first list of {', '.join(unsynced)}\n")
        stale = [f"{name} for {age:.0f} s" for name, age in self._watches.ages.items() if age > self._stale_after]
        if stale:
            return text_response(503, f"not current: {', '.join(stale)}\n")
        if claim := self._kueue_claim():
            return text_response(200, f"stands by: {claim}\n")
        return text_response(200, "leads\n" if self._reporter.snapshot.leads else "stands by\n")

    def _state(self, _request: Request) -> Response:
        snapshot = self._reporter.snapshot._asdict()
        queues = snapshot.pop("queues")
        return json_response({**snapshot, "watches": dict(self._watches.ages), **_queues_json(queues)})

    def _queues(self, request: Request) -> Response:
        snapshot = self._reporter.snapshot
        body = {"leads": snapshot.leads, **_queues_json(snapshot.queues)}
        return encode_response(request, json_response(body))

    def _workloads(self, request: Request) -> Response:
        try:
            page = _page(request.query)
        except ValueError as error:
            return text_response(400, f"{error}\n")
        return encode_response(request, _response(lambda: _list_json(self._rows.get(), page)))

    def _workload(self, request: Request) -> Response:
        key = unquote(request.path.removeprefix(f"{_WORKLOADS}/"))
        if not self._explanations.try_acquire():
            return text_response(429, "too many explanations are requested at once\n")
        forecasts = self._reporter.forecasts

        def function(controller: QueueController) -> Json | None:
            body = workload_json(controller, key, forecasts, self._clock())
            obj = controller.workload(key)
            if obj is None:
                return body
            namespace, _, name = key.partition("/")
            return {
                **(body or ended_json(namespace, name, obj)),
                **job_json(namespace, obj, self._reporter.recent_events),
            }

        return _response(lambda: self._call(function, CALL_TIMEOUT), f"there is no workload {key[:300]!r}")


def _response(get: Callable[[], Json | None], unknown: str = "") -> Response:
    """Return the response with the result of `get`; None: 404 with the message `unknown`."""
    try:
        body = get()
    except TimeoutError as error:
        return text_response(503, f"{error}\n")
    return text_response(404, f"{unknown}\n") if body is None else json_response(body)


def _list_json(rows: Iterable[WorkloadRow], page: _Page) -> Json:
    matching = list(matching_rows(rows, page.queue, page.namespace))
    items = [row_json(row) for row in matching[page.offset : page.offset + page.limit]]
    return {"total": len(matching), "offset": page.offset, "items": items}


def _queues_json(queues: QueueSummaries) -> Json:
    return {
        "clusterQueues": [cluster_queue_json(queue) for queue in queues.cluster_queues.values()],
        "cohorts": [cohort_json(cohort) for cohort in queues.cohort_tree.values()],
        "localQueues": [local_queue_json(queue) for queue in queues.local_queues.values()],
    }


def _page(query: str) -> _Page:
    """Return the paging parameters of a list. Raises ValueError."""
    values = read_parameters(query, _PARAMETERS)
    limit = min(read_number(values, "limit"), MAX_LIMIT)
    return _Page(values["queue"], values["namespace"], limit, read_number(values, "offset"))

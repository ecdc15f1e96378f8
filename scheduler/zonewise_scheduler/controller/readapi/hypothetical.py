"""When a job that is not submitted would start: it joins a copy of the planner's state, which runs forward.

    /api/v1/forecast?namespace=default&queue=gpu&pods=64&requests=cpu=8,nvidia.com/gpu=8&walltime=4h

The queue itself does not change. The controller's thread makes the copy, and the request's thread runs the sample
paths. Only one request runs sample paths at a time. Their CPU time and the rate of requests are limited, and a request
that takes long counts as several. So the share of the controller's time that clients use is bounded.

As in the queue, the job includes what the API server adds to its pods. A job that a LimitRange rejects never starts.
"""

from __future__ import annotations

import threading
import time
from math import ceil, inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_common.service.handlers import json_response, text_response
from zonewise_common.token_bucket import TokenBucket
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.backfill.forecast.sample_paths import sample_starts
from zonewise_scheduler.backfill.recording.planner_feed import InvalidWorkload
from zonewise_scheduler.backfill.state.events import submit
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.controller.planning.forecaster import copy_basis, options_within
from zonewise_scheduler.controller.readapi.query_parameters import read_parameters
from zonewise_scheduler.controller.readapi.views import forecast_json
from zonewise_scheduler.controller.status.pending_note import start_time
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION, parse_walltime
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS, parse_pod_count
from zonewise_scheduler.quota.api.pod_defaults import check_pods, with_pod_defaults
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.service.handlers import Request, Response
    from zonewise_scheduler.backfill.forecast.calibration import ForecastCalibration
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.planning.forecaster import ForecastBasis
    from zonewise_scheduler.controller.status.reporter import StatusReporter
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.pod_defaults import PodDefaults
    from zonewise_scheduler.quota.api.resource_settings import ResourceSettings
    from zonewise_scheduler.quota.api.workload_types import Workload

PATH = "/api/v1/forecast"
FORECASTS_PER_SECOND, FORECAST_BURST = 0.5, 5
MAX_CPU_SECONDS = 2.0
"""CPU time after which the sample paths of a request end; the start is unknown if the job has not started by then."""
CPU_SECONDS_PER_REQUEST = 0.5
"""CPU time that one request may take; a longer one counts as several. Clients get a quarter of a CPU at most."""
_CALL_TIMEOUT = 5.0
"""Seconds in which the controller must respond."""
_FORECAST_TIMEOUT = 8.0
"""Seconds for which a request waits for earlier sample paths."""
_PARAMETERS = {"namespace": "default", "queue": "", "pods": "1", "requests": "", "walltime": "", "priority": "0",
               "topology": ""}  # fmt: skip
_NAME = "~forecast"
"""A name that no object can have."""


class HypotheticalForecasts:
    """Serves the requests for PATH. Safe for concurrent use by several threads."""

    def __init__(
        self,
        call: Callable[[Callable[[QueueController], _Copy], float], _Copy],
        reporter: StatusReporter,
        clock: Callable[[], float],
        timer: Callable[[], float] = time.thread_time,
    ) -> None:
        """Set the sources; `call`: runs a function in the controller's thread (ControllerLoop.call).

        `timer`: the CPU clock of the calling thread, in seconds.
        """
        self._call = call
        self._reporter = reporter
        self._clock = clock
        self._timer = timer
        self._budget = TokenBucket(FORECASTS_PER_SECOND, FORECAST_BURST)
        self._lock = threading.Lock()

    def respond(self, request: Request) -> Response:
        """Return the requested forecast."""
        try:
            workload = requested_workload(request.query, self._clock())
        except ValueError as error:
            return text_response(400, f"{error}\n")
        if not self._budget.try_acquire() or not self._lock.acquire(timeout=_FORECAST_TIMEOUT):
            seconds = max(1 / FORECASTS_PER_SECOND, self._budget.delay)
            return text_response(429, f"too many forecasts are requested at once; try again in {ceil(seconds)} s\n")
        begin = self._timer()
        try:
            copied = self._call(self._copy, _CALL_TIMEOUT)
            return json_response(hypothetical_forecast(copied, workload))
        except TimeoutError as error:
            return text_response(503, f"{error}\n")
        finally:
            self._lock.release()
            for _ in range(int((self._timer() - begin) / CPU_SECONDS_PER_REQUEST)):
                self._budget.reserve()

    def _copy(self, controller: QueueController) -> _Copy:
        history = self._reporter.history
        basis = copy_basis(controller.feed.state, history, self._clock())
        return _Copy(basis, history.calibration.copy(), controller.configuration.pod_defaults)


class _Copy(NamedTuple):
    basis: ForecastBasis
    calibration: ForecastCalibration
    pod_defaults: PodDefaults


def requested_workload(query: str, now: float) -> Json:
    """Return the Workload that a query describes. Raises ValueError, which names parameter and value."""
    values = read_parameters(query, _PARAMETERS)
    pods = parse_pod_count(values["pods"])
    if pods is None:
        raise ValueError(f"pods: {values['pods'][:80]!r} is not a number from 1 to {MAX_PODS}")
    if not values["queue"]:
        raise ValueError("queue: the name of a LocalQueue is missing")
    try:
        seconds = parse_walltime(values["walltime"]) if values["walltime"] else None
    except ValueError as error:
        raise ValueError(f"walltime: {error}: {values['walltime'][:80]!r}") from error
    requests = dict(_requests(values["requests"]))
    container = {"name": "main", "resources": {"requests": requests, "limits": requests}}
    pod_set: Json = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    if values["topology"]:
        pod_set["topologyRequest"] = {"required": values["topology"]}
    annotations = {} if seconds is None else {MAX_RUN_ANNOTATION: str(int(seconds))}
    priority = values["priority"]
    if not (priority.removeprefix("-").isdecimal() and priority.isascii() and len(priority) < 12):
        raise ValueError(f"priority: {priority[:80]!r} is not a whole number")
    obj: Json = {
        "metadata": {
            "namespace": values["namespace"],
            "name": _NAME,
            "uid": _NAME,
            "annotations": annotations,
            "creationTimestamp": api_time(now),
        },
        "spec": {"queueName": values["queue"], "podSets": [pod_set], "priority": int(priority)},
    }
    try:
        _read(obj, ALL_RESOURCES)
    except InvalidWorkload as error:
        raise ValueError(f"requests: {values['requests'][:200]!r}: {error}") from error
    return obj


def hypothetical_forecast(copied: _Copy, obj: Json) -> Json:
    """Return when a Workload would start if it were submitted now. The copy must not be used again."""
    state, inputs, now = copied.basis.state, copied.basis.inputs, copied.basis.now
    body: Json = {
        "at": api_time(now),
        "namespace": obj["metadata"]["namespace"],
        "localQueue": obj["spec"]["queueName"],
    }
    nothing: Json = {"clusterQueue": None, "startsNow": False, "forecast": forecast_json(Forecast(inf, inf, inf))}
    try:
        completed = with_pod_defaults(obj, copied.pod_defaults)
        check_pods(completed, copied.pod_defaults)
        workload = _read(completed, state.settings.resources)
    except (FieldError, InvalidWorkload) as error:
        return {**body, **nothing, "message": str(error)}
    submit(state, workload)
    key = workload.key
    if (inadmissible := state.inadmissible.get(key)) is not None:
        return {**body, **nothing, "message": inadmissible.message}
    queue = state.pending[key]
    explanation = explain(state, key, now)
    samples = sample_starts(state, now, inputs, [key], options_within(state, MAX_CPU_SECONDS))[key]
    starts_now = max(samples.starts) <= now
    forecast = copied.calibration.forecast(key, samples.queue, now, samples.starts, samples.bound)
    if starts_now:
        forecast = Forecast(now, now, now)
    return {
        **body,
        "clusterQueue": queue,
        "position": explanation.position,
        "startsNow": starts_now,
        "neverFits": explanation.never_fits,
        "forecast": forecast_json(forecast),
        "waitsFor": [] if starts_now else list(explanation.waits_for),
        "message": "" if starts_now else explanation_message(explanation, start_time),
    }


def _read(obj: Json, resources: ResourceSettings) -> Workload:
    """Return the workload that an object describes. Raises InvalidWorkload."""
    result = read_workload(obj, resources=resources)
    if result.workload is None or result.problems:
        raise InvalidWorkload(next(iter(result.problems), "spec: no workload"))
    return result.workload


def _requests(text: str) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in text.split(",")] if text else []
    for name, equals, amount in pairs:
        if not (name and equals and amount):
            raise ValueError(f"requests: {text[:80]!r} is not a list, such as cpu=8,memory=64Gi")
    return [(name, amount) for name, _, amount in pairs]

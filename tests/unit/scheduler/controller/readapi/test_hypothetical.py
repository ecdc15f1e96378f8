"""Forecasts of jobs that are not submitted."""

from __future__ import annotations

import json
from itertools import count
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.kube.resources import LIMIT_RANGES
from zonewise_common.service.handlers import Request, Response
from zonewise_scheduler.controller.readapi.hypothetical import (
    CPU_SECONDS_PER_REQUEST,
    FORECAST_BURST,
    PATH,
    HypotheticalForecasts,
    requested_workload,
)
from zonewise_scheduler.quota.api.resource_settings import parse_resource_settings

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def reported_queue(*cpus: int) -> ReportedQueue:
    """Return a queue of 8 CPUs with Jobs that run for at most an hour."""
    queue = ReportedQueue(ModelCluster(), NOW)
    for i, size in enumerate(cpus):
        key = queue.cluster.submit(f"j{i}", size, at=i)
        queue.cluster.change(key, {"spec": {"activeDeadlineSeconds": 3600}})
        queue.tick(1.0)
    queue.tick(30.0)
    return queue


def respond(live: ReportedQueue, **parameters: object) -> Response:
    forecasts = HypotheticalForecasts(live.ask, live.reporter, lambda: live.now)
    query = {"namespace": NAMESPACE, "queue": "l", "requests": "cpu=2", **parameters}
    return forecasts.respond(Request("GET", PATH, query=urlencode(query)))


def forecast(live: ReportedQueue, **parameters: object) -> Json:
    response = respond(live, **parameters)
    assert response.status == 200, response.body
    return json.loads(response.body)


def test_the_job_starts_at_once_if_quota_is_available() -> None:
    queue = reported_queue(4)
    body = forecast(queue, pods=2)
    assert (body["startsNow"], body["clusterQueue"], body["message"]) == (True, "q", "")
    assert body["forecast"]["latest"] == body["at"]


def test_the_job_waits_for_the_jobs_ahead_of_it() -> None:
    queue = reported_queue(8)
    body = forecast(queue, pods=4, walltime="30m")
    assert not body["startsNow"]
    assert body["forecast"]["likely"].startswith("2026-01-01T01:00:0")
    [running] = [entry["metadata"]["name"] for entry in queue.cluster.workloads()]
    assert body["waitsFor"] == [f"{NAMESPACE}/{running}"]
    assert "needs 8 CPUs of flavor f; ClusterQueue q has 0 of its 8 left" in body["message"]


def test_the_job_waits_behind_jobs_that_already_wait() -> None:
    before = forecast(reported_queue(8), pods=4, walltime="2h")
    behind = forecast(reported_queue(8, 8), pods=4, walltime="2h")
    assert behind["forecast"]["likely"] > before["forecast"]["likely"]
    assert behind["position"] == 2


def test_a_job_beyond_the_quota_never_starts() -> None:
    body = forecast(reported_queue(), pods=5)
    assert body["neverFits"]
    assert body["forecast"]["likely"] is None


def test_requests_count_by_the_settings_of_the_controller() -> None:
    queue = reported_queue()
    state = queue.queue.controller.feed.state
    twice = {"transformations": [{"input": "cpu", "outputs": {"cpu": "1"}}]}
    state.settings = state.settings._replace(resources=parse_resource_settings(twice))
    assert [forecast(queue, pods=pods)["startsNow"] for pods in (2, 3)] == [True, False]


@pytest.mark.parametrize(
    ("requests", "limits", "message"),
    [
        ("", {"defaultRequest": {"cpu": "5"}}, "needs 10 CPUs of flavor f"),
        (
            "cpu=2",
            {"max": {"cpu": "1"}},
            "spec.podSets[0].template.spec.containers[0]: cpu: requests must not be above the limitRange max",
        ),
    ],
)
def test_limit_ranges_count_as_for_a_job(requests: str, limits: Json, message: str) -> None:
    queue = reported_queue()
    queue.cluster.create(LIMIT_RANGES, NAMESPACE, "r", spec={"limits": [{"type": "Container", **limits}]})
    queue.tick(1.0)
    body = forecast(queue, pods=2, requests=requests)
    assert (body["startsNow"], body["forecast"]["likely"]) == (False, None)
    assert message in body["message"]


def test_an_unknown_queue_is_reported() -> None:
    body = forecast(reported_queue(), queue="none")
    assert body["message"] == f"there is no LocalQueue {NAMESPACE}/none"
    assert (body["clusterQueue"], body["forecast"]["likely"]) == (None, None)


def test_nothing_is_submitted() -> None:
    queue = reported_queue(8)
    before = queue.cluster.listed()
    forecast(queue)
    queue.tick(1.0)
    state = queue.controller.feed.state
    assert (len(state.pending), len(state.running)) == (0, 1)
    assert queue.cluster.listed().keys() == before.keys()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"pods": 0}, "pods: '0' is not a number from 1 to"),
        ({"pods": "many"}, "pods: 'many' is not a number"),
        ({"pods": f"{1:012}{0:09}"}, "pods: '000000000001000000000' is not a number"),
        ({"queue": ""}, "queue: the name of a LocalQueue is missing"),
        ({"walltime": "soon"}, "walltime: neither seconds nor a duration such as 90m: 'soon'"),
        ({"requests": "cpu"}, "requests: 'cpu' is not a list, such as cpu=8,memory=64Gi"),
        ({"requests": "cpu=x"}, "requests: 'cpu=x'"),
        ({"priority": "high"}, "priority: 'high' is not a whole number"),
        ({"nodes": 4}, "query: unknown parameter 'nodes'; the parameters are namespace, pods"),
    ],
)
def test_invalid_parameters_are_reported(parameters: dict[str, object], message: str) -> None:
    response = respond(reported_queue(), **parameters)
    assert (response.status, message in response.body.decode()) == (400, True), response.body


@given(st.text(max_size=60))
def test_any_invalid_query_is_a_value_error(query: str) -> None:
    with pytest.raises(ValueError, match=r"^(query|queue|pods|walltime|requests|priority): "):
        requested_workload(query, NOW)


def test_the_rate_of_forecasts_is_limited() -> None:
    queue = reported_queue()
    forecasts = HypotheticalForecasts(queue.ask, queue.reporter, lambda: queue.now)
    query = urlencode({"namespace": NAMESPACE, "queue": "l"})
    responses = [forecasts.respond(Request("GET", PATH, query=query)).status for _ in range(FORECAST_BURST + 1)]
    assert responses == [200] * FORECAST_BURST + [429]


def test_a_forecast_that_takes_long_counts_as_several() -> None:
    """The CPU clock advances by the time of three requests during each one."""
    queue = reported_queue()
    times = count(0.0, 3 * CPU_SECONDS_PER_REQUEST)
    forecasts = HypotheticalForecasts(queue.ask, queue.reporter, lambda: queue.now, lambda: next(times))
    query = urlencode({"namespace": NAMESPACE, "queue": "l"})
    responses = [forecasts.respond(Request("GET", PATH, query=query)) for _ in range(3)]
    assert [response.status for response in responses] == [200, 200, 429]
    assert responses[-1].body == b"too many forecasts are requested at once; try again in 8 s\n"


def test_a_controller_that_does_not_respond_is_unavailable() -> None:
    queue = reported_queue()

    def ask(_function: Any, _timeout: float) -> Any:
        raise TimeoutError("the controller has not responded for 5 s")

    forecasts = HypotheticalForecasts(ask, queue.reporter, lambda: queue.now)
    response = forecasts.respond(Request("GET", PATH, query=urlencode({"namespace": NAMESPACE, "queue": "l"})))
    assert (response.status, response.body) == (503, b"the controller has not responded for 5 s\n")

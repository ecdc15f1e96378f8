"""Health and the read API: responses to clients, including those to invalid requests."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.model_cluster import NAMESPACE, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_common.service.handlers import Request, Response
from zonewise_scheduler.controller.status_handler import EXPLANATION_BURST, MAX_LIMIT, ControllerStatusHandler

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.controller import QueueController

Json = dict[str, Any]

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


class Watches:
    """A stand-in for the informers."""

    def __init__(self) -> None:
        self.unsynced: list[str] = []
        self.ages = {"jobs": 0.0, "workloads": 2.0}


def reported_queue(jobs: int = 3) -> ReportedQueue:
    """Return a queue of 8 CPUs with jobs of 3 CPUs each."""
    queue = ReportedQueue(ModelCluster(), NOW)
    for i in range(jobs):
        queue.cluster.submit(f"j{i}", 3, at=i)
        queue.tick(1.0)
    queue.tick(30.0)
    return queue


def handler(
    queue: ReportedQueue, watches: Watches | None = None, ask: Any = None, kueue_claim: Callable[[], str] = str
) -> ControllerStatusHandler:
    return ControllerStatusHandler(
        queue.reporter,
        queue.metrics.registry,
        watches or Watches(),
        ask or queue.ask,
        lambda: queue.now,
        kueue_claim=kueue_claim,
        stale_after=30.0,
    )


def get(served: ControllerStatusHandler, path: str) -> Response:
    path, _, query = path.partition("?")
    assert served.methods(path) == ("GET",)
    return served.handle(Request("GET", path, query=query))


def got(served: ControllerStatusHandler, path: str) -> Json:
    response = get(served, path)
    assert (response.status, response.content_type) == (200, "application/json"), response.body
    return json.loads(response.body)


def test_readiness_follows_from_the_watches() -> None:
    queue, watches = reported_queue(1), Watches()
    served = handler(queue, watches)
    assert get(served, "/readyz") == Response(200, "text/plain; charset=utf-8", b"leads\n")
    queue.controller.lead(False)
    queue.tick(1.0)
    assert get(served, "/readyz").body == b"stands by\n"
    beside = handler(queue, watches, kueue_claim=lambda: "Kueue manages the queues")
    assert get(beside, "/readyz") == Response(
        200, "text/plain; charset=utf-8", b"stands by: Kueue manages the queues\n"
    )
    watches.ages["jobs"] = 31.0
    assert get(served, "/readyz").body == b"not current: jobs for 31 s\n"
    watches.unsynced.append("workloads")
    assert get(served, "/readyz") == Response(
        503, "text/plain; charset=utf-8", b"waits for the first list of workloads\n"
    )
    assert get(served, "/healthz").status == 200


def test_queues_have_their_quota_and_usage() -> None:
    body = got(handler(reported_queue()), "/api/v1/queues")
    (queue,) = body["clusterQueues"]
    assert (queue["name"], queue["active"], queue["pendingWorkloads"], queue["admittedWorkloads"]) == ("q", True, 1, 2)
    assert queue["resources"] == [
        {
            "flavor": "f",
            "resource": "cpu",
            "nominalQuota": "8",
            "borrowingLimit": None,
            "lendingLimit": None,
            "reserved": "6",
            "used": "6",
            "borrowed": "0",
        }
    ]
    (local,) = body["localQueues"]
    assert (local["namespace"], local["name"], local["clusterQueue"]) == (NAMESPACE, "l", "q")


def test_a_pending_workload_has_its_position_and_reason() -> None:
    body = got(handler(reported_queue()), "/api/v1/workloads?queue=q&namespace=ns")
    assert body["total"] == 3
    pending = [item for item in body["items"] if item["state"] == "Pending"]
    (item,) = pending
    assert (item["position"], item["reason"], item["clusterQueue"], item["localQueue"]) == (
        1, "WaitingForQuota", "q", "l")  # fmt: skip
    assert "needs 3 CPUs of flavor f; ClusterQueue q has 2 of its 8 left" in item["message"]


def test_the_guide_shows_an_actual_response() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "guides" / "read-api.md").read_text()
    (example,) = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    assert json.loads(example) == got(handler(reported_queue()), "/api/v1/workloads?queue=q&limit=1")


def test_one_workload_is_explained() -> None:
    queue = reported_queue()
    (key,) = queue.controller.feed.state.pending
    body = got(handler(queue), f"/api/v1/workloads/{key}")
    (shortage,) = body["explanation"]["shortages"]
    assert (shortage["requested"], shortage["available"], shortage["limitOf"]) == ("3", "2", "q")
    running = next(iter(queue.controller.feed.state.running))
    body = got(handler(queue), f"/api/v1/workloads/{running}")
    assert (body["state"], body["usage"]) == ("Admitted", [{"flavor": "f", "resource": "cpu", "amount": "3"}])
    missing = get(handler(queue), "/api/v1/workloads/ns/no%20such")
    assert (missing.status, missing.body) == (404, b"there is no workload 'ns/no such'\n")


def test_the_plan_has_running_and_reserved_workloads() -> None:
    queue = reported_queue()
    body = got(handler(queue), "/api/v1/plan")
    assert [item["state"] for item in body["running"]] == ["Admitted", "Admitted"]
    (reservation,) = body["reservations"]
    assert f"ns/{reservation['name']}" in queue.controller.feed.state.pending
    assert reservation["start"] is None  # the jobs declare no walltime


@given(st.integers(0, 12), st.integers(0, 12))
def test_pages_are_slices_of_the_whole_list(limit: int, offset: int) -> None:
    served = handler(QUEUE)
    whole = got(served, "/api/v1/workloads")["items"]
    page = got(served, f"/api/v1/workloads?limit={limit}&offset={offset}")
    assert page == {"total": len(whole), "offset": offset, "items": whole[offset : offset + limit]}


QUEUE = reported_queue(6)


def test_a_filter_that_matches_nothing_gives_an_empty_list() -> None:
    served = handler(QUEUE)
    for query in ("queue=other", "namespace=other"):
        assert got(served, f"/api/v1/workloads?{query}") == {"total": 0, "offset": 0, "items": []}
    assert got(served, "/api/v1/workloads?queue=l")["total"] == 6
    assert got(served, f"/api/v1/workloads?limit={MAX_LIMIT * 10}")["total"] == 6


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=x", "limit: 'x' is not a non-negative number"),
        ("offset=-1", "offset: '-1' is not a non-negative number"),
        ("limit=99999999999", "limit: '99999999999' is not a non-negative number"),
        ("name=a", "unknown parameter 'name'"),
        ("queue", "query: 'queue'"),
        ("&".join("limit=1" for _ in range(9)), "query: 'limit=1"),
    ],
)
def test_an_invalid_parameter_is_named(query: str, message: str) -> None:
    response = get(handler(QUEUE), f"/api/v1/workloads?{query}")
    assert response.status == 400
    assert message in response.body.decode()


def test_a_controller_that_does_not_respond_is_unavailable() -> None:
    def ask(function: Callable[[QueueController], Any], timeout: float) -> Any:
        raise TimeoutError(f"the controller has not responded for {timeout:g} s")

    served = handler(QUEUE, ask=ask)
    for path in ("/api/v1/workloads", "/api/v1/plan", "/api/v1/workloads/ns/a"):
        response = get(served, path)
        assert (response.status, response.body) == (503, b"the controller has not responded for 5 s\n")
    assert get(served, "/api/v1/queues").status == 200


def test_the_rate_of_explanations_is_limited_and_lists_are_shared() -> None:
    questions: list[object] = []

    def ask(function: Callable[[QueueController], Any], timeout: float) -> Any:
        questions.append(function)
        return QUEUE.ask(function, timeout)

    served = handler(QUEUE, ask=ask)
    statuses = [get(served, "/api/v1/workloads/ns/none").status for _ in range(EXPLANATION_BURST * 100)]
    assert set(statuses[:EXPLANATION_BURST]) == {404}
    assert 429 in statuses
    del questions[:]
    bodies = {get(served, "/api/v1/workloads").body for _ in range(100)}
    assert len(bodies) == 1
    assert len(questions) < 100


def test_state_and_metrics_are_served() -> None:
    served = handler(QUEUE)
    state = got(served, "/debug/state")
    assert (state["leads"], state["pending"], state["running"]) == (True, 4, 2)
    assert state["watches"] == {"jobs": 0.0, "workloads": 2.0}
    assert b'kueue_pending_workloads{cluster_queue="q",status="inadmissible"}' in get(served, "/metrics").body


def test_metrics_are_compressed_if_the_scraper_accepts_it() -> None:
    """A cluster with 300 ClusterQueues and 1,000 LocalQueues has 3 MB of metrics."""
    served = handler(QUEUE)
    response = served.handle(Request("GET", "/metrics", headers={"accept-encoding": "gzip"}))
    assert ("Content-Encoding", "gzip") in response.headers
    assert b'kueue_pending_workloads{cluster_queue="q"' in gzip.decompress(response.body)


def test_the_page_and_its_data_are_served() -> None:
    served = handler(QUEUE)
    page = get(served, "/page/")
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert get(served, "/page/none.js").status == 404
    assert served.handle(Request("GET", "/", accept="text/html")).status == 303
    body = got(served, "/api/v1/cluster")
    assert len(body["tables"]["workloads"]["set"]) == 6
    stream = get(served, "/api/v1/cluster/events")
    assert stream.content_type == "text/event-stream"
    assert stream.stream is not None


def test_lists_are_compressed_and_sent_once() -> None:
    served = handler(QUEUE)
    for path in ("/api/v1/queues", "/api/v1/workloads", "/api/v1/plan", "/api/v1/cluster"):
        response = served.handle(Request("GET", path, headers={"accept-encoding": "gzip"}))
        assert (("Content-Encoding", "gzip") in response.headers) == (path != "/api/v1/queues"), path
        tag = dict(response.headers)["ETag"]
        assert served.handle(Request("GET", path, headers={"if-none-match": tag})).status == 304, path


def test_a_job_has_its_history_even_after_its_end() -> None:
    queue = reported_queue()
    key = next(iter(queue.controller.feed.state.running))
    body = got(handler(queue), f"/api/v1/workloads/{key}")
    assert body["job"]["kind"] == "Job"
    assert body["placement"][0]["flavors"] == {"cpu": "f"}
    reasons = [entry["reason"] for entry in body["history"]]
    assert reasons[0] == "Created"
    assert {"QuotaReserved", "Admitted"} <= set(reasons)
    assert any(entry["source"] == "Event" and "by ClusterQueue q" in entry["message"] for entry in body["history"])
    job = next(each for each in queue.cluster.jobs if each.name == body["job"]["name"])
    queue.cluster.complete(job)
    queue.tick(1.0)
    queue.tick(1.0)
    assert key not in queue.controller.feed.state.running
    ended = got(handler(queue), f"/api/v1/workloads/{key}")
    assert ended["state"] == "Finished"
    assert "Finished" in [entry["reason"] for entry in ended["history"]]


def test_cohorts_are_a_tree() -> None:
    queue = ReportedQueue(ModelCluster(cohortName="team"), NOW)
    queue.tick(1.0)
    (cohort,) = got(handler(queue), "/api/v1/queues")["cohorts"]
    assert (cohort["name"], cohort["parent"], cohort["resources"]) == (
        "team", "", [{"flavor": "f", "resource": "cpu", "quota": "8", "used": "0"}])  # fmt: skip

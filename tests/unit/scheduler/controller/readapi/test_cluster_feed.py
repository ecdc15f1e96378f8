"""The cluster as tables and events: what a client gets first, and what it gets while it follows changes."""

from __future__ import annotations

import gzip
import http.client
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from support.page_cluster import PageCluster
from support.waiting import PATIENCE, eventually
from zonewise_common.service.handlers import Request
from zonewise_common.service.http_server import HttpServer
from zonewise_scheduler.controller.readapi import cluster_feed
from zonewise_scheduler.controller.readapi.cluster_feed import (
    CREDIT,
    REST_RATIO,
    ClusterEvents,
    ClusterFeed,
    ClusterRevision,
    take_revision,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_scheduler.controller.controller import QueueController

Json = dict[str, Any]
NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.fixture
def cluster() -> PageCluster:
    built = PageCluster(12, 4, 6, NOW)
    built.plans = False
    return built


@pytest.fixture
def without_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def note_stream(_feed: ClusterFeed) -> None: ...

    monkeypatch.setattr(ClusterFeed, "_note_stream", note_stream)


def feed_of(cluster: PageCluster) -> ClusterFeed:
    """Return a feed that makes a new version whenever all rows are requested."""
    return ClusterFeed(cluster.ask, cluster.reporter, lambda: cluster.now, period=0.0, rest_ratio=0.0)


def all_rows(feed: ClusterFeed, **headers: str) -> Json:
    response = feed.respond(Request("GET", "/api/v1/cluster", headers=headers))
    assert response.status == 200, response.body
    is_compressed = ("Content-Encoding", "gzip") in response.headers
    return json.loads(gzip.decompress(response.body) if is_compressed else response.body)


def named(body: Json, table: str) -> dict[str, Json]:
    columns = body["columns"][table]
    return {key: dict(zip(columns, row, strict=True)) for key, row in body["tables"][table]["set"].items()}


def test_all_rows_match_the_state_of_the_controller(cluster: PageCluster) -> None:
    body = all_rows(feed_of(cluster), **{"accept-encoding": "gzip"})
    state = cluster.controller.feed.state
    nodes, workloads = named(body, "nodes"), named(body, "workloads")
    assert nodes.keys() == {node.name for node in cluster.nodes}
    assert workloads.keys() == {*state.running, *state.pending, *state.inadmissible}
    assert body["levels"] == ["topology.kubernetes.io/block", "topology.kubernetes.io/rack"]
    assert body["tables"]["clusterQueues"]["set"].keys() == state.snapshot.cluster_queues.keys()
    assert body["tables"]["cohorts"]["set"]["research"]["parent"] == "company"
    pods_by_workload: dict[str, int] = {}
    for node in nodes.values():
        for workload, pods, *_ in node["runs"]:
            pods_by_workload[workload] = pods_by_workload.get(workload, 0) + pods
    assert pods_by_workload == {key: workloads[key]["pods"] for key in state.running}


def test_a_deleted_node_has_no_row(cluster: PageCluster) -> None:
    feeds = [feed_of(cluster), feed_of(cluster)]  # two clients of one controller do not affect each other
    assert [len(all_rows(feed)["tables"]["nodes"]["set"]) for feed in feeds] == [12, 12]
    cluster.controller.observe_node(cluster.nodes[0].name, None)
    cluster.controller.observe_report(cluster.nodes[0].name, None)
    cluster.step(1.0)
    for feed in feeds:
        assert cluster.nodes[0].name not in all_rows(feed)["tables"]["nodes"]["set"]
        assert len(all_rows(feed)["tables"]["nodes"]["set"]) == 11


def test_the_same_rows_are_sent_once(cluster: PageCluster) -> None:
    feed = feed_of(cluster)
    response = feed.respond(Request("GET", "/"))
    tag = dict(response.headers)["ETag"]
    assert feed.respond(Request("GET", "/", headers={"if-none-match": tag})).status == 304


@pytest.mark.usefixtures("without_thread")
def test_a_stream_begins_with_the_time(cluster: PageCluster) -> None:
    """In a quiet cluster, the rows and their time may be hours old."""
    feed = feed_of(cluster)
    before = all_rows(feed)
    cluster.now += 3600.0
    assert all_rows(feed)["at"] == before["at"]
    body = feed.stream(Request("GET", "/", headers={"last-event-id": before["version"]})).body.decode()
    assert body == f'retry: 2000\nevent: clock\ndata: {{"at": {cluster.now:.3f}}}\n\n'


@pytest.mark.usefixtures("without_thread")
def test_events_contain_only_changes(cluster: PageCluster) -> None:
    feed = feed_of(cluster)
    before = all_rows(feed)
    stream = ClusterEvents(feed, before["version"])
    assert stream() == b""
    cluster.churn(1)
    cluster.step(1.0)
    after = all_rows(feed)
    event = (stream() or b"").decode()
    assert event.endswith("\n\n")
    fields = dict(line.split(": ", 1) for line in event.strip().split("\n"))
    assert (fields["id"], fields["event"]) == (after["version"], "changes")
    changed = json.loads(fields["data"])["tables"]
    for name, table in changed.items():
        expected, old = after["tables"][name]["set"], before["tables"][name]["set"]
        assert table["set"] == {key: row for key, row in expected.items() if old.get(key) != row}
        assert set(table["gone"]) == old.keys() - expected.keys()
    assert stream() == b""


@pytest.mark.usefixtures("without_thread")
def test_a_client_without_a_known_version_must_get_all_rows(cluster: PageCluster) -> None:
    feed = feed_of(cluster)
    for version in ("", "other-1"):
        stream = ClusterEvents(feed, version)
        assert stream() == b"event: reset\ndata: {}\n\n"
        assert stream() == b""


@pytest.mark.usefixtures("without_thread")
def test_a_slow_client_gets_one_event_for_many_versions(cluster: PageCluster) -> None:
    feed = feed_of(cluster)
    version = all_rows(feed)["version"]
    stream = ClusterEvents(feed, version)
    for _ in range(4):
        cluster.churn(1)
        cluster.step(1.0)
        all_rows(feed)
    event = stream() or b""
    assert event.count(b"event: changes") == 1
    assert f"id: {all_rows(feed)['version']}".encode() in event
    assert stream() == b""


@pytest.mark.usefixtures("without_thread")
def test_a_quiet_stream_has_comments(cluster: PageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    feed = feed_of(cluster)
    stream = ClusterEvents(feed, all_rows(feed)["version"])
    monkeypatch.setattr(cluster_feed, "KEEP_ALIVE", 0.0)
    assert stream() == b": no change\n\n"


def test_a_controller_that_does_not_respond_is_unavailable(cluster: PageCluster) -> None:
    def ask(function: Callable[[QueueController], Any], timeout: float) -> Any:
        raise TimeoutError(f"the controller has not responded for {timeout:g} s")

    feed = ClusterFeed(ask, cluster.reporter, lambda: NOW)
    assert feed.respond(Request("GET", "/")).status == 503


@pytest.mark.parametrize(("late", "due"), [(0.0, 11.0), (0.4, 11.0), (1.5, 12.5)])
def test_the_rate_of_versions_is_limited(
    cluster: PageCluster, monkeypatch: pytest.MonkeyPatch, late: float, due: float
) -> None:
    """A late version does not delay the following ones, unless it is late by a whole period."""
    times = iter([9.0, 10.0 + late])
    monkeypatch.setattr(cluster_feed.time, "monotonic", lambda: now)
    now = next(times)
    feed = ClusterFeed(cluster.ask, cluster.reporter, lambda: NOW, period=1.0, rest_ratio=0.0)
    feed.refresh()
    now = next(times)
    feed.refresh()
    assert feed._next_at == due  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("costs", "seconds"),
    [
        ([0.025] * 40, 39.0),
        (([0.025] * 7 + [0.125]) * 5, 39.0),  # as if a garbage collection occurred during a version
        ([0.1] * 40, 40 * 0.1 * REST_RATIO - 0.1 * REST_RATIO - CREDIT),
    ],
    ids=["short", "one in eight is long", "long"],
)
def test_versions_use_a_limited_share_of_the_cpu_time(
    cluster: PageCluster, monkeypatch: pytest.MonkeyPatch, costs: list[float], seconds: float
) -> None:
    """A long version uses the time that shorter ones leave and delays none; if all are long, their rate is lower."""
    now, cpu = 1000.0, 0.0
    rest = iter(costs)

    def take(*arguments: Any) -> ClusterRevision:
        nonlocal cpu
        cpu += next(rest)
        return take_revision(*arguments)

    clocks = SimpleNamespace(monotonic=lambda: now, thread_time=lambda: cpu)
    monkeypatch.setattr(cluster_feed, "time", clocks)
    monkeypatch.setattr(cluster_feed, "take_revision", take)
    feed = ClusterFeed(cluster.ask, cluster.reporter, lambda: NOW)
    for index in range(len(costs)):
        if index:
            now = feed._next_at  # pyright: ignore[reportPrivateUsage]
        feed.refresh()
    assert next(rest, None) is None
    assert now - 1000.0 == pytest.approx(seconds)


# --- over HTTP


@pytest.fixture
def port(cluster: PageCluster) -> Iterator[int]:
    server = HttpServer("127.0.0.1:0", cluster.handler())
    server.start()
    yield server.port
    server.close()


def test_changes_are_pushed_and_a_connection_resumes_where_the_last_one_ended(cluster: PageCluster, port: int) -> None:
    version = json.loads(fetch(port, "/api/v1/cluster"))["version"]
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        connection.request("GET", "/api/v1/cluster/events", headers={"Last-Event-ID": version})
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        cluster.churn(1)
        cluster.step(1.0)
        lines: list[str] = []
        while not any(line.startswith("id:") for line in lines):
            lines.append(response.readline().decode().strip())
        lines.append(response.readline().decode().strip())
        changed = next(line.removeprefix("id: ") for line in lines if line.startswith("id: "))
        assert changed != version
        assert "event: changes" in lines
        version = changed
        connection.close()


def test_the_thread_ends_without_streams(cluster: PageCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_feed, "_LINGER", 0.0)
    calls: list[float] = []

    def ask(function: Callable[[QueueController], Any], timeout: float) -> Any:
        calls.append(timeout)
        return cluster.ask(function, timeout)

    feed = ClusterFeed(ask, cluster.reporter, lambda: NOW, period=0.0)
    feed.stream(Request("GET", "/"))
    eventually(lambda: feed._thread is None)  # pyright: ignore[reportPrivateUsage]
    assert len(calls) <= 1


def fetch(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()

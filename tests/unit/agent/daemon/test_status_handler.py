"""The agent's HTTP pages, over real sockets: probes, metrics, and its state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.clock import Clock
from support.health_stories import Story, xid
from support.http_requests import get, serve
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.status import Snapshot, Status
from zonewise.daemon.status_handler import AgentStatusHandler
from zonewise.usage.types import Amount, Usage, ZoneUsage
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.service.http_server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator

USAGE = Usage(
    (ZoneUsage(0, {"cpu": Amount(16, 15, 9)}, CpuSet.parse_list("1-9")),),
    {"example.com/dongle": Amount(2, 2, 1)}, {}, None, "pfp0v001", "pfp0v001",
)  # fmt: skip


class Agent(NamedTuple):
    """The handler with its status and its clock."""

    clock: Clock
    status: Status
    handler: AgentStatusHandler


@pytest.fixture
def agent() -> Agent:
    clock = Clock()
    status = Status(clock)
    status.expect(["nrt"])
    status.set_snapshot(Snapshot("n1", usage=USAGE, labels={"a": "b"}, problems=("something is odd",)))
    metrics = AgentMetrics()
    metrics.watch(status)
    return Agent(clock, status, AgentStatusHandler(status, metrics.registry, silence_limit=30, readiness_limit=180))


@pytest.fixture
def port(agent: Agent) -> Iterator[int]:
    yield from serve(HttpServer("127.0.0.1:0", agent.handler))


def test_health(agent: Agent, port: int) -> None:
    """The agent is healthy until its loop has been silent for longer than the limit."""
    assert get(port, "/healthz").status == 200
    agent.clock.advance(31)
    response = get(port, "/healthz")
    assert (response.status, response.body) == (503, "the agent has done nothing for 31 s (limit 30 s)\n")
    agent.status.beat()
    assert get(port, "/healthz").status == 200


def test_readiness(agent: Agent, port: int) -> None:
    """The agent is ready from its first successful publication until the last one is too old."""
    assert get(port, "/readyz").body == "nothing has been published yet\n"
    agent.status.published("nrt")
    assert get(port, "/readyz").status == 200
    agent.clock.advance(181)
    response = get(port, "/readyz")
    assert (response.status, response.body) == (503, "the last successful publish is 181 s old (limit 180 s)\n")


def test_metrics(agent: Agent, port: int) -> None:
    """Prometheus gets the amounts inside and outside zones, and the problems, in its text format."""
    agent.status.published("nrt")
    agent.clock.advance(2)
    response = get(port, "/metrics")
    lines = response.body.splitlines()
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    for line in (
        'zonewise_zone_available{resource="cpu",zone="0"} 9.0',
        'zonewise_zone_allocatable{resource="cpu",zone="0"} 15.0',
        'zonewise_zone_available{resource="example.com/dongle",zone=""} 1.0',
        'zonewise_problems{source="report"} 1.0',
        "zonewise_published_age_seconds 2.0",
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


def test_openmetrics(port: int) -> None:
    """A scraper that prefers OpenMetrics gets OpenMetrics."""
    response = get(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert response.headers["Content-Type"].startswith("application/openmetrics-text")
    assert response.body.endswith("# EOF\n")


def test_state(port: int) -> None:
    """The state is a JSON document."""
    state = json.loads(get(port, "/debug/state").body)
    assert state["node"] == "n1"
    assert state["usage"]["zones"][0]["amounts"]["cpu"] == {"capacity": 16, "allocatable": 15, "available": 9}
    assert state["usage"]["zones"][0]["free_cpus"] == "1-9"
    assert state["problems"]["kubelet"] == ["something is odd"]


def test_the_state_has_faults_as_the_command_prints_them(agent: Agent, port: int) -> None:
    assert json.loads(get(port, "/debug/state").body)["faults"] is None
    story = Story()
    story.observe(events=xid(79, story.now))
    agent.status.set_snapshot(Snapshot("n1", faults=story.state.active))
    response = get(port, "/debug/state")
    assert response.status == 200
    [fault] = json.loads(response.body)["faults"]
    assert (fault["rule"], fault["verdict"], fault["severity"]) == ("xid-79", "hardware", "failed")


def test_index(port: int) -> None:
    assert "/metrics" in get(port, "/").body

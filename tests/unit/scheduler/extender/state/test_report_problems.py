"""Problems of reports as metrics and Events: each distinct problem is recorded once, at a limited rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from prometheus_client import generate_latest

from support.waiting import eventually
from zonewise_common.kube.errors import AlreadyExists, TransportError
from zonewise_scheduler.admission.report.node_report import NodeReport
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.objects.api_objects import PublishedReport
from zonewise_scheduler.extender.state.report_problems import ReportProblems

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client

COST = "zones[0].costs[0]: not a zone and its distance: {}"
GROUP = "zone 3 zonewise.dev/memory-group: no such zones: (5,)"


class EventServer:
    """A server that stores Events by name and rejects duplicates; its first `failures` requests fail."""

    def __init__(self, failures: int = 0) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self.calls = 0
        self._failures = failures

    def create(self, _resource: object, body: dict[str, Any]) -> None:
        self.calls += 1
        if self.calls <= self._failures:
            raise TransportError("there is no route")
        name = body["metadata"]["name"]
        assert body["metadata"]["namespace"] == "default"
        if name in self.events:
            raise AlreadyExists(409, "AlreadyExists", "there is one")
        self.events[name] = body


def published(*problems: str, node: str = "n") -> PublishedReport:
    return PublishedReport(NodeReport(node, None, (), problems), None)


def running(server: EventServer) -> ReportProblems:
    return ReportProblems(cast("Client", server), pause=0.0)


def test_a_problem_is_an_event_on_the_node() -> None:
    """The first problem of each kind becomes an Event; the same problem in a later report adds none."""
    server = EventServer()
    problems = running(server)
    with problems:
        first = published(COST, COST.replace("costs[0]", "costs[1]"), GROUP)
        problems.update_report(None, first)
        problems.update_report(first, published(COST, GROUP))
        eventually(lambda: len(server.events) == 2)
    events = sorted(server.events.values(), key=lambda event: event["message"])
    assert [event["message"].rpartition("damaged: ")[2] for event in events] == [GROUP, COST]
    assert {event["involvedObject"]["kind"] for event in events} == {"Node"}
    assert {event["involvedObject"]["name"] for event in events} == {"n"}
    assert problems.totals() == {"costs": 1, "memory-group": 1}


def test_after_a_restart_no_event_is_repeated() -> None:
    """The name of an Event is derived from its problem, so a new process does not create it again."""
    server = EventServer()
    for calls in (1, 2):
        problems = running(server)
        with problems:
            problems.update_report(None, published(COST))
            eventually(lambda calls=calls: server.calls == calls)
    assert len(server.events) == 1


def test_a_failed_request_does_not_stop_later_ones() -> None:
    server = EventServer(failures=1)
    problems = running(server)
    with problems:
        problems.update_report(None, published(COST))
        problems.update_report(None, published(GROUP, node="m"))
        eventually(lambda: len(server.events) == 1)
    assert next(iter(server.events)).startswith("m.")


def test_metrics() -> None:
    """Metrics count the reports that are damaged now, by kind, and all problems so far."""
    problems = running(EventServer())
    metrics = ExtenderMetrics()
    metrics.export_report_problems(problems)
    damaged, sound = published(COST, GROUP), published()
    problems.update_report(None, damaged)
    problems.update_report(None, published(GROUP, node="m"))
    text = generate_latest(metrics.registry).decode()
    assert 'zonewise_damaged_reports{kind="memory-group"} 2.0' in text
    assert 'zonewise_damaged_reports{kind="costs"} 1.0' in text
    problems.update_report(damaged, sound)
    problems.update_report(published(GROUP, node="m"), None)
    assert problems.nodes_by_kind() == {}
    assert 'zonewise_report_problems_total{kind="memory-group"} 2.0' in generate_latest(metrics.registry).decode()


def test_too_many_problems_are_dropped() -> None:
    """Without the API server, the queue of problems does not grow without bounds."""
    problems = running(EventServer())
    for number in range(1000):
        problems.update_report(None, published(COST, node=f"n{number}"))
    assert problems.nodes_by_kind() == {"costs": 1000}

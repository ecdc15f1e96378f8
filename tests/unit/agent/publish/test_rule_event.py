"""The Event about failing rules."""

from __future__ import annotations

from typing import Any

from support.clock import Clock
from zonewise.publish.rule_event import WRITE_INTERVAL, RuleEvent
from zonewise.rules.types import RuleOutcome
from zonewise_common.kube.errors import TransportError
from zonewise_common.kube.events import utc_now

A, B = (RuleOutcome(name, "r", error="broken") for name in "ab")


class _Client:
    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.fails = False

    def apply(self, resource: object, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        if self.fails:
            raise TransportError("away")
        self.events.append(obj)
        return obj


def test_written_when_failures_change_or_last() -> None:
    client, clock = _Client(), Clock()
    event = RuleEvent(client, "node-1", clock=clock, now=utc_now)
    event.note([])
    assert client.events == []
    event.note([A])
    event.note([A])
    event.note([A, B])
    assert [one["count"] for one in client.events] == [1, 2]
    assert client.events[1]["message"] == (
        "zonewise: 2 rules failed: NodeFeatureRule a, rule 'r': broken; NodeFeatureRule b, rule 'r': broken"
    )
    assert {one["metadata"]["name"] for one in client.events} == {"node-1.zonewise-rules"}
    clock.advance(WRITE_INTERVAL)
    event.note([A, B])
    assert len(client.events) == 3


def test_the_event_is_retried_if_the_server_is_unavailable() -> None:
    client = _Client()
    event = RuleEvent(client, "node-1")
    client.fails = True
    event.note([A])
    client.fails = False
    event.note([A])
    assert len(client.events) == 1


def test_many_failures_are_counted() -> None:
    client = _Client()
    RuleEvent(client, "node-1").note([A] * 9)
    assert client.events[0]["message"].endswith("; and 4 more")

"""The Event on a Node whose report another client changes repeatedly."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import Clock
from zonewise.publish.nrt_publisher import DELETED, EDITED, ForeignChange
from zonewise.publish.repair_event import REASON, SUFFIX, WRITE_INTERVAL, RepairEvent
from zonewise.publish.repair_pauses import AT_ONCE
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import ApiError, NotFound
from zonewise_common.kube.resources import EVENTS
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.kube.resources import Resource

NODE = "n1"
START = datetime(2026, 1, 2, 12, tzinfo=UTC)
EDIT = ForeignChange(EDITED, "some-controller")


@pytest.fixture
def client() -> Iterator[Client]:
    with ApiServer() as server, contextlib.closing(Client(server.client_config())) as connected:
        yield connected


def stored(client: Client) -> dict[str, Any] | None:
    try:
        return client.get(EVENTS, f"{NODE}.{SUFFIX}", namespace="default")
    except NotFound:
        return None


def make_repair_event(client: Client, clock: Clock) -> RepairEvent:
    return RepairEvent(client, NODE, clock=clock, now=lambda: START + timedelta(seconds=clock()))


def test_a_few_repairs_have_no_event(client: Client) -> None:
    repairs = make_repair_event(client, Clock())
    for count in range(1, AT_ONCE + 1):
        repairs.note(EDIT, count)
    assert stored(client) is None


def test_repeated_repairs_are_one_event_on_the_node(client: Client) -> None:
    """The Event names the last writer, is written at most once per interval, and counts all repairs."""
    clock = Clock(0.0)
    repairs = make_repair_event(client, clock)
    for count in range(1, AT_ONCE + 2):
        repairs.note(EDIT, count)
    first = stored(client)
    assert first is not None
    assert (first["type"], first["reason"], first["count"]) == ("Warning", REASON, AT_ONCE + 1)
    assert first["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": NODE}
    assert "was edited by the field manager some-controller" in first["message"]
    clock.advance(WRITE_INTERVAL - 1)
    repairs.note(EDIT, AT_ONCE + 2)
    assert stored(client) == first
    clock.advance(1)
    repairs.note(ForeignChange(DELETED), AT_ONCE + 2)
    last = stored(client)
    assert last is not None
    assert (last["metadata"]["uid"], last["count"]) == (first["metadata"]["uid"], AT_ONCE + 3)
    assert last["firstTimestamp"] == first["firstTimestamp"] < last["lastTimestamp"]
    assert "was deleted by another client" in last["message"]
    assert len(client.list(EVENTS).items) == 1


def test_later_repairs_are_counted_from_zero(client: Client) -> None:
    clock = Clock(0.0)
    repairs = make_repair_event(client, clock)
    for count in range(1, AT_ONCE + 2):
        repairs.note(EDIT, count)
    clock.advance(5000.0)
    for count in range(1, AT_ONCE + 2):
        repairs.note(EDIT, count)
    last = stored(client)
    assert last is not None
    assert (last["count"], last["firstTimestamp"]) == (AT_ONCE + 1, "2026-01-02T13:23:20Z")


def test_an_event_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged and has no other effect; the next repair tries to write it again."""

    class RejectingClient:
        attempts = 0

        def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
            self.attempts += 1
            raise ApiError(403, "Forbidden", f"{field_manager} may not write {resource.plural}: {obj['reason']}")

    refusing = RejectingClient()
    repairs = RepairEvent(refusing, NODE, clock=Clock())
    for count in range(1, AT_ONCE + 3):
        repairs.note(EDIT, count)
    assert refusing.attempts == 2
    assert "the Event ReportRepairedRepeatedly of the Node cannot be written" in caplog.text
    assert "zonewise-agent may not write events" in caplog.text

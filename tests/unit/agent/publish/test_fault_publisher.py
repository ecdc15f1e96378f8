"""Requests to the API server for a fault: a few when it begins, none while it lasts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import Clock
from support.health_stories import FIRST_GPU, POD, Story, xid
from support.lost_answers import lost_answers
from zonewise.publish.fault_publisher import EVENT_INTERVAL, HEARTBEAT, FaultPublisher, FaultWrites
from zonewise_common.kube.errors import Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

NODE = "node-7"


class Recorder:
    """A client with one Node and one pod, which records the writes."""

    def __init__(self) -> None:
        self.pod: dict[str, Any] | None = {
            "metadata": {"uid": "1"}, "spec": {"nodeName": NODE}, "status": {"conditions": []}
        }  # fmt: skip
        self.taints: list[dict[str, str]] = [{"key": "a", "effect": "NoSchedule"}]
        self.writes: list[tuple[str, str, Any]] = []

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        if resource.plural == "nodes":
            return {
                "metadata": {"name": name, "resourceVersion": "7"}, "spec": {"taints": self.taints}, "status": {}
            }  # fmt: skip
        if self.pod is None:
            raise NotFound(404, "NotFound", "gone")
        return self.pod

    def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        self.writes.append((resource.plural, obj["involvedObject"]["kind"], obj))
        return obj

    def patch(self, resource: Resource, name: str, patch: Any, **more: Any) -> dict[str, Any]:
        self.writes.append((resource.plural, more.get("subresource", ""), patch))
        self.taints = patch.get("spec", {}).get("taints", self.taints)
        return self.get(resource, name)


@pytest.fixture
def client() -> Recorder:
    return Recorder()


def hit(code: int = 79) -> Story:
    story = Story()
    story.held = {FIRST_GPU: [POD]}
    story.observe()
    story.observe(events=xid(code, story.now + 1))
    return story


def test_a_fault_is_written_once(client: Recorder) -> None:
    clock, story = Clock(), hit()
    publisher = FaultPublisher(client, NODE, clock=clock)
    assert publisher.publish(story.state.active) == FaultWrites(node=1, pods=1, events=2)
    for _ in range(5):
        clock.now += EVENT_INTERVAL + 1
        assert publisher.publish(story.state.active).total == 0
    clock.now += HEARTBEAT
    assert publisher.publish(story.state.active) == FaultWrites(node=1)
    story.observe(60.0, boot_id="boot-2")
    story.observe(900.0, boot_id="boot-2")
    assert publisher.publish(story.state.active) == FaultWrites(node=1)
    conditions = client.writes[-1][2]["status"]["conditions"]
    assert {condition["status"] for condition in conditions} == {"False"}


def test_a_flood_of_events_is_written_at_intervals(client: Recorder) -> None:
    clock, story = Clock(), hit(31)
    publisher = FaultPublisher(client, NODE, clock=clock)
    publisher.publish(story.state.active)
    writes = 0
    for _ in range(100):
        story.observe(events=xid(31, story.now + 1))
        clock.now += 1
        writes += publisher.publish(story.state.active).total
    assert writes <= 3 * (100 // EVENT_INTERVAL + 1)


@pytest.mark.parametrize("change", [
    {"spec": {"nodeName": "another"}}, {"status": {"startTime": "2033-01-01T00:00:00Z"}},
    {"status": {"conditions": [{"type": "zonewise.dev/HardwareFault", "status": "True"}]}},
])  # fmt: skip
def test_another_pod_with_the_same_name_is_not_changed(client: Recorder, change: dict[str, Any]) -> None:
    assert client.pod is not None
    client.pod |= change
    story = hit(94)
    assert FaultPublisher(client, NODE).publish(story.state.active).pods == 0


@pytest.mark.parametrize(("started", "count"), [(0.0, 1), (600.0, 0)])
def test_a_recreated_pod_is_affected_if_it_holds_the_device(client: Recorder, started: float, count: int) -> None:
    """A failed GPU affects each pod that starts on it, but no pod that started after the device was last held."""
    story, publisher = hit(), FaultPublisher(client, NODE, clock=Clock())
    publisher.publish(story.state.active)
    story.held = {}
    story.last(300)
    story.held = {FIRST_GPU: [POD]}
    story.last(60)
    start = datetime.fromtimestamp(story.now + started, UTC).isoformat()
    client.pod = {"metadata": {"uid": "2"}, "spec": {"nodeName": NODE}, "status": {"startTime": start}}
    assert publisher.publish(story.state.active).pods == count
    assert publisher.publish(story.state.active).pods == 0


def test_a_pod_that_may_not_be_changed_hides_no_fault_of_the_node(
    client: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example, an admission webhook rejects each change of the pod, or does not respond."""
    patch = client.patch

    def reject_pods(resource: Resource, name: str, body: Any, **more: Any) -> dict[str, Any]:
        if resource.plural == "pods":
            raise Forbidden(403, "Forbidden", "admission webhook denied the request")
        return patch(resource, name, body, **more)

    monkeypatch.setattr(client, "patch", reject_pods)
    story, publisher = hit(), FaultPublisher(client, NODE, taint=True)
    for _ in range(2):
        with pytest.raises(Forbidden):
            publisher.publish(story.state.active)
        assert [plural for plural, *_ in client.writes] == ["nodes", "nodes", "events", "events"]
    monkeypatch.undo()
    assert publisher.publish(story.state.active) == FaultWrites(pods=1)


def test_a_deleted_pod_is_not_a_failure(client: Recorder) -> None:
    client.pod = None
    assert FaultPublisher(client, NODE).publish(hit().state.active) == FaultWrites(node=1, pods=0, events=2)


def test_the_taint_is_optional(client: Recorder) -> None:
    story = hit()
    FaultPublisher(client, NODE).publish(story.state.active)
    assert not any("spec" in body for _, _, body in client.writes)
    publisher = FaultPublisher(client, NODE, taint=True)
    publisher.publish(story.state.active)
    assert [taint["key"] for taint in client.taints] == ["a", "zonewise.dev/hardware-fault"]
    assert publisher.publish(story.state.active).total == 0
    publisher.publish(())
    assert [taint["key"] for taint in client.taints] == ["a"]
    assert client.writes[-1][2]["metadata"] == {"resourceVersion": "7"}
    FaultPublisher(client, NODE, taint=True).publish(())
    assert client.writes[-1][1] == "status"  # there was no taint to remove


def test_the_taint_is_removed_once_the_setting_is_off(client: Recorder) -> None:
    story = hit()
    FaultPublisher(client, NODE, taint=True).publish(story.state.active)
    assert len(client.taints) == 2
    publisher = FaultPublisher(client, NODE)
    assert publisher.publish(story.state.active).node == 2
    assert [taint["key"] for taint in client.taints] == ["a"]
    assert publisher.publish(story.state.active).total == 0


def test_a_taint_that_cannot_be_removed_does_not_stop_other_writes(
    client: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = hit()
    FaultPublisher(client, NODE, taint=True).publish(story.state.active)
    patch = client.patch

    def reject_taints(resource: Resource, name: str, body: Any, **more: Any) -> dict[str, Any]:
        if "spec" in body:
            raise Forbidden(403, "Forbidden", "the right was removed with the component")
        return patch(resource, name, body, **more)

    monkeypatch.setattr(client, "patch", reject_taints)
    assert FaultPublisher(client, NODE).publish(story.state.active).node == 1
    assert len(client.taints) == 2


def test_a_taint_that_another_client_removed_is_back_at_the_next_heartbeat(client: Recorder) -> None:
    clock, story = Clock(), hit()
    publisher = FaultPublisher(client, NODE, taint=True, clock=clock)
    publisher.publish(story.state.active)
    client.taints = []  # as with a Node that was deleted and registered again
    clock.now += HEARTBEAT
    assert publisher.publish(story.state.active) == FaultWrites(node=2)
    assert [taint["key"] for taint in client.taints] == ["zonewise.dev/hardware-fault"]


def test_a_taint_that_could_not_be_written_is_retried(client: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    publisher, story = FaultPublisher(client, NODE, taint=True, clock=Clock()), hit()
    patch = client.patch

    def reject_taints(resource: Resource, name: str, body: Any, **more: Any) -> dict[str, Any]:
        if "spec" in body:
            raise Conflict(409, "Conflict", "the Node has changed")
        return patch(resource, name, body, **more)

    monkeypatch.setattr(client, "patch", reject_taints)
    with pytest.raises(Conflict):
        publisher.publish(story.state.active)
    monkeypatch.undo()
    assert publisher.publish(story.state.active).node == 1
    assert "zonewise.dev/hardware-fault" in {taint["key"] for taint in client.taints}


def test_conditions_whose_response_was_lost_return_to_false(client: Recorder) -> None:
    publisher = FaultPublisher(client, NODE, clock=Clock())
    publisher.publish(())
    story = Story()
    story.observe(events=xid(79, story.now + 1))
    with lost_answers(client):
        publisher.publish(story.state.active)
    publisher.publish(())
    kind, _, body = client.writes[-1]
    assert kind == "nodes"
    assert {condition["status"] for condition in body["status"]["conditions"]} == {"False"}

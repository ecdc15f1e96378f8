"""Writing the status of NodeFeatureGroups to an in-memory API server."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from support.api import Api
from support.rules import GROUP_CRD, GROUPS, group_object
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODE_FEATURE_GROUPS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.nodes.group_members import SETTLED, decode_group
from zonewise_scheduler.controller.nodes.types import NodeHealth, TrackedNode
from zonewise_scheduler.controller.writing.group_status_writer import GroupStatusWriter
from zonewise_scheduler.controller.writing.outcome import attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pytest

    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def node(name: str, *groups: str) -> TrackedNode:
    return TrackedNode(name, "{}", NodeHealth(True, 0.0), name, frozenset(groups))


@contextmanager
def connected() -> Generator[tuple[Api, Client]]:
    """Yield an API client and a controller client of a server that serves groups."""
    with ApiServer() as server, closing(Api(server.url)) as api, closing(Client(server.client_config())) as client:
        api.post(CRDS, GROUP_CRD).ok()
        yield api, client


@contextmanager
def writing(
    attempts: list[str], may_write: Callable[[], bool] = lambda: True
) -> Generator[tuple[Api, GroupStatusWriter]]:
    """Yield a writer that observes the groups of a server, with an API client."""

    def count(_write: Write, outcome: Outcome) -> None:
        attempts.append(outcome.result)

    with (
        connected() as (api, client),
        GroupStatusWriter(client, count, may_write=may_write, settled=0.05) as writer,
        closing(Reflector(client, NODE_FEATURE_GROUPS, decode_group, writer.observe_group)) as reflector,
    ):
        reflector.start()
        yield api, writer


def members(api: Api, name: str = "g") -> list[str]:
    status: dict[str, Any] = api.get(f"{GROUPS}/{name}").ok().get("status", {})
    return [entry["name"] for entry in status.get("nodes", ())]


def test_nodes_are_added_and_removed_in_one_write_each() -> None:
    attempts: list[str] = []
    with writing(attempts) as (api, writer):
        api.post(GROUPS, group_object(name="g")).ok()
        for name in ("b", "a", "c"):
            writer.observe_node(name, node(name, "default/g"))
        eventually(lambda: attempts == ["done"])
        assert members(api) == ["a", "b", "c"]
        writer.observe_node("b", None)
        writer.observe_node("c", node("c"))
        eventually(lambda: members(api) == ["a"])


def test_a_status_that_another_program_edits_is_repaired() -> None:
    attempts: list[str] = []
    with writing(attempts) as (api, writer):
        api.post(GROUPS, group_object(name="g")).ok()
        writer.observe_node("a", node("a"))
        api.patch(f"{GROUPS}/g/status", {"status": {"nodes": [{"name": "gone"}]}}).ok()
        eventually(lambda: members(api) == [])


def test_a_response_that_cannot_be_read_is_a_failure_and_the_write_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """For example, a proxy may respond with anything."""
    package = "zonewise_scheduler.controller.writing"
    attempts: list[str] = []

    def fail_first(client: Client, write: Write) -> Outcome:
        if not attempts:
            raise AttributeError("of this test")
        return attempt(client, write)

    monkeypatch.setattr(f"{package}.outcome.attempt", fail_first)
    monkeypatch.setattr(f"{package}.group_status_writer.RETRY", 0.01)
    with writing(attempts) as (api, writer):
        api.post(GROUPS, group_object(name="g")).ok()
        writer.observe_node("a", node("a", "default/g"))
        eventually(lambda: attempts == ["rejected", "done"])


def test_a_replica_that_may_not_write_checks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zonewise_scheduler.controller.writing.group_status_writer.RETRY", 0.01)
    asked: list[None] = []

    def may_write() -> bool:
        asked.append(None)
        return len(asked) > 2

    attempts: list[str] = []
    with writing(attempts, may_write) as (api, writer):
        api.post(GROUPS, group_object(name="g")).ok()
        writer.observe_node("a", node("a", "default/g"))
        eventually(lambda: members(api) == ["a"])
    assert len(asked) == 3


def test_a_failed_write_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program writes between the last observation and the write, so the version is stale."""
    monkeypatch.setattr("zonewise_scheduler.controller.writing.group_status_writer.RETRY", 0.01)
    attempts: list[str] = []
    with connected() as (api, client):
        api.post(GROUPS, group_object(name="g")).ok()
        listed, _ = client.list_raw(NODE_FEATURE_GROUPS, decode_group)
        api.patch(f"{GROUPS}/g", {"metadata": {"labels": {"a": "b"}}}).ok()

        def count(_write: Write, outcome: Outcome) -> None:
            attempts.append(outcome.result)

        with GroupStatusWriter(client, count, may_write=lambda: True, settled=0.0) as writer:
            writer.observe_group(None, listed[0])
            writer.observe_node("a", node("a", "default/g"))
            eventually(lambda: "stale" in attempts)
            newest, _ = client.list_raw(NODE_FEATURE_GROUPS, decode_group)
            writer.observe_group(listed[0], newest[0])
            eventually(lambda: members(api) == ["a"])


class Tasks:
    """A replacement for DelayedTasks whose tasks wait until the test executes them."""

    def __init__(self, work: Callable[[str], object], **_options: Any) -> None:
        self.work = work
        self.submitted: list[tuple[str, float]] = []

    def submit(self, task: str, delay: float = 0.0) -> None:
        self.submitted.append((task, delay))


def test_each_write_waits_for_the_time_that_agents_need_after_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Tasks] = []

    def tasks(work: Callable[[str], object], **options: Any) -> Tasks:
        made.append(Tasks(work, **options))
        return made[-1]

    monkeypatch.setattr("zonewise_scheduler.controller.writing.group_status_writer.DelayedTasks", tasks)
    monkeypatch.setattr("zonewise_scheduler.controller.nodes.group_members.SECONDS_PER_NODE", 1000.0)
    with connected() as (api, client):
        api.post(GROUPS, group_object(name="g")).ok()

        def observe() -> None:
            listed, _ = client.list_raw(NODE_FEATURE_GROUPS, decode_group)
            writer.observe_group(None, listed[0])

        writer = GroupStatusWriter(client, lambda _write, _outcome: None, may_write=lambda: True)
        [delayed] = made
        observe()
        for name in "abc":
            writer.observe_node(name, node(name, "default/g"))
        assert delayed.submitted == [("default/g", SETTLED)]
        delayed.work("default/g")
        assert members(api) == ["a", "b", "c"]
        observe()
        assert len(delayed.submitted) == 1
        writer.observe_node("d", node("d", "default/g"))
        [_, (_, delay)] = delayed.submitted
        assert 3000 < delay <= 4000

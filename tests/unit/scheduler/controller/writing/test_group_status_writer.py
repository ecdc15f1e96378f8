"""Writing the status of NodeFeatureGroups to an API server in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from support.api import Api
from support.rules import GROUP_CRD, GROUPS, group_object
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODE_FEATURE_GROUPS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.controller.nodes.group_members import decode_group
from zonewise_scheduler.controller.nodes.types import NodeHealth, TrackedNode
from zonewise_scheduler.controller.writing.group_status_writer import GroupStatusWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    import pytest

    from zonewise_scheduler.controller.types import Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def node(name: str, *groups: str) -> TrackedNode:
    return TrackedNode(name, "{}", NodeHealth(True, 0.0), name, frozenset(groups))


@contextmanager
def writing(
    attempts: list[str], may_write: Callable[[], bool] = lambda: True
) -> Generator[tuple[Api, GroupStatusWriter]]:
    """A writer that observes the groups of a server."""

    def count(_write: Write, outcome: Outcome) -> None:
        attempts.append(outcome.result)

    with ApiServer() as server:
        api, client = Api(server.url), Client(server.client_config())
        api.post(CRDS, GROUP_CRD).ok()
        with GroupStatusWriter(client, count, may_write=may_write, settled=0.05) as writer:
            reflector = Reflector(client, NODE_FEATURE_GROUPS, decode_group, writer.observe_group)
            reflector.start()
            yield api, writer
            reflector.close()


def members(api: Api, name: str = "g") -> list[str]:
    status: dict[str, Any] = api.get(f"{GROUPS}/{name}").ok().get("status", {})
    return [entry["name"] for entry in status.get("nodes", ())]


def test_nodes_come_and_go_in_one_write_each_time() -> None:
    attempts: list[str] = []
    with writing(attempts) as (api, writer):
        api.post(GROUPS, group_object(name="g")).ok()
        for name in ("b", "a", "c"):
            writer.observe_node(name, node(name, "default/g"))
        eventually(lambda: members(api) == ["a", "b", "c"])
        assert attempts == ["done"]
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


def test_a_replica_that_may_not_write_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Another program writes between the last observation and the write: the version is stale."""
    monkeypatch.setattr("zonewise_scheduler.controller.writing.group_status_writer.RETRY", 0.01)
    attempts: list[str] = []
    with ApiServer() as server:
        api, client = Api(server.url), Client(server.client_config())
        api.post(CRDS, GROUP_CRD).ok()
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

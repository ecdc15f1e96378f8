"""Publishing the NodeResourceTopology to the embedded API server: what is sent, and what is there afterwards."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.clock import Clock
from zonewise.publish.nrt_publisher import FIELD_MANAGER, VERIFY_EVERY, NrtPublisher
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.errors import TransportError
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.kube.resources import Resource

CRD = Path(__file__).parents[4] / "manifests" / "base" / "noderesourcetopologies.yaml"
NODE = "n1"


def topology(*available: int) -> dict[str, Any]:
    """An object with a zone for each number of CPUs."""
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [{"name": "cpu", "capacity": "16", "allocatable": "16", "available": str(free)}],
        }
        for number, free in enumerate(available)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": NODE},
        "attributes": [{"name": "topologyManagerPolicy", "value": "none"}],
        "zones": zones,
    }


LOOK = ["get nodes", "get noderesourcetopologies"]


class Counting:
    """A client that records what it sends, and fails on demand."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: list[str] = []
        self.broken = False

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        self._note(f"get {resource.plural}")
        return self.client.get(resource, name)

    def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        self._note("apply")
        return self.client.apply(resource, obj, field_manager=field_manager)

    def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, field_manager: str
    ) -> dict[str, Any]:
        self._note("patch")
        return self.client.patch(resource, name, patch, kind=kind, field_manager=field_manager)

    def _note(self, what: str) -> None:
        if self.broken:
            raise TransportError("refused")
        self.sent.append(what)


class Stage:
    """A server with a Node, a client, and a publisher."""

    def __init__(self, server: ApiServer) -> None:
        self.client = Client(server.client_config())
        self.counting = Counting(self.client)
        self.clock = Clock()
        self.node = self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.publisher = self.restarted()

    def restarted(self) -> NrtPublisher:
        return NrtPublisher(self.counting, clock=self.clock)

    def current(self) -> dict[str, Any]:
        return self.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)

    def sends(self, desired: dict[str, Any]) -> list[str]:
        """Publish, check what is there, and return what was sent."""
        self.counting.sent.clear()
        self.publisher.publish(desired)
        there = self.current()
        assert {name: there[name] for name in ("attributes", "zones")} == {
            name: desired[name] for name in ("attributes", "zones")
        }
        return list(self.counting.sent)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with ApiServer(crds=[CRD]) as server:
        stage_on_server = Stage(server)
        yield stage_on_server
        stage_on_server.client.close()


def test_first_whole_then_the_change_then_nothing(stage: Stage) -> None:
    """The object is applied once; a change is a patch, equality is no request at all."""
    assert stage.sends(topology(16, 16)) == [*LOOK, "apply", LOOK[1]]
    assert stage.sends(topology(16, 12)) == ["patch"]
    assert stage.sends(topology(16, 12)) == []
    assert stage.sends(topology(16)) == ["patch"]


def test_what_a_patch_weighs(stage: Stage) -> None:
    """A patch holds the change and the test of the version, and nothing else."""
    assert stage.publisher.publish(topology(16, 16)).operation == "apply"
    written = stage.publisher.publish(topology(16, 12))
    assert (written.operation, written.bytes < 200) == ("patch", True)


def test_owned_by_its_node(stage: Stage) -> None:
    """The Node owns the object, which goes when the Node goes; a new Node of the old name is found in ten minutes."""
    stage.publisher.publish(topology(16))
    (owner,) = stage.current()["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": stage.node["metadata"]["uid"]}
    stage.client.delete(NODES, NODE)
    new = stage.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    stage.clock.advance(VERIFY_EVERY)
    stage.publisher.publish(topology(16))
    assert stage.current()["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]


def test_without_a_node(stage: Stage) -> None:
    """Where there is no Node yet, the object is published without an owner."""
    stage.client.delete(NODES, NODE)
    stage.publisher.publish(topology(16))
    assert "ownerReferences" not in stage.current()["metadata"]


def test_a_restart_writes_nothing_new(stage: Stage) -> None:
    """After a restart the server's copy is read, and only what differs is written."""
    stage.sends(topology(16, 12))
    stage.sends(topology(16, 10))
    before = stage.current()["metadata"]["resourceVersion"]
    stage.publisher = stage.restarted()
    assert stage.sends(topology(16, 10)) == LOOK
    assert stage.current()["metadata"]["resourceVersion"] == before
    stage.publisher = stage.restarted()
    assert stage.sends(topology(16, 9)) == [*LOOK, "patch"]


def test_other_owners_stay(stage: Stage) -> None:
    """Other owners stay; the entry of a deleted Node does not."""
    deleted_node = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "gone"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    desired = topology(16)
    desired["metadata"]["ownerReferences"] = [config_map, deleted_node]
    stage.client.create(NODE_RESOURCE_TOPOLOGIES, desired)
    stage.sends(topology(16))
    owners = stage.current()["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["y", stage.node["metadata"]["uid"]]


def test_changed_by_another_client(stage: Stage) -> None:
    """A patch is never applied to a copy it was not made for: the copy is read, and ours wins."""
    stage.publisher.publish(topology(16, 16))
    stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, {"zones": []}, kind=PatchKind.MERGE)
    assert stage.sends(topology(16, 12)) == ["patch", LOOK[1], "patch"]


def test_removed_by_another_client(stage: Stage) -> None:
    """A removed object is created again, at the next change or in ten minutes."""
    stage.publisher.publish(topology(16))
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    assert stage.sends(topology(12)) == ["patch", LOOK[1], "apply", LOOK[1]]
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    stage.clock.advance(VERIFY_EVERY)
    assert stage.sends(topology(12)) == [*LOOK, "apply", LOOK[1]]


def test_labels_and_annotations_of_others_stay(stage: Stage) -> None:
    """What others have put on the object is not ours to remove."""
    stage.publisher.publish(topology(16))
    change = {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}}
    stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, change, kind=PatchKind.MERGE)
    stage.sends(topology(12))
    metadata = stage.current()["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"team": "x"}, {"note": "y"})


def test_the_manager_is_named(stage: Stage) -> None:
    """The server records the field manager."""
    stage.sends(topology(16))
    stage.sends(topology(12))
    assert {entry["manager"] for entry in stage.current()["metadata"]["managedFields"]} == {FIELD_MANAGER}


STEPS = st.lists(
    st.tuples(st.sampled_from(["publish", "fail", "foreign", "delete", "restart", "time"]), st.integers(0, 3)),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_whatever_happens_the_last_publish_is_there(stage: Stage, steps: list[tuple[str, int]]) -> None:
    """Outages, foreign writes, removals and restarts in any order: after a publish that worked, ours is there."""
    stage.publisher = stage.restarted()
    for step, number in steps:
        if step == "foreign" and stage.publisher.publish(topology(1)):
            stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, {"attributes": []}, kind=PatchKind.MERGE)
        elif step == "delete":
            stage.clock.advance(VERIFY_EVERY)
            stage.publisher.publish(topology(2))
            stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
        elif step == "restart":
            stage.publisher = stage.restarted()
        elif step == "time":
            stage.clock.advance(VERIFY_EVERY)
        elif step == "fail":
            stage.counting.broken = True
            with pytest.raises(TransportError):
                NrtPublisher(stage.counting, clock=stage.clock).publish(topology(number))
            stage.counting.broken = False
        else:
            stage.sends(topology(number, 16))
    stage.sends(copy.deepcopy(topology(7, 7)))

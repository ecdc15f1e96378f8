"""Publishing the NodeResourceTopology to the embedded API server: the requests, and the resulting object."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.clock import Clock
from zonewise.publish.nrt_publisher import (
    DELETED,
    EDITED,
    FIELD_MANAGER,
    UNWATCHED_AFTER,
    VERIFY_EVERY,
    ForeignChange,
    NrtPublisher,
)
from zonewise.publish.object_watch import NEVER_OBSERVED, Observation
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.errors import NotFound, TransportError
from zonewise_common.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_common.kube.resources import Resource

CRD = Path(__file__).parents[4] / "manifests" / "base" / "noderesourcetopologies.yaml"
NODE = "n1"


def topology(*available: int) -> dict[str, Any]:
    """Return an object with one zone per number of CPUs."""
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
    """A client that records its requests and fails on demand."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.sent: list[str] = []
        self.broken = False
        self.after_apply: Callable[[], object] = lambda: None

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        self._note(f"get {resource.plural}")
        return self.client.get(resource, name)

    def apply(self, resource: Resource, obj: dict[str, Any], *, field_manager: str) -> dict[str, Any]:
        self._note("apply")
        applied = self.client.apply(resource, obj, field_manager=field_manager)
        self.after_apply()
        return applied

    def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, field_manager: str
    ) -> dict[str, Any]:
        self._note("patch")
        return self.client.patch(resource, name, patch, kind=kind, field_manager=field_manager)

    def _note(self, what: str) -> None:
        if self.broken:
            raise TransportError("refused")
        self.sent.append(what)


class FakeWatch:
    """A watch whose observation the test sets."""

    def __init__(self) -> None:
        self.observation = NEVER_OBSERVED
        self.age = math.inf


class Stage:
    """A server with a Node, a client and a publisher."""

    def __init__(self, server: ApiServer) -> None:
        self.client = Client(server.client_config())
        self.counting = Counting(self.client)
        self.clock = Clock()
        self.node = self.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        self.publisher = self.restarted()

    def restarted(self) -> NrtPublisher:
        self.watch = FakeWatch()
        return NrtPublisher(self.counting, self.watch, clock=self.clock)

    def observe(self) -> None:
        """Let the watch observe the current object."""
        try:
            version = int(self.current()["metadata"]["resourceVersion"])
        except NotFound:
            version = None
        self.watch.observation, self.watch.age = Observation(version), 0.0

    def current(self) -> dict[str, Any]:
        return self.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)

    def sends(self, desired: dict[str, Any]) -> list[str]:
        """Publish, check the resulting object, and return the requests."""
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


def test_first_the_whole_object_then_changes_then_nothing(stage: Stage) -> None:
    """The object is applied once, and a change is a patch; without a change, there is no request."""
    assert stage.sends(topology(16, 16)) == [*LOOK, "apply"]
    assert stage.sends(topology(16, 12)) == ["patch"]
    assert stage.sends(topology(16, 12)) == []
    assert stage.sends(topology(16)) == ["patch"]


def test_the_size_of_a_patch(stage: Stage) -> None:
    """A patch contains only the change and the test of the version."""
    assert stage.publisher.publish(topology(16, 16)).operation == "apply"
    written = stage.publisher.publish(topology(16, 12))
    assert (written.operation, written.bytes < 200) == ("patch", True)


def test_owned_by_its_node(stage: Stage) -> None:
    """The object is deleted with its Node. A new Node with the old name is noticed within ten minutes."""
    stage.publisher.publish(topology(16))
    (owner,) = stage.current()["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": stage.node["metadata"]["uid"]}
    stage.client.delete(NODES, NODE)
    new = stage.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    stage.clock.advance(VERIFY_EVERY)
    stage.publisher.publish(topology(16))
    assert stage.current()["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]


def test_without_a_node(stage: Stage) -> None:
    """If the Node does not exist yet, the object is published without an owner."""
    stage.client.delete(NODES, NODE)
    stage.publisher.publish(topology(16))
    assert "ownerReferences" not in stage.current()["metadata"]


def test_a_restart_writes_nothing_new(stage: Stage) -> None:
    """After a restart, the server's copy is read, and only differences are written."""
    stage.sends(topology(16, 12))
    stage.sends(topology(16, 10))
    before = stage.current()["metadata"]["resourceVersion"]
    stage.publisher = stage.restarted()
    assert stage.sends(topology(16, 10)) == LOOK
    assert stage.current()["metadata"]["resourceVersion"] == before
    stage.publisher = stage.restarted()
    assert stage.sends(topology(16, 9)) == [*LOOK, "patch"]


def test_other_owners_remain(stage: Stage) -> None:
    """Only the entry of a deleted Node is removed."""
    deleted_node = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": "gone"}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    desired = topology(16)
    desired["metadata"]["ownerReferences"] = [config_map, deleted_node]
    stage.client.create(NODE_RESOURCE_TOPOLOGIES, desired)
    stage.sends(topology(16))
    owners = stage.current()["metadata"]["ownerReferences"]
    assert [owner["uid"] for owner in owners] == ["y", stage.node["metadata"]["uid"]]


def test_changed_by_another_client(stage: Stage) -> None:
    """A patch applies only to the copy for which it was made.

    The new copy is read, and the agent's values take precedence.
    """
    stage.publisher.publish(topology(16, 16))
    stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, {"zones": []}, kind=PatchKind.MERGE)
    assert stage.sends(topology(16, 12)) == ["patch", LOOK[1], "patch"]


def test_removed_by_another_client(stage: Stage) -> None:
    """A removed object is created again at the next change, or within ten minutes."""
    stage.publisher.publish(topology(16))
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    assert stage.sends(topology(12)) == ["patch", LOOK[1], LOOK[0], "apply"]
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    stage.clock.advance(VERIFY_EVERY)
    assert stage.sends(topology(12)) == [*LOOK, "apply"]


def test_labels_and_annotations_of_others_remain(stage: Stage) -> None:
    """The agent does not remove metadata that others have set on the object."""
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


# --- with a watch of the object


def edit(stage: Stage, change: dict[str, Any], manager: str = "kubectl-edit") -> None:
    stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, change, kind=PatchKind.MERGE, field_manager=manager)
    stage.observe()


def test_an_observed_edit_is_undone(stage: Stage) -> None:
    """The copy is read and patched; the result names the cause and the manager."""
    stage.publisher.publish(topology(16))
    edit(stage, {"zones": []})
    result = stage.publisher.publish(topology(16))
    assert result.repaired == ForeignChange(EDITED, "kubectl-edit")
    assert result.operation == "patch"
    stage.observe()
    assert stage.sends(topology(16)) == []


def test_an_observed_deletion_is_undone(stage: Stage) -> None:
    """The Node is read first, since the object of a deleted Node must not return."""
    stage.publisher.publish(topology(16))
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    stage.observe()
    assert stage.publisher.publish(topology(16)).repaired == ForeignChange(DELETED)
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    stage.observe()
    assert stage.sends(topology(16)) == [LOOK[1], LOOK[0], "apply"]


def test_an_observed_deletion_is_undone_although_the_first_read_fails(stage: Stage) -> None:
    """The watch observes the deletion only once, and later observations may never come."""
    stage.sends(topology(16))
    stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
    stage.observe()
    stage.counting.broken = True
    with pytest.raises(TransportError):
        stage.publisher.publish(topology(16))
    stage.counting.broken = False
    assert stage.sends(topology(16)) == [*reversed(LOOK), "apply"]


def test_an_edit_right_after_the_apply_is_a_foreign_change(stage: Stage) -> None:
    """The next call undoes and reports it."""
    stage.counting.after_apply = lambda: edit(stage, {"zones": []})
    assert stage.publisher.publish(topology(16)).operation == "apply"
    assert stage.publisher.publish(topology(16)).repaired == ForeignChange(EDITED, "kubectl-edit")


def test_own_writes_are_not_foreign_changes(stage: Stage) -> None:
    """Their events may arrive before the next write or long after it."""
    stage.publisher.publish(topology(16))
    stage.observe()
    first = stage.watch.observation
    assert stage.sends(topology(15)) == ["patch"]
    assert stage.sends(topology(15)) == []
    stage.observe()
    assert stage.sends(topology(15)) == []
    stage.watch.observation = Observation(first.version)
    assert stage.sends(topology(15)) == []


def test_fields_of_others_are_not_undone(stage: Stage) -> None:
    """A label of another client causes one request, but no write."""
    stage.publisher.publish(topology(16))
    edit(stage, {"metadata": {"labels": {"team": "x"}}})
    result = stage.publisher.publish(topology(16))
    assert (result.operation, result.repaired) == ("none", None)


def test_the_object_of_a_deleted_node_does_not_return(stage: Stage) -> None:
    """The garbage collector has removed it. For a new Node with the same name, it is published again."""
    stage.publisher.publish(topology(16))
    stage.client.delete(NODES, NODE)
    for _ in range(2):
        result = stage.publisher.publish(topology(15))
        assert (result.operation, result.age) == ("none", None)
        stage.observe()
    with pytest.raises(NotFound):
        stage.current()
    new = stage.client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    assert stage.publisher.publish(topology(15)).operation == "apply"
    assert stage.current()["metadata"]["ownerReferences"][0]["uid"] == new["metadata"]["uid"]


def test_the_age_of_the_observed_object(stage: Stage) -> None:
    """The age is 0 while the watch is current, otherwise the time since its last sign or the last response."""
    stage.publisher.publish(topology(16))
    stage.clock.advance(30)
    assert stage.publisher.publish(topology(16)).age == 30
    stage.observe()
    assert stage.publisher.publish(topology(16)).age == 0
    stage.clock.advance(200)
    stage.watch.age = 20.0
    assert stage.publisher.publish(topology(16)).age == 20
    assert stage.publisher.publish(topology(15)).age == 0


def test_without_a_watch_the_copy_is_read_once_a_minute(stage: Stage) -> None:
    """Otherwise, an edit would last for ten minutes if the agent may not watch."""
    stage.publisher.publish(topology(16))
    stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, {"zones": []}, kind=PatchKind.MERGE)
    stage.clock.advance(UNWATCHED_AFTER - 1)
    assert stage.publisher.publish(topology(16)).operation == "none"
    stage.clock.advance(1)
    assert stage.publisher.publish(topology(16)).repaired == ForeignChange(EDITED, "zonewise")
    stage.clock.advance(UNWATCHED_AFTER)
    stage.watch.age = 0.0
    assert stage.sends(topology(16)) == []


@pytest.mark.parametrize("manager", ["nfd-topology-updater", "resource-topology-exporter"])
def test_an_object_of_another_updater_is_taken_over(stage: Stage, manager: str) -> None:
    """NFD's and RTE's objects have the same name. Their attributes and zones are replaced, even after another write."""
    theirs: dict[str, Any] = topology(1, 2) | {"topologyPolicies": ["SingleNUMANodePodLevel"]}
    stage.client.apply(NODE_RESOURCE_TOPOLOGIES, theirs, field_manager=manager)
    assert stage.sends(topology(16, 16)) == [*LOOK, "patch"]
    edit(stage, {"zones": theirs["zones"]}, manager)
    assert stage.publisher.publish(topology(16, 16)).repaired == ForeignChange(EDITED, manager)
    assert stage.current()["zones"] == topology(16, 16)["zones"]


def test_a_kind_that_is_removed_and_restored(stage: Stage) -> None:
    """While it is not served, publishing fails. Then the object is created again, and the deletion is counted once."""
    stage.publisher.publish(topology(16))
    [crd] = stage.client.list(CUSTOM_RESOURCE_DEFINITIONS).items
    stage.client.delete(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"])
    stage.watch.observation = Observation(None)
    for _ in range(2):
        with pytest.raises(NotFound):
            stage.publisher.publish(topology(16))
    crd["metadata"] = {"name": crd["metadata"]["name"], "annotations": crd["metadata"].get("annotations", {})}
    stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    assert stage.publisher.publish(topology(16)).repaired == ForeignChange(DELETED)
    assert stage.publisher.publish(topology(16)).repaired is None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["publish", "fail", "foreign", "delete", "restart", "time", "edit", "vanish"]),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STEPS)
def test_the_last_publish_is_stored_whatever_happens(stage: Stage, steps: list[tuple[str, int]]) -> None:
    """For any outages, foreign writes, removals and restarts: after a successful publish, the object is the agent's."""
    stage.publisher = stage.restarted()
    for step, number in steps:
        if step == "foreign" and stage.publisher.publish(topology(1)):
            stage.client.patch(NODE_RESOURCE_TOPOLOGIES, NODE, {"attributes": []}, kind=PatchKind.MERGE)
        elif step == "delete":
            stage.clock.advance(VERIFY_EVERY)
            stage.publisher.publish(topology(2))
            stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
        elif step in {"edit", "vanish"} and stage.publisher.publish(topology(number, 16)):
            if step == "edit":
                edit(stage, {"zones": []})
            else:
                stage.client.delete(NODE_RESOURCE_TOPOLOGIES, NODE)
                stage.observe()
            stage.sends(topology(number, 16))
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

"""Publishing labels to embedded and real API servers: rejections, merges, and owners of labels."""

from __future__ import annotations

import secrets
import time
from contextlib import closing
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import RealServer, real_server
from support.clock import Clock
from support.definitions import definition_of
from support.waiting import PATIENCE, eventually, pause
from zonewise.objects.features import Features
from zonewise.objects.node_feature import object_name
from zonewise.publish.label_publisher import MASTER_TIMEOUT, LabelPublisher
from zonewise.publish.node_feature import LabelTarget
from zonewise.publish.node_labels import ANNOTATION
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import NotFound
from zonewise_common.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_FEATURES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["real_server"]

A, B = "zonewise.dev/a", "nvidia.com/b"
LABELS = {A: "1", B: "x"}
FEATURES = Features(
    {"cpu.cpuid": ("AVX", "SSE")},
    {"kernel.version": {"full": "6.1", "major": "6"}},
    {"pci.device": ({"class": "0302"}, {"class": "0207"})},
)

ELEMENTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}


def map_of(elements: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a map of features of one type, by name."""
    each = {"type": "object", "required": ["elements"], "properties": {"elements": elements}}
    return {"type": "object", "additionalProperties": each}


SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "labels": ELEMENTS,
        "features": {
            "type": "object",
            "required": ["attributes", "flags", "instances"],
            "properties": {
                "flags": map_of({"type": "object", "additionalProperties": {"type": "object"}}),
                "attributes": map_of(ELEMENTS),
                "instances": map_of(
                    {
                        "type": "array",
                        "items": {"type": "object", "required": ["attributes"], "properties": {"attributes": ELEMENTS}},
                    }
                ),
            },
        },
    },
}
DEFINITION = definition_of(
    f"{NODE_FEATURES.plural}.{NODE_FEATURES.group}",
    NODE_FEATURES.kind,
    NODE_FEATURES.version,
    {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}},
)


@pytest.fixture(params=["embedded", "real"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Yield a client of a server without NodeFeatures, which other tests may have left on the shared server."""
    if request.param == "embedded":
        with ApiServer() as server, closing(Client(server.client_config())) as connected:
            yield connected
        return
    real: RealServer = request.getfixturevalue("real_server")
    real.admin.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{DEFINITION['metadata']['name']}")
    eventually(
        lambda: real.admin.get(f"/apis/{NODE_FEATURES.group}/{NODE_FEATURES.version}").status == HTTPStatus.NOT_FOUND
    )
    with closing(Client(Config.from_url(real.url, real.token, ca=real.ca))) as connected:
        yield connected


@pytest.fixture
def node(client: Client) -> str:
    name = f"node-{secrets.token_hex(4)}"
    client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    return name


def test_labels_on_the_node(client: Client, node: str) -> None:
    """Labels are set, changed and removed without redundant writes; those of other managers remain, and are named."""
    publisher = LabelPublisher(client, LabelTarget(node), mode="node")
    assert publisher.publish(LABELS, FEATURES).writes == ("node",)
    current = client.get(NODES, node)["metadata"]
    assert current["labels"] == LABELS
    assert current["annotations"][ANNOTATION] == f"{B},{A}"

    restarted = LabelPublisher(client, LabelTarget(node), mode="node")
    assert restarted.publish(LABELS, FEATURES).writes == ()
    assert client.get(NODES, node)["metadata"]["resourceVersion"] == current["resourceVersion"]

    # for a Node, the server records managers only since the first apply
    theirs = {"metadata": {"name": node, "labels": {"nvidia.com/c": "theirs"}}}
    client.apply(NODES, theirs, field_manager="gfd")
    done = restarted.publish({A: "2", "nvidia.com/c": "ours"}, FEATURES)
    assert client.get(NODES, node)["metadata"]["labels"] == {A: "2", "nvidia.com/c": "theirs"}
    assert done.problems == ("label nvidia.com/c has the value 'theirs' of gfd, and is not set to 'ours'",)


def test_before_and_after_the_kind_is_served(client: Client, node: str) -> None:
    """Before, labels are on the Node; then an object is created, patched, and not changed without need."""
    target = LabelTarget(node, "default")
    assert LabelPublisher(client, target).publish(LABELS, FEATURES).writes == ("node",)

    client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
    try:
        _publish_as_object(client, target)
    finally:
        client.delete(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION["metadata"]["name"])


def _publish_as_object(client: Client, target: LabelTarget) -> None:
    clock = Clock()
    publisher = LabelPublisher(client, target, clock=clock)
    _until_served(publisher, clock)
    current = client.get(NODE_FEATURES, object_name(target.node), namespace=target.namespace)
    assert current["spec"]["labels"] == LABELS
    assert current["spec"]["features"]["flags"] == {"cpu.cpuid": {"elements": {"AVX": {}, "SSE": {}}}}
    assert current["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert client.get(NODES, target.node)["metadata"]["labels"] == LABELS

    assert LabelPublisher(client, target).publish(LABELS, FEATURES).writes == ()
    fewer = FEATURES._replace(instances={"pci.device": ({"class": "0302"},)})
    assert publisher.publish({A: "2"}, fewer).writes == ("nodefeature", "node")
    current = client.get(NODE_FEATURES, object_name(target.node), namespace=target.namespace)
    assert current["spec"]["labels"] == {A: "2"}
    assert current["spec"]["features"]["instances"]["pci.device"]["elements"] == [{"attributes": {"class": "0302"}}]
    assert client.get(NODES, target.node)["metadata"]["labels"] == {A: "2"}

    assert LabelPublisher(client, target, mode="node").publish({A: "2"}, fewer).writes == ()
    with pytest.raises(NotFound):
        client.get(NODE_FEATURES, object_name(target.node), namespace=target.namespace)


def _until_served(publisher: LabelPublisher, clock: Clock) -> None:
    """Publish until the server accepts the object, since it needs a moment to serve a new kind."""
    started = time.monotonic()
    while "nodefeature" not in publisher.publish(LABELS, FEATURES).writes:
        waited = time.monotonic() - started
        assert waited < PATIENCE
        pause(waited)
        clock.advance(MASTER_TIMEOUT)

"""Publishing rule outputs to an API server in memory: conflicts, verification and withdrawal."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import Clock
from support.lost_answers import lost_answers
from zonewise.publish.node_outputs import NodeOutputs, record_name
from zonewise.publish.output_publisher import VERIFY_INTERVAL, OutputPublisher
from zonewise.rules.types import Taint
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE = "node-1"
OUTPUTS = NodeOutputs({"x.io/a": "1"}, {"x.io/r": "2000"}, (Taint("x.io/t", "v", "NoSchedule"),))


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    server = ApiServer(0)
    server.start()
    yield server
    server.close()


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    with closing(Client(Config.from_url(server.url))) as client:
        client.create(NODES, {"metadata": {"name": NODE}})
        yield client
        client.delete(NODES, NODE)


def stored(client: Client) -> dict[str, Any]:
    return client.get(NODES, NODE)


def test_published_once_verified_later_and_repaired(client: Client) -> None:
    clock = Clock()
    publisher = OutputPublisher(client, NODE, "own", clock=clock)
    before = stored(client)
    assert publisher.publish(OUTPUTS).bytes > 0
    assert stored(client)["status"]["capacity"]["x.io/r"] in ("2k", "2000")
    client.patch(NODES, NODE, {"metadata": {"annotations": {"x.io/a": "edited"}}}, kind=PatchKind.MERGE)
    assert publisher.publish(OUTPUTS).bytes == 0
    clock.advance(VERIFY_INTERVAL)
    assert publisher.publish(OUTPUTS).bytes > 0
    assert stored(client)["metadata"]["annotations"]["x.io/a"] == "1"
    publisher.publish(NodeOutputs())
    after = stored(client)
    assert record_name("own") not in after["metadata"].get("annotations", {})
    assert after["spec"] == before["spec"]


def test_an_agent_without_rules_withdraws_earlier_outputs(client: Client) -> None:
    assert OutputPublisher(client, NODE, "own").withdraw() == 0
    OutputPublisher(client, NODE, "own").publish(OUTPUTS)
    assert OutputPublisher(client, NODE, "another").withdraw() == 0
    assert OutputPublisher(client, NODE, "own").withdraw() > 0
    assert "x.io/r" not in stored(client).get("status", {}).get("capacity", {})
    assert OutputPublisher(client, NODE, "own").withdraw() == 0


def test_a_taint_whose_response_was_lost_is_removed_with_its_rule(client: Client) -> None:
    publisher = OutputPublisher(client, NODE, "own", clock=Clock())
    publisher.publish(NodeOutputs())
    with lost_answers(client):
        publisher.publish(NodeOutputs(taints=OUTPUTS.taints))
    publisher.publish(NodeOutputs())
    assert "x.io/t" not in {taint["key"] for taint in stored(client).get("spec", {}).get("taints", [])}


def test_a_node_that_does_not_exist_has_nothing_to_withdraw(client: Client) -> None:
    assert OutputPublisher(client, "node-2", "own").withdraw() == 0


class _Interfering:
    """A client in which another client writes after each read, a given number of times."""

    def __init__(self, client: Client, times: int) -> None:
        self._client = client
        self._times = times

    def get(self, *args: Any, **fields: Any) -> dict[str, Any]:
        node = self._client.get(*args, **fields)
        if self._times:
            self._times -= 1
            change = {"metadata": {"annotations": {"other": str(self._times)}}}
            self._client.patch(NODES, NODE, change, kind=PatchKind.MERGE)
        return node

    def patch(self, *args: Any, **fields: Any) -> dict[str, Any]:
        return self._client.patch(*args, **fields)


def test_a_conflict_is_retried(client: Client) -> None:
    OutputPublisher(_Interfering(client, 2), NODE, "own").publish(OUTPUTS)
    annotations = stored(client)["metadata"]["annotations"]
    assert (annotations["other"], annotations["x.io/a"]) == ("0", "1")


def test_a_withdrawal_without_permission_leaves_the_outputs(client: Client) -> None:
    OutputPublisher(client, NODE, "own").publish(OUTPUTS)

    class _ReadOnly(_Interfering):
        def patch(self, *args: Any, **fields: Any) -> dict[str, Any]:
            raise Forbidden(403, "Forbidden", "no")

    assert OutputPublisher(_ReadOnly(client, 0), NODE, "own").withdraw() == 0
    assert stored(client)["metadata"]["annotations"]["x.io/a"] == "1"

"""The label by which a Node selects the configuration of its GPUs, and how often it is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.clock import Clock
from zonewise.daemon.node_config_name import CACHE_SECONDS, LABEL, RETRY_SECONDS, NodeConfigName
from zonewise_common.kube.errors import TransportError

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource


class Nodes:
    """An API server with one Node; its value is the Node's labels or an error."""

    def __init__(self, labels: dict[str, str] | Exception | None) -> None:
        self.labels = labels
        self.requests = 0

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        assert (resource.plural, name) == ("nodes", "node-1")
        self.requests += 1
        if isinstance(self.labels, Exception):
            raise self.labels
        return {"metadata": {} if self.labels is None else {"labels": self.labels}}


def test_the_label_is_requested_once_per_five_minutes() -> None:
    nodes, clock = Nodes({LABEL: "a100", "other": "x"}), Clock()
    name = NodeConfigName(nodes, "node-1", clock=clock)
    assert [name.get() for _ in range(3)] == ["a100"] * 3
    assert nodes.requests == 1
    nodes.labels = None
    clock.advance(CACHE_SECONDS)
    assert [name.get(), name.get()] == ["", ""]
    assert nodes.requests == 2


def test_an_outage_does_not_change_the_name() -> None:
    """Before the first response, the name is unknown; after it, the last one applies.

    Requests are rare during an outage.
    """
    nodes, clock = Nodes(TransportError("no route")), Clock()
    name = NodeConfigName(nodes, "node-1", clock=clock)
    assert [name.get(), name.get()] == [None, None]
    assert nodes.requests == 1
    nodes.labels = {LABEL: "h100"}
    clock.advance(RETRY_SECONDS)
    assert name.get() == "h100"
    nodes.labels = TransportError("no route")
    clock.advance(CACHE_SECONDS)
    assert [name.get(), name.get()] == ["h100", "h100"]
    assert nodes.requests == 3

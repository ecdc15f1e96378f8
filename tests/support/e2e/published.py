"""What the agent's own pieces make of a running node: all the way to the object, but for the daemon."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from support.e2e.kubelet import NODE
from support.e2e.truth import Stock, Truth, truth, unzoned
from zonewise.kubelet.config import parse_config
from zonewise.kubelet.model import KubeletReport
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise.kubelet.state import read_state
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover
from zonewise.report.nrt import machine_to_nrt
from zonewise.usage.account import NotReady, account
from zonewise.usage.model import Usage

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.node import Node
    from zonewise.kubelet.model import KubeletConfig
    from zonewise.machine.model.machine import Machine


class Observer(NamedTuple):
    """What asks a node."""

    node: Node
    machine: Machine
    client: PodResourcesClient
    config: KubeletConfig

    def report(self) -> KubeletReport:
        """Ask the kubelet and read its files."""
        state = read_state(str(self.node.kubelet.directory))
        assert state.problems == ()
        return KubeletReport(self.client.list(), self.client.allocatable(), self.config, state.files)

    def account(self) -> Usage | NotReady:
        """Account for all that the kubelet says now."""
        return account(self.machine, self.report())

    def usage(self) -> Usage:
        """Account for a kubelet that is ready and makes sense."""
        usage = self.account()
        assert isinstance(usage, Usage), usage
        assert usage.problems == ()
        return usage


@contextlib.contextmanager
def observing(node: Node) -> Generator[Observer]:
    """Observe a node whose kubelet runs."""
    client = PodResourcesClient(str(node.kubelet.podresources))
    with contextlib.closing(client):
        yield Observer(node, discover(open_root(str(node.root))), client, configuration_of(node))


def configuration_of(node: Node) -> KubeletConfig:
    """Read the configuration from the kubelet's own server."""
    document: dict[str, Any] = json.loads(node.kubelet.get("/configz"))["kubeletconfig"]
    return parse_config(document, place="/configz")


def assert_true(node: Node, usage: Usage) -> None:
    """Compare an account of a node, and the object made of it, with the kubelet's files."""
    compare(usage, truth(node), unzoned(node))
    published = machine_to_nrt(discover(open_root(str(node.root))), NODE, usage, configuration_of(node))
    told = {
        int(zone["name"].removeprefix("node-")): {
            resource["name"]: (int(resource["allocatable"]), int(resource["available"]))
            for resource in zone["resources"]
        }
        for zone in published["zones"]
        if zone["type"] == "Node"
    }
    assert told == {
        zone.zone: {name: (amount.allocatable, amount.available) for name, amount in zone.amounts.items()}
        for zone in usage.zones
    }


def compare(usage: Usage, zones: Truth, without_zone: dict[str, Stock]) -> None:
    """Compare an account with what is true; where a manager gives nothing away, all has to count as free."""
    assert [zone.zone for zone in usage.zones] == sorted(zones)
    for zone in usage.zones:
        known, told = zones[zone.zone], {name: Stock(*amount[1:]) for name, amount in zone.amounts.items()}
        rest = {name: stock for name, stock in told.items() if name not in known}
        assert _there(told) == _there(known | rest)
        assert all(stock.available == stock.allocatable for stock in rest.values())
    assert {name: Stock(*amount[1:]) for name, amount in usage.unzoned.items()} == without_zone


def _there(stocks: dict[str, Stock]) -> dict[str, Stock]:
    """Leave out what a zone never has."""
    return {name: stock for name, stock in stocks.items() if stock != Stock(0, 0)}

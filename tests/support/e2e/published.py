"""The results of the agent's components on a running node, up to the published object, without the agent's loop."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from support.e2e.kubelet import NODE
from support.e2e.truth import Stock, Truth, truth, unzoned
from zonewise.daemon.events import Reason
from zonewise.daemon.kubelet_poller import KubeletPoller, KubeletSources
from zonewise.daemon.metrics import AgentMetrics
from zonewise.kubelet.cgroups import PodCgroups
from zonewise.kubelet.config import parse_config
from zonewise.kubelet.config_source import ConfigReading
from zonewise.kubelet.errors import Unsettled
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise.kubelet.state import StateReader, device_checkpoint_path
from zonewise.kubelet.unreported_devices import UnreportedDevices
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise.usage.types import Usage

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.node import Node
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.types import KubeletConfig, KubeletReport
    from zonewise.machine.model.machine import Machine


class Observer(NamedTuple):
    """The components that observe a node."""

    node: Node
    machine: Machine
    client: PodResourcesClient
    kubelet: KubeletPoller
    config: KubeletConfig

    def report(self) -> KubeletReport:
        """Query the kubelet and read its files."""
        answer = self.kubelet.poll(frozenset({Reason.TIMER}))
        assert answer.problems == ()
        return answer.report

    def account(self) -> Usage | KubeletNotReady:
        """Compute the usage from everything the kubelet reports now."""
        try:
            return node_usage(self.machine, self.report())
        except Unsettled as error:
            return KubeletNotReady(str(error))

    def usage(self) -> Usage:
        """Compute the usage; fail if the kubelet is not ready or its report has problems."""
        usage = self.account()
        assert isinstance(usage, Usage), usage
        assert usage.problems == ()
        return usage


@contextlib.contextmanager
def observing(node: Node) -> Generator[Observer]:
    """Observe a node whose kubelet runs."""
    directory, socket = str(node.kubelet.directory), str(node.kubelet.podresources)
    client, config = PodResourcesClient(socket), configuration_of(node)
    sources = KubeletSources(
        client,
        StateReader(directory),
        cast("ConfigSource", _Configuration(config)),
        UnreportedDevices(device_checkpoint_path(directory), socket),
        PodCgroups(str(node.root)),
    )
    kubelet = KubeletPoller(sources, AgentMetrics())
    with contextlib.closing(kubelet):
        yield Observer(node, discover(open_root(str(node.root))), client, kubelet, config)


class _Configuration:
    """A configuration that never changes."""

    def __init__(self, config: KubeletConfig) -> None:
        self._config = config

    def read(self, *, refresh: bool) -> ConfigReading:
        del refresh
        return ConfigReading(self._config, None, "/configz")


def configuration_of(node: Node) -> KubeletConfig:
    """Read the configuration from the kubelet's own server."""
    document: dict[str, Any] = json.loads(node.kubelet.get("/configz"))["kubeletconfig"]
    return parse_config(document, origin="/configz")


def assert_true(node: Node, usage: Usage) -> None:
    """Compare the usage of a node, and the object made from it, with the kubelet's files."""
    compare(usage, truth(node), unzoned(node))
    published = machine_to_nrt(discover(open_root(str(node.root))), NODE, usage, configuration_of(node))
    published = {
        int(zone["name"].removeprefix("node-")): {
            resource["name"]: (int(resource["allocatable"]), int(resource["available"]))
            for resource in zone["resources"]
        }
        for zone in published["zones"]
        if zone["type"] == "Node"
    }
    assert published == {
        zone.zone: {name: (amount.allocatable, amount.available) for name, amount in zone.amounts.items()}
        for zone in usage.zones
    }


def compare(usage: Usage, zones: Truth, without_zone: dict[str, Stock]) -> None:
    """Compare a usage with the truth. Resources that a manager does not allocate must all count as free."""
    assert [zone.zone for zone in usage.zones] == sorted(zones)
    for zone in usage.zones:
        known, published = zones[zone.zone], {name: Stock(*amount[1:]) for name, amount in zone.amounts.items()}
        rest = {name: stock for name, stock in published.items() if name not in known}
        assert _there(published) == _there(known | rest)
        assert all(stock.available == stock.allocatable for stock in rest.values())
    assert {name: Stock(*amount[1:]) for name, amount in usage.unzoned.items()} == without_zone


def _there(stocks: dict[str, Stock]) -> dict[str, Stock]:
    """Return the stocks without resources that a zone never has."""
    return {name: stock for name, stock in stocks.items() if stock != Stock(0, 0)}

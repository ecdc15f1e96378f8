"""Discovery graded against node_exporter's output for the same files: every metric that matches one of our facts.

Each function below converts facts to metrics, for all devices that we found. A metric that only one side has is a
failure, like a different value.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import pytest

from support.snapshots import ABSENT, SNAPSHOTS
from zonewise.daemon.node_metrics import NodeMetrics
from zonewise.daemon.status import Snapshot
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Port

FIXTURES = SNAPSHOTS / "prometheus"
TREE = FIXTURES / "node_exporter-fixtures.tar.gz"
OUTPUTS = ("node_exporter-e2e-output.txt", "pcidevice-names-output.txt")

pytestmark = pytest.mark.skipif(not TREE.exists(), reason=ABSENT)

Labels = frozenset[tuple[str, str]]
Metrics = dict[tuple[str, Labels], float]

_LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def labels(**values: object) -> Labels:
    return frozenset((name, str(value)) for name, value in values.items())


@functools.cache
def printed(output: str) -> Metrics:
    """Return all metrics with labels in an output of node_exporter."""
    actual: Metrics = {}
    for line in (FIXTURES / output).read_text().splitlines():
        if match := _LINE.fullmatch(line):
            actual[match[1], frozenset(_LABEL.findall(match[2]))] = float(match[3])
    return actual


def expected_metrics(names: set[str], output: str = OUTPUTS[0], keep: frozenset[str] | None = None) -> Metrics:
    """Return the metrics with these names in node_exporter's output; `keep` restricts the labels."""
    return {
        (name, label if keep is None else frozenset(pair for pair in label if pair[0] in keep)): value
        for (name, label), value in printed(output).items()
        if name in names
    }


@functools.cache
def machine() -> Machine:
    return discover(open_root(str(TREE)))


def only(metrics: Metrics) -> set[str]:
    return {name for name, _ in metrics}


# --- InfiniBand

COUNTERS = {
    "link_downed": "link_downed_total",
    "link_error_recovery": "link_error_recovery_total",
    "multicast_rcv_packets": "multicast_packets_received_total",
    "multicast_xmit_packets": "multicast_packets_transmitted_total",
    "port_rcv_constraint_errors": "port_constraint_errors_received_total",
    "port_xmit_constraint_errors": "port_constraint_errors_transmitted_total",
    "port_rcv_discards": "port_discards_received_total",
    "port_xmit_discards": "port_discards_transmitted_total",
    "port_rcv_errors": "port_errors_received_total",
    "port_rcv_packets": "port_packets_received_total",
    "port_xmit_packets": "port_packets_transmitted_total",
    "port_xmit_wait": "port_transmit_wait_total",
    "unicast_rcv_packets": "unicast_packets_received_total",
    "unicast_xmit_packets": "unicast_packets_transmitted_total",
    "port_multicast_rcv_packets": "legacy_multicast_packets_received_total",
    "port_multicast_xmit_packets": "legacy_multicast_packets_transmitted_total",
    "port_unicast_rcv_packets": "legacy_unicast_packets_received_total",
    "port_unicast_xmit_packets": "legacy_unicast_packets_transmitted_total",
    "port_rcv_packets_64": "legacy_packets_received_total",
    "port_xmit_packets_64": "legacy_packets_transmitted_total",
}
DATA = {
    "port_rcv_data": "port_data_received_bytes_total",
    "port_xmit_data": "port_data_transmitted_bytes_total",
    "port_rcv_data_64": "legacy_data_received_bytes_total",
    "port_xmit_data_64": "legacy_data_transmitted_bytes_total",
}
WORD = 4  # bytes in each unit of a data counter
STATES = {"DOWN": 1, "INIT": 2, "ARMED": 3, "ACTIVE": 4, "ACTIVE_DEFER": 5}
PHYSICAL_STATES = {"Sleep": 1, "Polling": 2, "Disabled": 3, "Training": 4, "LinkUp": 5}


def infiniband_port(device: str, port: Port) -> Iterator[tuple[tuple[str, Labels], float]]:
    label = labels(device=device, port=port.number)
    for name, count in port.counters.items():
        title = DATA.get(name) or COUNTERS[name]
        yield (f"node_infiniband_{title}", label), count * (WORD if name in DATA else 1)
    if port.rate_gbps is not None:
        yield ("node_infiniband_rate_bytes_per_second", label), port.rate_gbps * 1e9 / 8
    yield ("node_infiniband_state_id", label), STATES[port.state or ""]
    yield ("node_infiniband_physical_state_id", label), PHYSICAL_STATES[port.physical_state or ""]


def test_infiniband_ports() -> None:
    """Compare states, rates and all counters of every port, including old 64-bit ones; "N/A (no PMA)" means none."""
    actual = {key: value for d in machine().infiniband for p in d.ports for key, value in infiniband_port(d.name, p)}
    every = {name for name, _ in printed(OUTPUTS[0]) if name.startswith("node_infiniband_")}
    assert actual == expected_metrics(every - {"node_infiniband_info"})


def test_infiniband_devices() -> None:
    """Compare board, firmware and type of every device."""
    actual = {
        (
            "node_infiniband_info",
            labels(device=d.name, board_id=d.board, firmware_version=d.firmware, hca_type=d.hca_type),
        ): 1.0
        for d in machine().infiniband
    }
    assert actual == expected_metrics({"node_infiniband_info"})


# --- exports of the agent itself


def exported(name: str) -> Metrics:
    """Return all samples of the agent's metrics whose names begin with `name`."""
    families = NodeMetrics(lambda: Snapshot("n", machine())).collect()
    samples = [sample for family in families for sample in family.samples]
    return {(s.name, labels(**s.labels)): s.value for s in samples if s.name.startswith(name)}


def test_exported_infiniband() -> None:
    """The agent's metrics of RDMA devices have node_exporter's names, labels and values."""
    actual = exported("node_infiniband_")
    assert actual == expected_metrics(only(actual))
    assert len(only(actual)) == 4


def test_exported_links() -> None:
    """The same holds for PCIe links of network devices and NVMe; the fixture's bridge is not an endpoint."""
    actual = exported("node_pcidevice_")
    every = expected_metrics(only(actual))
    bridge = labels(**address_labels("0000:00:02.1"))
    listed = {(name, label): value for (name, label), value in every.items() if label != bridge}
    assert {key: actual[key] for key in listed} == listed
    assert len(listed) == 2 * 4


# --- netdevs

LINK_TYPES = {"Ethernet": 1, "InfiniBand": 32}
LEFT_OUT = {"dmz", "int"}  # excluded by the options of node_exporter
NOT_IN_CLASS = {"ens10f0"}  # the fixture has it only below its PCI function, not in the class; we read both


def test_netdevs() -> None:
    """Compare address, state, MTU, link type and speed of every netdev; a speed of -1 means none."""
    actual: Metrics = {}
    for nic in machine().nics:
        if nic.name in LEFT_OUT | NOT_IN_CLASS:
            continue
        label = labels(device=nic.name)
        actual["node_network_info", labels(device=nic.name, address=nic.mac, operstate=nic.state)] = 1.0
        actual["node_network_mtu_bytes", label] = float(nic.mtu or 0)
        actual["node_network_protocol_type", label] = float(LINK_TYPES[nic.link_layer or ""])
        actual["node_network_up", label] = float(nic.state == "up")
        if nic.speed_mbps is not None:
            actual["node_network_speed_bytes", label] = nic.speed_mbps * 1e6 / 8
    assert actual == expected_metrics(only(actual), keep=frozenset({"device", "address", "operstate"}))


def test_bonds() -> None:
    """Compare the ports of every bond."""
    actual = {
        ("node_bonding_slaves", labels(master=nic.name)): float(len(nic.lower))
        for nic in machine().nics
        if nic.kind == "bond"
    }
    assert actual == expected_metrics({"node_bonding_slaves"})


# --- PCI functions

ADDRESS_PARTS = ("segment", "bus", "device", "function")


def address_labels(address: str | None, prefix: str = "") -> dict[str, str]:
    parts = re.split("[:.]", address) if address is not None else ["*"] * len(ADDRESS_PARTS)
    return {f"{prefix}{name}": part for name, part in zip(ADDRESS_PARTS, parts, strict=True)}


# the fixture contains directories of bridges that it does not list on the bus
LISTED = ("0000:00:02.1", "0000:01:00.0", "0000:45:00.0")


def pci_metrics() -> Iterator[tuple[str, Labels, float | None]]:
    for function in machine().pci:
        if function.address not in LISTED:
            continue
        label = labels(**address_labels(function.address))
        ids = {
            "class_id": function.class_full,
            "vendor_id": function.vendor,
            "device_id": function.device,
            "subsystem_vendor_id": function.subsystem_vendor,
            "subsystem_device_id": function.subsystem_device,
        }
        ids = {name: f"0x{value}" for name, value in ids.items()}
        yield (
            "info",
            labels(**address_labels(function.address), **address_labels(function.parent, "parent_"), **ids),
            1.0,
        )
        link, sriov = function.link, function.sriov
        for name, speed in (("current", link and link.speed_gts), ("max", link and link.max_speed_gts)):
            yield f"{name}_link_transfers_per_second", label, speed and speed * 1e9
        yield "current_link_width", label, link and link.width
        yield "max_link_width", label, link and link.max_width
        yield "numa_node", label, function.numa_node
        yield "sriov_numvfs", label, sriov and sriov.enabled
        yield "sriov_totalvfs", label, sriov and sriov.total


@pytest.mark.parametrize("output", OUTPUTS)
def test_pci_functions(output: str) -> None:
    """Compare ids, parent, link, NUMA node and virtual functions of every PCI function."""
    actual = {(f"node_pcidevice_{name}", label): value for name, label, value in pci_metrics() if value is not None}
    exported_labels = frozenset(
        name for metric, label in actual if metric == "node_pcidevice_info" for name, _ in label
    )
    assert actual == expected_metrics(only(actual), output, keep=exported_labels)
    assert len(actual) == 3 * 7 + 1  # three functions, one of which has a NUMA node

"""GPUs and NICs as zones of the report."""

from __future__ import annotations

import pytest

from support.trees import Contents, line, server_tree
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.objects.nearest_nics import NearestNics, nearest_nics
from zonewise.objects.nrt_devices import nic_zones, node_guids
from zonewise_common.nrt import names

MACHINE = discover(MemoryFiles(server_tree().items()))
DEGRADED, FAILED = "degraded: pcie-width (hardware)", "failed: port-down (hardware)"


@pytest.mark.parametrize(
    ("health", "shown"),
    [
        ({}, None),
        ({"0000:14:00.0": DEGRADED}, DEGRADED),
        ({"0000:14:00.0": DEGRADED, "mlx5_0/1": FAILED}, FAILED),
        ({"0000:14:00.0": FAILED, "mlx5_0/1": DEGRADED}, FAILED),
    ],
)
def test_a_nic_shows_the_worst_fault_of_its_function_and_ports(health: dict[str, str], shown: str | None) -> None:
    zone = next(zone for zone in nic_zones(MACHINE, health) if zone["name"] == "nic-0000-14-00-0")
    attributes = {attribute["name"]: attribute["value"] for attribute in zone["attributes"]}
    assert attributes.get(names.HEALTH) == shown


USB = "devices/pci0000:10/0000:10:02.0"
"""A USB controller beside the first GPU, below /sys; a BMC provides a NIC and a disk at it."""
NIC, DISK = f"{USB}/usb1/1-1/1-1:1.0/net/bmc0", f"{USB}/usb1/1-2/1-2:1.0/host1/target1:0:0/1:0:0:0/block/sda"


def test_the_nic_of_a_bmc_is_no_nic_for_workloads() -> None:
    """The only other NIC belongs to another package, and has no RDMA."""
    tree: Contents = {
        path: content
        for path, content in server_tree().items()
        if "infiniband" not in path and "0000:14:00.0" not in f"{path} {content}"
    }
    tree |= {f"sys/{USB}/class": line("0x0c0330"), f"sys/{USB}/vendor": line("0x8086"), f"sys/{USB}/numa_node": line(0)}
    tree |= {"sys/bus/pci/devices/0000:10:02.0": f"../../../{USB}", "sys/class/net/bmc0": f"../../{NIC}"}
    tree |= {f"sys/{NIC}/address": line("00:00"), f"sys/{DISK}/size": line(9), f"sys/{DISK}/device": "../../../1:0:0:0"}
    tree |= {"sys/class/block/sda": f"../../{DISK}", "sys/block/sda": f"../{DISK}"}
    machine = discover(MemoryFiles(tree.items()))
    assert {"bmc0", "ib1"} == {nic.name for nic in machine.nics}
    assert [zone["name"] for zone in nic_zones(machine, {})] == ["nic-0000-84-00-0"]
    assert nearest_nics(machine)["0000:13:00.0"] == NearestNics("SYS", ("0000:84:00.0",))


def test_node_guids_are_those_of_infiniband() -> None:
    """An Ethernet port has no place in a fabric, an unknown GUID is absent, and virtual functions belong to pods."""
    device = next(device for device in MACHINE.infiniband if device.name == "mlx5_0")
    assert device.node_guid is not None
    guid = device.node_guid.replace(":", "")
    ethernet = device._replace(ports=tuple(port._replace(link_layer="Ethernet") for port in device.ports))
    infiniband = device._replace(ports=tuple(port._replace(link_layer="InfiniBand") for port in device.ports))
    unknown = infiniband._replace(node_guid=None)
    other = infiniband._replace(name="mlx5_9", node_guid="0000:0000:0000:0001")
    assert node_guids(MACHINE._replace(infiniband=(infiniband, ethernet, unknown, other))) == f"0000000000000001,{guid}"
    assert node_guids(MACHINE._replace(infiniband=(ethernet, unknown))) == ""
    pci = tuple(
        one._replace(physical_function="0000:14:00.1") if one.address == device.address else one for one in MACHINE.pci
    )
    assert node_guids(MACHINE._replace(infiniband=(infiniband,), pci=pci)) == ""

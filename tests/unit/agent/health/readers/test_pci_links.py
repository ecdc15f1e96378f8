"""Which ports of switches have a link of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.trees import server_tree
from zonewise.health.readers.pci_links import upstream_ports
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

GPU, NIC, DISK, SWITCH = "0000:13:00.0", "0000:14:00.0", "0000:15:00.0", "0000:11:00.0"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return discover(MemoryFiles(server_tree().items()))


@pytest.mark.parametrize(
    ("addresses", "ports"), [([GPU], {SWITCH}), ([GPU, NIC], {SWITCH}), ([DISK], set[str]()), (list[str](), set[str]())]
)
def test_the_port_of_a_switch_towards_the_host(machine: Machine, addresses: list[str], ports: set[str]) -> None:
    """The disk is directly below a port of the processor."""
    assert upstream_ports(machine, addresses) == ports


def test_a_switch_of_amd_gpus_alone_is_left_out(machine: Machine) -> None:
    pci = tuple(each._replace(driver="amdgpu") if each.address == GPU else each for each in machine.pci)
    machine = machine._replace(pci=pci)
    assert upstream_ports(machine, [GPU]) == set()
    assert upstream_ports(machine, [GPU, NIC]) == {SWITCH}

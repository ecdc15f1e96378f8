"""Which ports of switches have a link of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.trees import server_tree
from zonewise.health.readers.pci_links import attainable_links, upstream_ports
from zonewise.health.types import LinkReading
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


def test_the_best_link_is_what_both_ends_support(machine: Machine) -> None:
    """A slot may have fewer lanes than the card, and an unknown end makes the best link unknown."""
    ports = {each.address: each for each in machine.pci}
    port = ports[ports[GPU].parent or ""]
    assert port.link is not None
    for lanes, speed, best in ((8, 64.0, LinkReading(32.0, 8)), (None, 16.0, LinkReading(16.0, None))):
        other = port._replace(link=port.link._replace(max_width=lanes, max_speed_gts=speed))
        pci = tuple(other if each.address == port.address else each for each in machine.pci)
        assert attainable_links(machine._replace(pci=pci), [GPU]) == {GPU: best}
    pci = tuple(each._replace(driver="amdgpu") if each.address == GPU else each for each in machine.pci)
    assert attainable_links(machine._replace(pci=pci), [GPU, "0000:99:00.0"]) == {}


def test_a_switch_of_amd_gpus_alone_is_left_out(machine: Machine) -> None:
    pci = tuple(each._replace(driver="amdgpu") if each.address == GPU else each for each in machine.pci)
    machine = machine._replace(pci=pci)
    assert upstream_ports(machine, [GPU]) == set()
    assert upstream_ports(machine, [GPU, NIC]) == {SWITCH}

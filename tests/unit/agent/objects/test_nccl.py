"""The topology file for NCCL: NCCL's parser accepts it and derives the correct distances."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machines import ALL, gpu_server, grace_blackwell, hybrid, small_vm
from zonewise.machine.model.cpu import Model
from zonewise.machine.model.gpu import NvLinkPeer
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import Rdma
from zonewise.machine.model.pci import PciLink
from zonewise.objects.nccl import MAX_VALUE, machine_to_nccl
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

LINE = re.compile(r' *(</[a-z]+>|<[a-z]+( [a-z_]+="[^"<>&]*")*/?>)')
"""The only syntax of NCCL's parser: one element, each attribute after one space, no escapes, no declaration."""

MAX_ATTRIBUTES = 16  # MAX_ATTR_COUNT of src/graph/xml.h


def parsed(machine: Machine) -> Element:
    return ElementTree.fromstring(machine_to_nccl(machine))  # noqa: S314 -- made by the line above


def elements(machine: Machine, name: str) -> list[Element]:
    return list(parsed(machine).iter(name))


def below(machine: Machine, name: str) -> dict[str, list[str]]:
    """Return the buses above each element of a name, outermost first, by its own bus or name."""
    return dict(_walk(parsed(machine), name, []))


def _walk(element: Element, name: str, above: list[str]) -> Iterator[tuple[str, list[str]]]:
    for child in element:
        if child.tag == name:
            yield child.get("name") or child.get("dev") or "", above
        yield from _walk(child, name, [*above, child.get("busid") or child.get("numaid") or child.tag])


@pytest.mark.parametrize("name", ALL)
def test_nccls_parser_accepts_it(name: str) -> None:
    """Each line is an element of the plain form that NCCL reads, of at most 16 attributes of at most 254 characters."""
    lines = machine_to_nccl(ALL[name]()).splitlines()
    assert lines[0].startswith('<system version="1"')
    assert all(LINE.fullmatch(line) for line in lines)
    for element in parsed(ALL[name]()).iter():
        assert len(element.attrib) <= MAX_ATTRIBUTES
        assert all(len(value) <= MAX_VALUE for value in element.attrib.values())


@given(st.text(max_size=300))
def test_garbled_names(text: str) -> None:
    """Garbled names give no line that NCCL rejects."""
    machine = gpu_server()
    device = machine.infiniband[0]._replace(name=text)
    garbled = machine._replace(infiniband=(device,), model=Model(vendor=text, family=text, model=text))
    assert all(LINE.fullmatch(line) for line in machine_to_nccl(garbled).splitlines())
    parsed(garbled)


def test_cpus() -> None:
    """Each zone with a GPU or a NIC is an element, with its number and its CPUs as a mask of 32-bit words."""
    cpus = elements(gpu_server(), "cpu")
    assert [cpu.get("numaid") for cpu in cpus] == ["0", "1", "2", "3"]
    assert cpus[0].get("affinity") == "00000fff,ffff0000,00000000,00000000,0fffffff"
    assert {cpu.get("arch") for cpu in cpus} == {"x86_64"}


@given(st.sets(st.integers(0, 700), min_size=1))
def test_affinity_comes_back_as_the_zones_cpus(cpus: set[int]) -> None:
    """The mask has the CPUs of the zone."""
    zone = small_vm().zones[0]._replace(cpus=CpuSet(cpus))
    mask = elements(small_vm()._replace(zones=(zone,)), "cpu")[0].get("affinity") or ""
    assert CpuSet.parse_mask(mask) == CpuSet(cpus)


def test_affinity_that_nccl_would_truncate() -> None:
    """A mask beyond 254 characters is omitted. NCCL then reads the kernel's, whereas it would trust a partial mask."""
    zone = small_vm().zones[0]._replace(cpus=CpuSet(range(1000)))
    assert "affinity" not in elements(small_vm()._replace(zones=(zone,)), "cpu")[0].attrib


@pytest.mark.parametrize(
    ("family", "written"), [("6", "6"), ("15", "15"), ("23", "143"), ("25", "175"), ("26", "191"), (None, None)]
)
def test_family_as_nccl_computes_it(family: str | None, written: str | None) -> None:
    """NCCL adds 16 times the extended family: Zen 1 and 2 are 0x8f, Zen 3 and 4 0xaf, Zen 5 0xbf."""
    machine = small_vm()._replace(model=Model(vendor="AuthenticAMD", family=family, model="1"))
    assert elements(machine, "cpu")[0].get("familyid") == written


def test_arm_has_no_cpuid() -> None:
    """On arm64, the architecture has NCCL's name, and attributes of x86 are omitted."""
    machine = grace_blackwell()._replace(model=Model(vendor="ARM", family="8", model="0xd4f"))
    assert elements(machine, "cpu")[0].get("arch") == "arm64"
    assert not {"vendor", "familyid", "modelid"} & set(elements(machine, "cpu")[0].attrib)


def test_a_device_of_unknown_zone() -> None:
    """Like in NCCL itself, the device is below a CPU element with the number -1."""
    functions = tuple(function._replace(zone=None) for function in small_vm().pci)
    (cpu,) = elements(small_vm()._replace(pci=functions), "cpu")
    assert cpu.get("numaid") == "-1"
    assert "affinity" not in cpu.attrib


def test_a_switch_is_its_upstream_port() -> None:
    """NCCL climbs two bridges at a time: from the GPU over the downstream to the upstream port, then to the CPUs."""
    assert below(gpu_server(), "gpu")["0"] == ["0", "0000:16:00.0", "0000:19:00.0"]


def test_distances_that_nccl_finds() -> None:
    """A GPU and the HCA behind its switch share the switch's element (PIX); others share the CPUs or nothing."""
    machine = gpu_server()
    gpus, nets = below(machine, "gpu"), below(machine, "net")
    relations = {(link.a, link.b): link.relation for link in machine.links}
    for number, gpu in enumerate(machine.gpus):
        for device in machine.infiniband:
            above_gpu, above_net = gpus[str(number)], nets[device.name]
            relation = (
                relations.get((gpu.address or "", device.address or ""))
                or relations[device.address or "", gpu.address or ""]
            )
            common = [a for a, b in zip(above_gpu, above_net, strict=False) if a == b]
            assert len(common) == {"PIX": 2, "NODE": 1, "SYS": 0}[relation or ""]


def test_a_device_on_a_root_port() -> None:
    """Without a switch, the device is directly below its CPUs."""
    assert below(grace_blackwell(), "gpu")["0"] == ["0", "0008:01:00.0"]


def test_a_pci_function() -> None:
    """Ids have the format of sysfs; the link is the maximum of both ends, which power saving does not lower."""
    (gpu,) = [element for element in elements(gpu_server(), "pci") if element.get("busid") == "0000:ab:00.0"]
    assert gpu.attrib == {
        "busid": "0000:ab:00.0",
        "class": "0x030200",
        "vendor": "0x10de",
        "device": "0x2330",
        "link_speed": "32.0 GT/s PCIe",
        "link_width": "16",
    }


def test_the_slower_end_decides() -> None:
    """A card with 16 lanes in a slot with 8 has 8."""
    machine = hybrid()
    port, slot = machine.pci[1], PciLink(8.0, 8, 8.0, 8)
    card = machine.pci[3]._replace(pci_class="0200", link=PciLink(16.0, 16, 16.0, 16))
    nic = machine.nics[0]._replace(address=card.address)
    (element,) = elements(machine._replace(pci=(port._replace(link=slot), card), nics=(nic,), gpus=()), "pci")
    assert (element.get("link_speed"), element.get("link_width")) == ("8.0 GT/s PCIe", "8")


def test_an_unknown_link_is_left_out() -> None:
    """Virtual devices have no link; NCCL reads the kernel's value if the file has none."""
    (nic,) = elements(small_vm(), "pci")
    assert not {"link_speed", "link_width"} & set(nic.attrib)


def test_a_gpu() -> None:
    """It has the driver's number, the compute capability without its dot, and whether NICs reach its memory."""
    machine = gpu_server()._replace(rdma=Rdma(None, "nvidia_peermem", None))
    assert elements(machine, "gpu")[3].attrib == {"dev": "3", "sm": "90", "rank": "3", "gdr": "1"}
    assert "gdr" not in elements(gpu_server(), "gpu")[0].attrib


def test_a_gpu_that_no_driver_described() -> None:
    """Its PCI function is present, as in the files of cloud providers, and NCCL queries NVML for the rest."""
    gpus = tuple(gpu._replace(number=None) for gpu in gpu_server().gpus)
    machine = gpu_server()._replace(gpus=gpus, infiniband=(), nics=())
    assert elements(machine, "gpu") == []
    assert {gpu.address for gpu in gpus} <= {element.get("busid") for element in elements(machine, "pci")}


def test_gpus_of_other_vendors_have_no_gpu_element() -> None:
    """An integrated GPU is a PCI function that NCCL cannot use."""
    assert elements(hybrid(), "gpu") == []


def test_nvlinks() -> None:
    """Each peer has its number of links and its class; a switch hidden from the guest has the driver's name."""
    nvlinks = elements(gpu_server(), "nvlink")
    assert len(nvlinks) == 8 * 7
    assert nvlinks[0].attrib == {"target": "0000:2a:00.0", "count": "18", "tclass": "0x030200"}
    hidden = elements(grace_blackwell(), "nvlink")[0]
    assert hidden.attrib == {"target": "fffffff:ffff:ff", "count": "18", "tclass": "0x068000"}


def test_a_peer_of_unknown_kind_is_left_out() -> None:
    """The device at the other end of a link is not guessed."""
    gpu = gpu_server().gpus[0]._replace(nvlinks=(NvLinkPeer(None, "unknown", 4),))
    assert elements(gpu_server()._replace(gpus=(gpu,)), "nvlink") == []


def test_networks_by_rdma() -> None:
    """Active ports of RDMA devices are listed in Mbit/s, and sockets are not listed beside them."""
    nets = elements(gpu_server(), "net")
    assert len(nets) == 8
    assert nets[0].attrib == {"name": "mlx5_0", "dev": "0", "speed": "400000", "port": "1"}


def test_networks_by_sockets() -> None:
    """Without an active RDMA port, the network devices that are up are listed."""
    down = tuple(
        device._replace(ports=tuple(port._replace(state="DOWN") for port in device.ports))
        for device in gpu_server().infiniband
    )
    names = [net.get("name") for net in elements(gpu_server()._replace(infiniband=down), "net")]
    assert "eno1np0" in names
    assert "eno2np1" not in names
    assert "mlx5_0" not in names


def test_a_machine_without_devices() -> None:
    """NCCL can read a file without devices."""
    assert machine_to_nccl(Machine()) == '<system version="1"/>\n'

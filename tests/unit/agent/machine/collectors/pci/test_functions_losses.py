"""PCI functions whose files are lost or damaged, or whose links have wrong targets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import DEVICES, NETWORK, NIC, ONE_ZONE, PciTree, nic_below_root_port
from zonewise.machine.collector import NoData
from zonewise.machine.collectors.pci.functions import COLLECTOR
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import Sriov
from zonewise.machine.reader import Reader
from zonewise_common.k8s.cpuset import EMPTY


def test_a_dangling_entry_has_address_and_location() -> None:
    """The bus lists it, so it exists; its location is known from the link, and the loss is reported."""
    tree = nic_below_root_port()
    tree.contents = {path: content for path, content in tree.contents.items() if f"{NIC}/" not in path}
    discovered = tree.collect()
    nic = discovered.function(NIC)
    assert (nic.parent, nic.root, nic.vendor, nic.pci_class) == ("0000:3a:00.0", "pci0000:3a", None, None)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{NIC}"]


@pytest.mark.parametrize("target", ["0000:3b:00.0", "../../../devices/pci0000:3a/0000:3a:00.0", "/"])
def test_an_entry_that_leads_elsewhere(target: str) -> None:
    """A loop or a link to another device is ignored, so no fact of the other device is used."""
    tree = nic_below_root_port()
    tree.contents[f"{DEVICES}/{NIC}"] = target
    discovered = tree.collect()
    nic = discovered.function(NIC)
    assert (nic.vendor, nic.root, nic.parent) == (None, None, None)
    assert f"/{DEVICES}/{NIC}" in {problem.path for problem in discovered.problems}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("class", "class_full"),
        ("vendor", "vendor"),
        ("device", "device"),
        ("subsystem_vendor", "subsystem_vendor"),
        ("subsystem_device", "subsystem_device"),
        ("numa_node", "numa_node"),
        ("local_cpulist", "cpus"),
    ],
)
@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe\n", b"9" * 40 + b"\n", b"1 2\n", b"0x1000000\n"])
def test_a_lost_attribute_is_unknown_and_reported(name: str, field: str, content: bytes | None) -> None:
    """If it is absent, empty or garbled, the fact is None, the file is named, and the other facts are unchanged."""
    tree = nic_below_root_port(node=1)
    whole = tree.collect().function(NIC)
    path = f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}/{name}"
    tree.contents.pop(path)
    if content is not None:
        tree.contents[path] = content
    discovered = tree.collect()
    nic = discovered.function(NIC)
    lost = None if not (name == "local_cpulist" and content == b"\n") else EMPTY
    assert getattr(nic, field) == lost
    if lost is None:
        assert f"/{DEVICES}/{NIC}/{name}" in {problem.path for problem in discovered.problems}
    unchanged = {"pci_class", "zone", "zone_source", field}
    assert {k: v for k, v in nic._asdict().items() if k not in unchanged} == {
        k: v for k, v in whole._asdict().items() if k not in unchanged
    }


def test_what_many_functions_lack_is_reported_once() -> None:
    """A tree without an attribute gives one problem, not one per function."""
    tree = PciTree()
    for number in range(8):
        tree.add(f"pci0000:00/0000:00:{number:02x}.0", NETWORK)
        del tree.contents[f"sys/devices/pci0000:00/0000:00:{number:02x}.0/subsystem_vendor"]
    problems = tree.collect(zones=ONE_ZONE).problems
    assert len(problems) == 1
    assert "8 functions" in problems[0].problem


def test_kernels_without_numa_lack_nothing() -> None:
    """Without CONFIG_NUMA, there are neither numa_node files nor a node directory; this is not a problem."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0", NETWORK, node=None)
    assert tree.collect(zones=ONE_ZONE).problems == []
    tree.contents["sys/devices/system/node/node0/cpulist"] = b"0-15\n"
    assert [problem.path for problem in tree.collect(zones=ONE_ZONE).problems] == [f"/{DEVICES}/0000:00:01.0/numa_node"]


@pytest.mark.parametrize("lost", ["0000:3a:00.0", NIC])
def test_functions_that_the_bus_lost_are_reported(lost: str) -> None:
    """The tree of devices reveals a lost bridge above other functions and a lost device inside a bridge."""
    tree = nic_below_root_port()
    del tree.contents[f"{DEVICES}/{lost}"]
    discovered = tree.collect(zones=ONE_ZONE)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{lost}"]


@pytest.mark.parametrize(
    ("host_bridges", "lost"),
    [
        (["VMBUS:00/a/pci0001:00/0001:00:00.0", "VMBUS:00/b/pci0002:00/0002:00:00.0"], "0002:00:00.0"),
        (["platform/a.pcie/pci0000:00/0000:00:00.0", "platform/b.pcie/pci0001:00/0001:00:00.0"], "0001:00:00.0"),
        (["pci0000:64/0000:64:00.5", "pci0000:64/0000:64:00.5/pci10000:00/10000:00:00.0"], "10000:00:00.0"),
        (["pci0000:10/0000:10:00.0", "pci0000:20/0000:20:00.0"], "0000:20:00.0"),
    ],
)
def test_a_host_bridge_whose_only_function_got_lost(host_bridges: list[str], lost: str) -> None:
    """Host bridges are looked up beside other host bridges, so the loss of their only function is noticed."""
    tree = PciTree()
    for host_bridge in host_bridges:
        tree.add(host_bridge, NETWORK)
    assert tree.collect(zones=ONE_ZONE).problems == []
    del tree.contents[f"{DEVICES}/{lost}"]
    discovered = tree.collect(zones=ONE_ZONE)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{lost}"]


def test_names_that_are_not_addresses_are_omitted() -> None:
    """An entry without the name of a function is not a function."""
    tree = nic_below_root_port()
    tree.contents[f"{DEVICES}/00:1f.0"] = "../../../devices/pci0000:00/00:1f.0"
    discovered = tree.collect(zones=ONE_ZONE)
    assert len(discovered.machine.pci) == 2
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/00:1f.0"]


@pytest.mark.parametrize("name", ["driver", "iommu_group", "physfn"])
def test_links_that_lead_nowhere_known(name: str) -> None:
    """A group that is not a number or a physical function that is not an address is reported; any driver is valid."""
    tree = nic_below_root_port()
    tree.link(NIC, name, "../../elsewhere")
    discovered = tree.collect(zones=ONE_ZONE)
    nic = discovered.function(NIC)
    assert (nic.iommu_group, nic.physical_function) == (None, None)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{NIC}/{name}"] * (name != "driver")


@pytest.mark.parametrize("content", [b"", b"70000\n", b"-1\n", b"x\n"])
def test_damaged_counts_of_virtual_functions(content: bytes) -> None:
    """A part of the SR-IOV files can be lost without the rest."""
    tree = nic_below_root_port(sriov_totalvfs=16, sriov_numvfs=2)
    tree.contents[f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}/sriov_totalvfs"] = content
    discovered = tree.collect(zones=ONE_ZONE)
    assert discovered.function(NIC).sriov == Sriov(None, 2)
    assert len(discovered.problems) == 1


@pytest.mark.parametrize("config", [None, b"", bytes(64), bytes(20)])
def test_damaged_buses(config: bytes | None) -> None:
    """The buses of a bridge without files for them and without a bridge header are unknown, and this is reported."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0")
    for name in ("secondary_bus_number", "subordinate_bus_number"):
        del tree.contents[f"sys/devices/pci0000:00/0000:00:01.0/{name}"]
    if config is not None:
        tree.contents["sys/devices/pci0000:00/0000:00:01.0/config"] = config
    discovered = tree.collect(zones=ONE_ZONE)
    assert discovered.machine.pci[0].buses is None
    lost = "secondary_bus_number" if config is None else "config"
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/0000:00:01.0/{lost}"]


@pytest.mark.parametrize(
    ("contents", "problems"),
    [
        ([], 0),
        ([(DEVICES, None)], 0),
        ([("sys/bus/pci/drivers/nvidia", None)], 1),
        ([("sys/devices/pci0000:00/0000:00:01.0/class", b"0x060400\n")], 1),
    ],
)
def test_machines_without_pci(contents: list[tuple[str, bytes | str | None]], problems: int) -> None:
    """Without a bus, or with an empty one, there is no data; a lost list is reported."""
    read = Reader(MemoryFiles(contents))
    with pytest.raises(NoData, match="no PCI bus"):
        COLLECTOR.collect(read, Machine())
    assert len(read.problems) == problems


# --- arbitrary contents


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["class", "vendor", "numa_node", "local_cpulist", "current_link_speed", "max_link_width"]),
            st.binary(max_size=30),
        ),
        max_size=4,
    ),
    st.text(alphabet="./abcdef0123456789:pci", max_size=60),
)
def test_no_content_raises(contents: list[tuple[str, bytes]], target: str) -> None:
    """Any bytes in an attribute and any text in a link give a function with its address, without an exception."""
    tree = nic_below_root_port(node=1, current_link_speed="8.0 GT/s PCIe", max_link_width=8)
    tree.contents[f"{DEVICES}/0000:3c:00.0"] = target
    for name, content in contents:
        tree.contents[f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}/{name}"] = content
    discovered = tree.collect()
    assert [function.address for function in discovered.machine.pci] == ["0000:3a:00.0", NIC, "0000:3c:00.0"]
    assert discovered.problems

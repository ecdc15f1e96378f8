"""PCI functions: their attributes and the targets of their links."""

from __future__ import annotations

import pytest

from support.pci_trees import DEVICES, GPU, NETWORK, NIC, ONE_ZONE, PciTree, nic_below_root_port, run
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.pci.functions import COLLECTOR
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import PciLink, Sriov
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

# --- the attributes


def test_a_function_with_everything() -> None:
    """Each attribute becomes a fact; ids lose their 0x, and the class is listed in two lengths."""
    tree = nic_below_root_port(
        node=1,
        cpus="8-15",
        current_link_speed="16.0 GT/s PCIe",
        current_link_width=8,
        max_link_speed="32.0 GT/s PCIe",
        max_link_width=16,
        sriov_totalvfs=16,
        sriov_numvfs=2,
    )
    tree.link(NIC, "driver", "../../../../bus/pci/drivers/mlx5_core")
    tree.link(NIC, "iommu_group", "../../../../kernel/iommu_groups/12")
    tree.contents["sys/kernel/iommu_groups/12/type"] = b"DMA-FQ\n"
    tree.link(NIC, "iommu", "../../../virtual/iommu/dmar3")
    tree.contents["sys/devices/virtual/iommu/dmar3/intel-iommu/version"] = b"5:0\n"
    discovered = tree.collect()
    nic = discovered.function(NIC)
    assert (nic.iommu_type, nic.iommu_version) == ("DMA-FQ", "5:0")
    assert (nic.pci_class, nic.class_full) == ("0200", "020000")
    assert (nic.vendor, nic.device, nic.subsystem_vendor, nic.subsystem_device) == ("15b3", "1021", "15b3", "0023")
    assert (nic.driver, nic.iommu_group, nic.physical_function) == ("mlx5_core", 12, None)
    assert (nic.numa_node, nic.cpus) == (1, CpuSet(range(8, 16)))
    assert (nic.parent, nic.bridges, nic.root) == ("0000:3a:00.0", ("0000:3a:00.0",), "pci0000:3a")
    assert nic.link == PciLink(16.0, 8, 32.0, 16)
    assert nic.sriov == Sriov(16, 2)
    assert nic.buses is None
    assert discovered.problems == []


def test_every_fact_has_a_source() -> None:
    """Each known fact names a file, in its own source or in that of the function."""
    tree = nic_below_root_port(node=1, current_link_speed="8.0 GT/s PCIe", current_link_width=8, max_link_width=16)
    tree.link(NIC, "driver", "../../../../bus/pci/drivers/mlx5_core")
    sources = tree.collect().sources
    assert sources[f"pci.{NIC}"].file == f"/{DEVICES}/{NIC}"
    for fact in ("vendor", "class_full", "driver", "numa_node", "cpus", "link.speed_gts", "link.width", "zone"):
        assert f"pci.{NIC}.{fact}" in sources, fact
    assert sources[f"pci.{NIC}.vendor"].value == "0x15b3"


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("2.5 GT/s PCIe", 2.5),
        ("5 GT/s", 5.0),
        ("8.0 GT/s PCIe", 8.0),
        ("64.0 GT/s PCIe", 64.0),
        ("Unknown", None),
        ("Unknown speed", None),
    ],
)
def test_link_speeds(text: str, speed: float | None) -> None:
    """The notations of all kernels are read; "Unknown" is unknown, without a problem."""
    tree = nic_below_root_port(current_link_speed=text, current_link_width=4, max_link_speed="8 GT/s", max_link_width=4)
    discovered = tree.collect()
    assert discovered.function(NIC).link == PciLink(speed, 4, 8.0, 4)
    assert discovered.problems == []


def test_a_virtual_function_has_no_link() -> None:
    """A virtual function has speed "Unknown" and width 0, so its link is unknown, not zero."""
    discovered = nic_below_root_port(
        current_link_speed="Unknown", current_link_width=0, max_link_speed="Unknown", max_link_width=0
    ).collect()
    assert discovered.function(NIC).link is None
    assert discovered.problems == []


def test_a_port_without_a_link_has_no_lanes() -> None:
    """A port without a device has a speed but no lanes: this zero is a fact."""
    tree = nic_below_root_port(
        current_link_speed="2.5 GT/s PCIe", current_link_width=0, max_link_speed="8.0 GT/s PCIe", max_link_width=16
    )
    assert tree.collect().function(NIC).link == PciLink(2.5, 0, 8.0, 16)


@pytest.mark.parametrize(("width", "problems"), [(255, 0), (63, 1), (-1, 1), (3, 1)])
def test_widths_that_no_link_has(width: int, problems: int) -> None:
    """The kernel prints 255 for unknown; 63 is a function that fell off the bus; others are damage."""
    tree = nic_below_root_port(
        current_link_speed="8.0 GT/s PCIe",
        current_link_width=width,
        max_link_speed="8.0 GT/s PCIe",
        max_link_width=16,
    )
    discovered = tree.collect()
    assert discovered.function(NIC).link == PciLink(8.0, None, 8.0, 16)
    assert len(discovered.problems) == problems


def test_minus_one_is_not_a_zone() -> None:
    """numa_node is -1 if the firmware names no zone; by itself, this is not a problem."""
    discovered = nic_below_root_port(node=-1).collect(zones=ONE_ZONE)
    assert discovered.function(NIC).numa_node is None
    assert discovered.problems == []


def test_no_local_cpus() -> None:
    """A device in a zone without CPUs has an empty set, which differs from an unknown one."""
    assert nic_below_root_port(cpus="").collect().function(NIC).cpus == EMPTY


def test_local_cpus_of_old_kernels() -> None:
    """Without a list, the mask gives the same CPUs."""
    tree = nic_below_root_port(node=1, cpus=None, local_cpus="00000000,0000ff00")
    assert tree.collect().function(NIC).cpus == CpuSet(range(8, 16))


def test_the_mask_replaces_a_garbled_list() -> None:
    """If one of two notations is damaged, the other is used, and the damage is reported."""
    discovered = nic_below_root_port(node=1, cpus="8-zz", local_cpus="0000ff00").collect()
    assert discovered.function(NIC).cpus == CpuSet(range(8, 16))
    assert [problem.used for problem in discovered.problems] == [f"/{DEVICES}/{NIC}/local_cpus"]


def test_virtual_functions_name_their_physical_one() -> None:
    """`physfn` leads from a virtual function to its physical function, on any bus."""
    tree = nic_below_root_port()
    virtual = tree.add("pci0000:3a/0000:3a:00.0/0000:3c:00.1", NETWORK, "15b3:101e:15b3:0023")
    tree.link(virtual, "physfn", f"../{NIC}")
    assert tree.collect().function(virtual).physical_function == NIC


def test_buses_below_a_bridge() -> None:
    """They are read from their own files or, on an old kernel, from the configuration space."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0", secondary_bus_number=1, subordinate_bus_number=6)
    old = tree.add("pci0000:00/0000:00:02.0")
    for name in ("secondary_bus_number", "subordinate_bus_number"):
        del tree.contents[f"sys/devices/pci0000:00/{old}/{name}"]
    tree.contents[f"sys/devices/pci0000:00/{old}/config"] = bytes(14) + b"\x81" + bytes(9) + b"\0\x07\x09" + bytes(37)
    discovered = tree.collect()
    assert [function.buses for function in discovered.machine.pci] == [(1, 6), (7, 9)]
    assert discovered.problems == []


# --- roots


def test_roots_of_equal_name_differ_by_path() -> None:
    """Host bridges have equal names only in a damaged or merged tree; each is then named by its path."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0")
    tree.add("platform/a.pcie/pci0000:00/0000:00:02.0")
    tree.add("pci0000:80/0000:80:00.0")
    roots = [function.root for function in tree.collect().machine.pci]
    assert roots == ["/sys/devices/pci0000:00", "/sys/devices/platform/a.pcie/pci0000:00", "pci0000:80"]


def test_nested_host_bridges() -> None:
    """Below Intel VMD, the root is the inner host bridge, and the function that contains it is recorded."""
    tree = PciTree()
    tree.add("pci0000:64/0000:64:00.5", "010400")
    tree.add("pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0")
    disk = tree.add("pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0", "010802")
    discovered = tree.collect().function(disk)
    assert (discovered.root, discovered.parent, discovered.host_function) == (
        "pci10000:00",
        "10000:00:02.0",
        "0000:64:00.5",
    )


def test_directories_instead_of_links() -> None:
    """Trees that were made by hand contain the functions in place of links."""
    attributes = {"class": b"0x030000\n", "vendor": b"0x10de\n", "device": b"0x1db1\n", "local_cpus": b"000000ff\n"}
    attributes |= {"subsystem_vendor": b"0x10de\n", "subsystem_device": b"0x0001\n"}
    files = MemoryFiles([(f"{DEVICES}/0004:05:00.0/{name}", content) for name, content in attributes.items()])
    discovered = run(files, Machine(), (COLLECTOR,))
    function = discovered.function("0004:05:00.0")
    assert (function.root, function.parent, function.vendor) == ("0004:05", None, "10de")
    assert discovered.problems == []


# --- rescans


def test_what_causes_a_rescan() -> None:
    """Hotplug, a new driver and a link that lost lanes change the signature; without a change, it is the same."""
    tree = nic_below_root_port(current_link_speed="8.0 GT/s PCIe", current_link_width=8)
    path = f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}"

    def signature() -> object:
        return COLLECTOR.volatile(Peek(tree.files()))

    before = [signature()]
    assert signature() == before[0]
    for name, content in {
        f"{path}/driver": "../../../../bus/pci/drivers/vfio-pci",
        f"{path}/current_link_width": b"4\n",
        f"{path}/current_link_speed": b"2.5 GT/s PCIe\n",
        f"{DEVICES}/0000:3c:00.0": "../../../devices/pci0000:3a/0000:3c:00.0",
    }.items():
        tree.contents[name] = content
        before.append(signature())
    assert len(set(before)) == len(before)


def test_gpus_are_listed_without_a_driver() -> None:
    """The class alone identifies a display controller."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0", GPU, "10de:2330:10de:16c1")
    function = tree.collect().machine.pci[0]
    assert (function.pci_class, function.driver) == ("0302", None)

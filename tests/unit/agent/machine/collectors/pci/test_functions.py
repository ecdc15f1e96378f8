"""PCI functions: their attributes, the targets of their links, and the report of what got lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pci_trees import BRIDGE, DEVICES, GPU, NETWORK, ONE_ZONE, PciTree, run
from zonewise.machine.collector import NoData, Peek
from zonewise.machine.collectors.pci.functions import COLLECTOR
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import PciLink, Sriov
from zonewise.machine.reader import Reader
from zonewise.machine.sysfs import device_pci_address, is_pci_address, pci_location, pci_order
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

NIC = "0000:3b:00.0"


def nic_below_root_port(*, node: int | None = 0, cpus: str | None = "0-7", **attributes: object) -> PciTree:
    """A NIC behind one root port."""
    tree = PciTree()
    tree.add("pci0000:3a/0000:3a:00.0", BRIDGE)
    tree.add(f"pci0000:3a/0000:3a:00.0/{NIC}", NETWORK, "15b3:1021:15b3:0023", node=node, cpus=cpus, **attributes)
    return tree


# --- places


@pytest.mark.parametrize(
    ("path", "root", "bridges", "host_function"),
    [
        ("sys/devices/pci0000:3a/0000:3a:00.0", "sys/devices/pci0000:3a", (), None),
        (
            "sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0",
            "sys/devices/pci0000:3a",
            ("0000:3a:00.0",),
            None,
        ),
        (
            "sys/devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0",
            "sys/devices/pci0000:64/0000:64:00.5/pci10000:00",
            ("10000:00:02.0",),
            "0000:64:00.5",
        ),
        (
            "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00/0001:00:00.0",
            "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001/pci0001:00",
            (),
            None,
        ),
        (
            "sys/devices/platform/40000000.pcie/pci0000:00/0000:00:00.0",
            "sys/devices/platform/40000000.pcie/pci0000:00",
            (),
            None,
        ),
        ("sys/bus/pci/devices/0004:05:00.0", "0004:05", (), None),
        ("a/0004:05:00.0/0004:06:00.0", "0004:05", ("0004:05:00.0",), None),
    ],
)
def test_location_by_path(path: str, root: str, bridges: tuple[str, ...], host_function: str | None) -> None:
    """The last host bridge of a path is the root, wherever it lies; without any, domain and bus stand in."""
    assert pci_location(path) == (root, bridges, host_function)


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("0000:00:1f.7", True),
        ("10000:e1:00.0", True),
        ("0000:00:20.0", False),
        ("0000:00:00.8", False),
        ("00:1f.0", False),
        ("0000:3B:00.0", False),
        ("pci0000:00", False),
        ("0000:00:00.0 ", False),
    ],
)
def test_addresses(name: str, is_valid: bool) -> None:
    """An address has a full domain, 32 devices and 8 functions, in lower case."""
    assert is_pci_address(name) is is_valid


def test_order_is_by_number() -> None:
    """A domain of five digits stands behind those of four, and 0a before 10."""
    addresses = ["10000:00:00.0", "0000:10:00.0", "0000:0a:00.0", "ffff:00:00.0", "0000:0a:00.1"]
    assert sorted(addresses, key=pci_order) == [
        "0000:0a:00.0",
        "0000:0a:00.1",
        "0000:10:00.0",
        "ffff:00:00.0",
        "10000:00:00.0",
    ]


# --- from a class to its function

LINK_TARGET = f"../../devices/pci0000:3a/0000:3a:00.0/{NIC}"


@pytest.mark.parametrize(
    "contents",
    [
        [("sys/class/net/eth0", f"{LINK_TARGET}/net/eth0")],
        [("sys/class/net/eth0", f"{LINK_TARGET}/virtio0/net/eth0")],
        [("sys/class/net/eth0", f"{LINK_TARGET}/net/eth0/")],
        [("sys/class/net/eth0/device", f"../{LINK_TARGET}")],
        [("sys/class/net/eth0/device", f"../../../{NIC}")],
        [
            ("sys/class/net/eth0/device", "../../../bus/virtio/devices/virtio0"),
            ("sys/bus/virtio/devices/virtio0", f"../../../devices/pci0000:3a/{NIC}/virtio0"),
        ],
    ],
)
def test_class_devices_lead_to_their_function(contents: list[tuple[str, bytes | str | None]]) -> None:
    """By the link that the entry is, or by `device` inside an entry that is a directory, over virtio and the like."""
    assert device_pci_address(Reader(MemoryFiles(contents)), "sys/class/net/eth0") == NIC


@pytest.mark.parametrize(
    "contents",
    [
        [("sys/class/net/eth0", "../../devices/virtual/net/eth0")],
        [("sys/class/net/eth0/address", b"00:00:00:00:00:00\n")],
        [("sys/class/net/eth0", "eth0")],
        [("sys/class/net/eth0", "eth1"), ("sys/class/net/eth1", "eth0")],
        [],
    ],
)
def test_class_devices_without_a_function(contents: list[tuple[str, bytes | str | None]]) -> None:
    """Virtual devices, and links that lead round in circles, have none."""
    assert device_pci_address(Reader(MemoryFiles(contents)), "sys/class/net/eth0") is None


# --- the attributes


def test_a_function_with_everything() -> None:
    """Each attribute becomes its fact, ids without 0x, the class in two lengths."""
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
    discovered = tree.collect()
    nic = discovered.function(NIC)
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
    """What is known of a function can be traced to a file, by itself or by the function's own entry."""
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
    """The notations of all kernels are read; "Unknown" is unknown, and no problem."""
    tree = nic_below_root_port(current_link_speed=text, current_link_width=4, max_link_speed="8 GT/s", max_link_width=4)
    discovered = tree.collect()
    assert discovered.function(NIC).link == PciLink(speed, 4, 8.0, 4)
    assert discovered.problems == []


def test_a_virtual_function_has_no_link() -> None:
    """Speed "Unknown" and width 0 mean that a virtual function has none: unknown, not zero."""
    discovered = nic_below_root_port(
        current_link_speed="Unknown", current_link_width=0, max_link_speed="Unknown", max_link_width=0
    ).collect()
    assert discovered.function(NIC).link is None
    assert discovered.problems == []


def test_a_port_without_a_link_has_no_lanes() -> None:
    """A port that runs and has nothing attached has speed and no lanes: this zero is a fact."""
    tree = nic_below_root_port(
        current_link_speed="2.5 GT/s PCIe", current_link_width=0, max_link_speed="8.0 GT/s PCIe", max_link_width=16
    )
    assert tree.collect().function(NIC).link == PciLink(2.5, 0, 8.0, 16)


@pytest.mark.parametrize(("width", "problems"), [(255, 0), (63, 1), (-1, 1), (3, 1)])
def test_widths_that_no_link_has(width: int, problems: int) -> None:
    """255 is the kernel's word for unknown; 63 is a function that fell off the bus; others are damage."""
    tree = nic_below_root_port(
        current_link_speed="8.0 GT/s PCIe",
        current_link_width=width,
        max_link_speed="8.0 GT/s PCIe",
        max_link_width=16,
    )
    discovered = tree.collect()
    assert discovered.function(NIC).link == PciLink(8.0, None, 8.0, 16)
    assert len(discovered.problems) == problems


def test_minus_one_is_no_zone() -> None:
    """numa_node -1 is the firmware's silence, and no problem by itself."""
    discovered = nic_below_root_port(node=-1).collect(zones=ONE_ZONE)
    assert discovered.function(NIC).numa_node is None
    assert discovered.problems == []


def test_no_local_cpus() -> None:
    """A device of a zone without CPUs has an empty set, which is not the same as an unknown one."""
    assert nic_below_root_port(cpus="").collect().function(NIC).cpus == EMPTY


def test_local_cpus_of_old_kernels() -> None:
    """Without a list, the mask has the same CPUs."""
    tree = nic_below_root_port(node=1, cpus=None, local_cpus="00000000,0000ff00")
    assert tree.collect().function(NIC).cpus == CpuSet(range(8, 16))


def test_the_mask_replaces_a_garbled_list() -> None:
    """One damaged notation of two costs nothing, and is reported with what was used."""
    discovered = nic_below_root_port(node=1, cpus="8-zz", local_cpus="0000ff00").collect()
    assert discovered.function(NIC).cpus == CpuSet(range(8, 16))
    assert [problem.used for problem in discovered.problems] == [f"/{DEVICES}/{NIC}/local_cpus"]


def test_virtual_functions_name_their_physical_one() -> None:
    """`physfn` leads from a virtual function to the physical one, on whatever bus the virtual one is."""
    tree = nic_below_root_port()
    virtual = tree.add("pci0000:3a/0000:3a:00.0/0000:3c:00.1", NETWORK, "15b3:101e:15b3:0023")
    tree.link(virtual, "physfn", f"../{NIC}")
    assert tree.collect().function(virtual).physical_function == NIC


def test_buses_below_a_bridge() -> None:
    """From their own files, or with an old kernel from the configuration space."""
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
    """Two host bridges can only have one name in a damaged or merged tree; then each is called by its path."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0")
    tree.add("platform/a.pcie/pci0000:00/0000:00:02.0")
    tree.add("pci0000:80/0000:80:00.0")
    roots = [function.root for function in tree.collect().machine.pci]
    assert roots == ["/sys/devices/pci0000:00", "/sys/devices/platform/a.pcie/pci0000:00", "pci0000:80"]


def test_nested_host_bridges() -> None:
    """Below Intel VMD the root is the inner host bridge, and the function that carries it is remembered."""
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
    """Trees made by hand have the functions themselves where links should be."""
    attributes = {"class": b"0x030000\n", "vendor": b"0x10de\n", "device": b"0x1db1\n", "local_cpus": b"000000ff\n"}
    attributes |= {"subsystem_vendor": b"0x10de\n", "subsystem_device": b"0x0001\n"}
    files = MemoryFiles([(f"{DEVICES}/0004:05:00.0/{name}", content) for name, content in attributes.items()])
    discovered = run(files, Machine(), (COLLECTOR,))
    function = discovered.function("0004:05:00.0")
    assert (function.root, function.parent, function.vendor) == ("0004:05", None, "10de")
    assert discovered.problems == []


# --- what is wrong


def test_a_dangling_entry_has_address_and_location() -> None:
    """The bus lists it, so it exists; the location in its link is used, and the loss is reported."""
    tree = nic_below_root_port()
    tree.contents = {path: content for path, content in tree.contents.items() if f"{NIC}/" not in path}
    discovered = tree.collect()
    nic = discovered.function(NIC)
    assert (nic.parent, nic.root, nic.vendor, nic.pci_class) == ("0000:3a:00.0", "pci0000:3a", None, None)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{NIC}"]


@pytest.mark.parametrize("target", ["0000:3b:00.0", "../../../devices/pci0000:3a/0000:3a:00.0", "/"])
def test_an_entry_that_leads_elsewhere(target: str) -> None:
    """A loop or a link to another device is ignored: no fact of that other device counts as its own."""
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
    """Absent, empty or garbled: the fact is None, the file is named, and every other fact is as before."""
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
    """A whole tree without an attribute gives one entry, not one per function."""
    tree = PciTree()
    for number in range(8):
        tree.add(f"pci0000:00/0000:00:{number:02x}.0", NETWORK)
        del tree.contents[f"sys/devices/pci0000:00/0000:00:{number:02x}.0/subsystem_vendor"]
    problems = tree.collect(zones=ONE_ZONE).problems
    assert len(problems) == 1
    assert "8 functions" in problems[0].problem


def test_kernels_without_numa_lack_nothing() -> None:
    """Without CONFIG_NUMA no function has numa_node and there is no node directory: no problem."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0", NETWORK, node=None)
    assert tree.collect(zones=ONE_ZONE).problems == []
    tree.contents["sys/devices/system/node/node0/cpulist"] = b"0-15\n"
    assert [problem.path for problem in tree.collect(zones=ONE_ZONE).problems] == [f"/{DEVICES}/0000:00:01.0/numa_node"]


@pytest.mark.parametrize("lost", ["0000:3a:00.0", NIC])
def test_functions_that_the_bus_lost_are_reported(lost: str) -> None:
    """A bridge that others hang off, and a device inside a bridge: the tree of devices gives both away."""
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
    """Host bridges are looked for where others are, so that even the last function of one is missed."""
    tree = PciTree()
    for host_bridge in host_bridges:
        tree.add(host_bridge, NETWORK)
    assert tree.collect(zones=ONE_ZONE).problems == []
    del tree.contents[f"{DEVICES}/{lost}"]
    discovered = tree.collect(zones=ONE_ZONE)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{lost}"]


def test_names_that_are_no_addresses_are_left_out() -> None:
    """What is not named as a function is none."""
    tree = nic_below_root_port()
    tree.contents[f"{DEVICES}/00:1f.0"] = "../../../devices/pci0000:00/00:1f.0"
    discovered = tree.collect(zones=ONE_ZONE)
    assert len(discovered.machine.pci) == 2
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/00:1f.0"]


@pytest.mark.parametrize("name", ["driver", "iommu_group", "physfn"])
def test_links_that_lead_nowhere_known(name: str) -> None:
    """A group that is no number and a physical function that is no address are reported; any driver's name is good."""
    tree = nic_below_root_port()
    tree.link(NIC, name, "../../elsewhere")
    discovered = tree.collect(zones=ONE_ZONE)
    nic = discovered.function(NIC)
    assert (nic.iommu_group, nic.physical_function) == (None, None)
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{NIC}/{name}"] * (name != "driver")


@pytest.mark.parametrize("content", [b"", b"70000\n", b"-1\n", b"x\n"])
def test_damaged_counts_of_virtual_functions(content: bytes) -> None:
    """One half of SR-IOV can be lost without the other."""
    tree = nic_below_root_port(sriov_totalvfs=16, sriov_numvfs=2)
    tree.contents[f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}/sriov_totalvfs"] = content
    discovered = tree.collect(zones=ONE_ZONE)
    assert discovered.function(NIC).sriov == Sriov(None, 2)
    assert len(discovered.problems) == 1


@pytest.mark.parametrize("config", [None, b"", bytes(64), bytes(20)])
def test_damaged_buses(config: bytes | None) -> None:
    """A bridge without files for its buses and without a header of a bridge has unknown buses, and that is reported."""
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
    """No bus, or an empty one, is no data; a list that got lost is reported."""
    read = Reader(MemoryFiles(contents))
    with pytest.raises(NoData, match="no PCI bus"):
        COLLECTOR.collect(read, Machine())
    assert len(read.problems) == problems


# --- rescans


def test_what_makes_a_rescan() -> None:
    """Hotplug, a driver bound, a link that lost lanes: each changes the signature; nothing leaves it as it was."""
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


# --- whatever the files hold


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
def test_no_content_stops_it(contents: list[tuple[str, bytes]], target: str) -> None:
    """Any bytes in any attribute and any text in a link give a function with its address, and no exception."""
    tree = nic_below_root_port(node=1, current_link_speed="8.0 GT/s PCIe", max_link_width=8)
    tree.contents[f"{DEVICES}/0000:3c:00.0"] = target
    for name, content in contents:
        tree.contents[f"sys/devices/pci0000:3a/0000:3a:00.0/{NIC}/{name}"] = content
    discovered = tree.collect()
    assert [function.address for function in discovered.machine.pci] == ["0000:3a:00.0", NIC, "0000:3c:00.0"]
    assert discovered.problems


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7))
def test_every_address_of_the_kernel_is_accepted(domain: int, bus: int, device: int, function: int) -> None:
    """Whatever drivers/pci/probe.c can print is read back, and sorts by its numbers."""
    address = f"{domain:04x}:{bus:02x}:{device:02x}.{function}"
    assert is_pci_address(address)
    assert pci_order(address)[0] == domain
    assert pci_order(address) < pci_order(f"{domain + 1:04x}:00:00.0")


def test_gpus_are_listed_without_a_driver() -> None:
    """A display controller is recognised by its class alone."""
    tree = PciTree()
    tree.add("pci0000:00/0000:00:01.0", GPU, "10de:2330:10de:16c1")
    function = tree.collect().machine.pci[0]
    assert (function.pci_class, function.driver) == ("0302", None)

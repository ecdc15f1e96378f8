"""Every PCI function: its ids, the bridges above it, and its location according to the kernel.

One readlink of /sys/bus/pci/devices/ADDRESS contains the whole chain from the host bridge to the function. `locality`
derives the nearest zone later, when the zones are known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.pci.bus import BUSES, DEVICES, LOCAL_CPUS, PciEntry, pci_entries, report_lacking
from zonewise.machine.collectors.pci.classes import BRIDGES
from zonewise.machine.model.pci import PciFunction, PciLink, Sriov
from zonewise.machine.reader import cpu_set, parse_integer
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader
    from zonewise_common.k8s.cpuset import CpuSet

# drivers/pci/probe.c pci_speed_string(); before kernel 5.8 "8 GT/s" and "Unknown speed"
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s(?: PCIe)?")
_NO_SPEED = ("Unknown", "Unknown speed")
LINK_WIDTHS = (0, 1, 2, 4, 8, 12, 16, 32)
"""Lanes that a link may have: PCI Express Base Specification, Link Status register; 0: no link."""
_NO_WIDTH = 255  # include/linux/pci.h PCIE_LNK_WIDTH_UNKNOWN
_MAX_BUS = 0xFF
_MAX_FUNCTIONS = 0xFFFF  # TotalVFs and NumVFs are 16-bit registers

T = TypeVar("T")


def _collect(read: Reader, machine: Machine) -> Machine:
    entries = pci_entries(read)
    if not entries:
        raise NoData("no PCI bus")
    titles = _root_titles(entries)
    functions = tuple(_function(read, entry, titles) for entry in entries)
    bridges = [entry for entry, function in zip(entries, functions, strict=True) if function.pci_class in BRIDGES]
    report_lacking(
        read, BUSES[0], [entry for entry in bridges if not entry.attributes.intersection((*BUSES, "config"))]
    )
    return machine._replace(pci=functions)


def _root_titles(entries: list[PciEntry]) -> dict[str, str]:
    """Return a title for each host bridge: its name, or its whole path if two have the same name."""
    roots = {entry.location.root for entry in entries if entry.location is not None}
    names = [root.rpartition("/")[2] for root in roots]
    return {root: name if names.count(name) == 1 else f"/{root}" for root, name in zip(roots, names, strict=True)}


def _function(read: Reader, entry: PciEntry, titles: dict[str, str]) -> PciFunction:
    location = entry.location
    bridges = location.bridges if location is not None else ()
    class_full = _identifier(read, entry, "class", 6)
    root = location and titles[location.root]
    read.source(f"pci.{entry.address}", entry.path, root, "the directories in the target of the link")
    return PciFunction(
        address=entry.address,
        pci_class=class_full and class_full[:4],
        class_full=class_full,
        vendor=_identifier(read, entry, "vendor", 4),
        device=_identifier(read, entry, "device", 4),
        subsystem_vendor=_identifier(read, entry, "subsystem_vendor", 4),
        subsystem_device=_identifier(read, entry, "subsystem_device", 4),
        driver=_linked(read, entry, "driver", str, "driver"),
        zone=None,
        zone_source=None,
        cpus=_local_cpus(read, entry),
        parent=bridges[-1] if bridges else None,
        root=root,
        link=_link(read, entry),
        iommu_group=_linked(read, entry, "iommu_group", parse_integer, "iommu_group"),
        sriov=_sriov(read, entry),
        physical_function=_linked(read, entry, "physfn", _address, "physical_function"),
        bridges=bridges,
        numa_node=_numa_node(read, entry),
        host_function=location and location.host_function,
        buses=_buses(read, entry) if class_full and class_full[:4] in BRIDGES else None,
        iommu_type=_behind_link(read, entry, "iommu_group", "type", "iommu_type"),
        iommu_version=_behind_link(read, entry, "iommu", "intel-iommu/version", "iommu_version"),
    )


def _identifier(read: Reader, entry: PciEntry, name: str, digits: int) -> str | None:
    """Return an identifying number as a hexadecimal string with that many digits."""
    if name not in entry.attributes:
        return None
    path = f"{entry.path}/{name}"
    fact = f"pci.{entry.address}.{'class_full' if name == 'class' else name}"
    needed = f"{name} of {entry.address}"
    value = read.integer(path, base=16, fact=fact, rule="the hexadecimal number in the file", needed=needed)
    if value is None:
        return None
    if not 0 <= value < 16**digits:
        read.problem(path, f"is not a number of {digits} digits", f"{needed} is unknown")
        return None
    return f"{value:0{digits}x}"


def _linked(read: Reader, entry: PciEntry, name: str, parse: Callable[[str], T], field: str) -> T | None:
    """Return the last component of a link in the function's directory."""
    path = f"{entry.path}/{name}"
    if name not in entry.attributes or (target := read.link(path)) is None:
        return None
    last = target.rpartition("/")[2]
    try:
        value = parse(last)
    except ValueError:
        read.problem(path, f"leads to {last[:60]!r}", f"{field} of {entry.address} is unknown")
        return None
    read.source(f"pci.{entry.address}.{field}", path, target, "the target of the link")
    return value


def _behind_link(read: Reader, entry: PciEntry, link: str, name: str, field: str) -> str | None:
    """Return an attribute of the target of a link in the function's directory; None if there is no such attribute.

    The type of an IOMMU group came with kernel 4.11; only Intel's driver has a version (drivers/iommu/iommu.c,
    drivers/iommu/intel/iommu.c).
    """
    if link not in entry.attributes:
        return None
    return read.text(f"{entry.path}/{link}/{name}", fact=f"pci.{entry.address}.{field}", rule="as the kernel prints it")


def _address(name: str) -> str:
    if not is_pci_address(name):
        raise ValueError(name)
    return name


def _local_cpus(read: Reader, entry: PciEntry) -> CpuSet | None:
    if entry.attributes.isdisjoint(LOCAL_CPUS):
        return None
    rule = "the nearest CPUs according to the kernel; all CPUs if it does not know them"
    before = len(read.problems)
    cpus = cpu_set(read, entry.path, (LOCAL_CPUS,), fact=f"pci.{entry.address}.cpus", rule=rule)
    # elsewhere "(null)" and the like mean no value; in this file they are damage
    if cpus is None and len(read.problems) == before:
        read.problem(f"{entry.path}/{LOCAL_CPUS.list_name}", "contains nothing", f"cpus of {entry.address} are unknown")
    return cpus


def _numa_node(read: Reader, entry: PciEntry) -> int | None:
    if "numa_node" not in entry.attributes:
        return None
    fact, needed = f"pci.{entry.address}.numa_node", f"numa_node of {entry.address}"
    node = read.integer(
        f"{entry.path}/numa_node", fact=fact, rule="the number in the file; -1 means none", needed=needed
    )
    return None if node is None or node < 0 else node


def _link(read: Reader, entry: PciEntry) -> PciLink | None:
    link = PciLink(
        speed_gts=_speed(read, entry, "current_link_speed", "speed_gts"),
        width=_width(read, entry, "current_link_width", "width"),
        max_speed_gts=_speed(read, entry, "max_link_speed", "max_speed_gts"),
        max_width=_width(read, entry, "max_link_width", "max_width"),
    )
    if link.speed_gts is None and not link.width:
        link = link._replace(width=None)  # a virtual function does not have its own link and shows width 0
    if not link.max_width:
        link = link._replace(max_width=None)
    return None if link == PciLink(None, None, None, None) else link


def _speed(read: Reader, entry: PciEntry, name: str, field: str) -> float | None:
    path = f"{entry.path}/{name}"
    if name not in entry.attributes or (content := read.raw(path)) is None:
        return None
    text = content.decode("ascii", "backslashreplace").strip("\0\n ")
    if text in _NO_SPEED:
        return None
    match = _SPEED.fullmatch(text)
    if match is None:
        read.problem(path, f"is not a link speed: {text[:60]!r}", f"{name} of {entry.address} is unknown")
        return None
    read.source(f"pci.{entry.address}.link.{field}", path, text, "the number before GT/s")
    return float(match[1])


def _width(read: Reader, entry: PciEntry, name: str, field: str) -> int | None:
    if name not in entry.attributes:
        return None
    path = f"{entry.path}/{name}"
    needed = f"{name} of {entry.address}"
    width = read.integer(path, fact=f"pci.{entry.address}.link.{field}", rule="lanes", needed=needed)
    if width is None or width == _NO_WIDTH:
        return None
    if width not in LINK_WIDTHS:  # 63 where a function has fallen off the bus and every bit reads as one
        read.problem(path, f"contains {width} lanes, which no link has", f"{needed} is unknown")
        return None
    return width


def _sriov(read: Reader, entry: PciEntry) -> Sriov | None:
    total = _virtual_functions(read, entry, "sriov_totalvfs", "total")
    enabled = _virtual_functions(read, entry, "sriov_numvfs", "enabled")
    return None if total is None and enabled is None else Sriov(total, enabled)


def _virtual_functions(read: Reader, entry: PciEntry, name: str, field: str) -> int | None:
    if name not in entry.attributes:
        return None
    path = f"{entry.path}/{name}"
    number = read.integer(path, fact=f"pci.{entry.address}.sriov.{field}", needed=f"{name} of {entry.address}")
    if number is None or 0 <= number <= _MAX_FUNCTIONS:
        return number
    read.problem(path, f"contains {number}, but a function has at most {_MAX_FUNCTIONS}", f"{name} is unknown")
    return None


def _buses(read: Reader, entry: PciEntry) -> tuple[int, int] | None:
    """Return the buses below a bridge: from its files, or from its configuration space.

    Kernels before 4.13 have no such files; then the type 1 header has the buses.
    """
    if entry.attributes.issuperset(BUSES):
        first, last = (_bus(read, entry, name) for name in BUSES)
        return None if first is None or last is None else (first, last)
    path, needed = f"{entry.path}/config", f"range of buses below {entry.address}"
    if "config" not in entry.attributes or (config := read.raw(path, needed=needed)) is None:
        return None
    if len(config) <= 26 or config[14] & 0x7F != 1:  # include/uapi/linux/pci_regs.h PCI_HEADER_TYPE
        read.problem(path, f"has no bridge header in its {len(config)} bytes", f"{needed} is unknown")
        return None
    read.source(f"pci.{entry.address}.buses", path, config[25:27].hex(), "PCI_SECONDARY_BUS, PCI_SUBORDINATE_BUS")
    return config[25], config[26]


def _bus(read: Reader, entry: PciEntry, name: str) -> int | None:
    path, needed = f"{entry.path}/{name}", f"{name} of {entry.address}"
    bus = read.integer(path, fact=f"pci.{entry.address}.buses", rule="the number in the file", needed=needed)
    if bus is None or 0 <= bus <= _MAX_BUS:
        return bus
    read.problem(path, f"contains {bus}, but the highest bus is {_MAX_BUS}", f"{needed} is unknown")
    return None


def _volatile(peek: Peek) -> Hashable:
    """Notice hotplug, bound and unbound drivers, and links that changed speed to save power or lost lanes."""
    names = peek.names(DEVICES)
    entries = [f"{DEVICES}/{name}" for name in names]
    return names, tuple(
        (
            peek.link(f"{entry}/driver"),
            peek.content(f"{entry}/current_link_speed"),
            peek.content(f"{entry}/current_link_width"),
        )
        for entry in entries
    )


COLLECTOR = Collector(name="pci", provides=("pci",), needs=(), collect=_collect, volatile=_volatile)

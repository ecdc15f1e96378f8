"""The PCI bus in sysfs: its functions, their locations, and the losses of the listing.

A function whose entry is a dangling link remains, with its address and the location in the link itself. The bus lists
it, so it exists; dropping it would report "absent" instead of "unknown".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.reader import Pair, first_few
from zonewise.machine.sysfs import PciLocation, is_host_bridge, is_pci_address, pci_location, pci_order

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

DEVICES = "sys/bus/pci/devices"

LOCAL_CPUS = Pair("local_cpulist", "local_cpus")  # the list is newer: kernel 2.6.29

BUSES = ("secondary_bus_number", "subordinate_bus_number")  # of a bridge, since kernel 4.13

_ALWAYS = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")
"""drivers/pci/pci-sysfs.c creates these for every function, and local CPUs in at least one notation."""

_GROUPS = (
    ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width"),
    ("sriov_totalvfs", "sriov_numvfs"),
    BUSES,
)
"""A function that has one attribute of a group has the whole group."""

_SHOWN = 3  # number of addresses that a problem of many functions names


class PciEntry(NamedTuple):
    """A function as the bus lists it."""

    address: str
    path: str
    location: PciLocation | None
    """None if its link is broken."""
    attributes: frozenset[str]
    """The names in its directory; none if its link is broken."""


def pci_entries(read: Reader) -> list[PciEntry]:
    """Return the functions of the machine by address; none without a PCI bus.

    Everything that the listing has lost becomes a problem. The listing is compared with the files that the kernel
    always creates and with the device tree.
    """
    names = read.names(DEVICES)
    if not names:
        _report_lost_bus(read)
    for name in names:
        if not is_pci_address(name):
            read.problem(f"{DEVICES}/{name}", "is not the name of a PCI function", "omitted")
    addresses = sorted((name for name in names if is_pci_address(name)), key=pci_order)
    entries = [_entry(read, address) for address in addresses]
    _report_missing(read, [entry for entry in entries if entry.attributes])
    if entries:
        _report_unlisted(read, entries)
    return entries


def _report_lost_bus(read: Reader) -> None:
    """Report a lost list of functions, as opposed to a machine without PCI."""
    roots = _plain_roots(read)
    if roots or (read.has("sys/bus/pci") and not read.has(DEVICES)):
        evidence = f"there is a host bridge /{roots[0]}" if roots else "the kernel knows the PCI bus"
        read.problem(DEVICES, f"lists nothing, although {evidence}", "no PCI function is known")


def _entry(read: Reader, address: str) -> PciEntry:
    path = f"{DEVICES}/{address}"
    link = read.link(path)
    target = path if link is None else link
    if target.rpartition("/")[2] != address:
        read.problem(path, f"leads to another device, /{target}", f"only the address of {address} is known")
        return PciEntry(address, path, None, frozenset())
    attributes: frozenset[str] = frozenset()
    try:
        attributes = frozenset(read.files.names(path))
        reason = "" if attributes else "is empty"
    except OSError as error:
        reason = f"leads to no device: {error.strerror}"
    if reason:
        read.problem(path, reason, f"only the address and path of {address} are known")
    return PciEntry(address, path, pci_location(target) if attributes or target != path else None, attributes)


def _report_missing(read: Reader, entries: list[PciEntry]) -> None:
    """Report attributes that the kernel creates and that this tree has lost."""
    for name in _ALWAYS:
        report_lacking(read, name, [entry for entry in entries if name not in entry.attributes])
    for group in _GROUPS:
        having = [entry for entry in entries if not entry.attributes.isdisjoint(group)]
        for name in group:
            report_lacking(read, name, [entry for entry in having if name not in entry.attributes])
    report_lacking(read, "local_cpulist", [entry for entry in entries if entry.attributes.isdisjoint(LOCAL_CPUS)])
    nodeless = [entry for entry in entries if "numa_node" not in entry.attributes]
    if len(nodeless) < len(entries) or read.has("sys/devices/system/node"):  # without CONFIG_NUMA neither exists
        report_lacking(read, "numa_node", nodeless)


def report_lacking(read: Reader, name: str, lacking: list[PciEntry]) -> None:
    """Report one attribute that functions lack, as a single entry."""
    if len(lacking) == 1:
        read.problem(f"{lacking[0].path}/{name}", "is absent", f"{name} of {lacking[0].address} is unknown")
    elif lacking:
        shown = first_few([entry.address for entry in lacking], _SHOWN)
        read.problem(DEVICES, f"{name} is absent from {len(lacking)} functions: {shown}", f"their {name} is unknown")


def _report_unlisted(read: Reader, entries: list[PciEntry]) -> None:
    """Report functions that are in the device tree, above or below others, but not on the bus."""
    known = {name for root in _roots(read, entries) for name in read.names(root)}
    for entry in entries:
        known |= entry.attributes
        known.update(entry.location.bridges if entry.location is not None else ())
    lost = known.difference(entry.address for entry in entries)
    for address in sorted((name for name in lost if is_pci_address(name)), key=pci_order):
        read.problem(f"{DEVICES}/{address}", "is absent, although /sys/devices has it", "the function is ignored")


def _roots(read: Reader, entries: list[PciEntry]) -> set[str]:
    """Return the paths of all host bridges, including those without functions on the bus."""
    roots = set(_plain_roots(read))
    odd: set[str] = set()
    for entry in entries:
        roots |= {f"{entry.path}/{name}" for name in entry.attributes if is_host_bridge(name)}  # nested: Intel VMD
        location = entry.location
        if (
            location is not None
            and location.host_function is None
            and "/" in location.root
            and location.root not in roots
        ):
            odd.add(location.root)
    # Hyper-V gives each device its own VMBUS channel, and the channel a host bridge: so the sibling channels show it
    buses = {root.rpartition("/")[0].rpartition("/")[0] for root in odd}
    for channel in [f"{bus}/{name}" for bus in buses for name in read.names(bus)]:
        odd |= {f"{channel}/{name}" for name in _directory(read, channel) if is_host_bridge(name)}
    return roots | odd


def _plain_roots(read: Reader) -> list[str]:
    """Return the paths of the host bridges that are not part of another device."""
    return [f"sys/devices/{name}" for name in read.names("sys/devices") if is_host_bridge(name)]


def _directory(read: Reader, path: str) -> list[str]:
    """Return the names in a directory; the path may also be a file."""
    try:
        return read.files.names(path)
    except OSError:
        return []

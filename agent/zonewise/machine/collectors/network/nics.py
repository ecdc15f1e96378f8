"""Network devices: every netdev, and every PCI function of the network class without a visible netdev.

/sys/class/net shows the network namespace in which it was mounted. If a NIC is moved into a pod, its netdev disappears
from this directory while its PCI function remains. The same applies to a NIC that a driver passes to a virtual machine,
and to one without a driver. They are hardware of the node all the same, and are listed under their PCI address;
`presence` has the reason.
"""

from __future__ import annotations

import errno
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.attributes import Attributes
from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.network import netdev
from zonewise.machine.collectors.pci.bus import DEVICES
from zonewise.machine.model.network import Nic
from zonewise.machine.reader import first_few, natural
from zonewise.machine.sysfs import device_pci_address

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.reader import Reader

CLASS = "sys/class/net"

_NO_DEVICE = "bonding_masters"  # drivers/net/bonding/bond_sysfs.c adds this file to the class directory itself
_VIRTUAL = netdev.VIRTUAL_DEVICES.removeprefix("sys/")

_ETHERNET = "0200"  # include/linux/pci_ids.h PCI_CLASS_NETWORK_ETHERNET: its drivers always create netdevs

_ALWAYS = ("operstate", "mtu", "address", "type")
"""net/core/net-sysfs.c creates these for every netdev."""

_USER_SPACE_DRIVERS = frozenset({"uio_pci_generic", "igb_uio", "pci-stub", "xen-pciback", "pciback"})
_NET_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})


class _Entry(NamedTuple):
    """A netdev as listed."""

    name: str
    target: str
    """The actual path of its directory."""
    attributes: Attributes
    address: str | None
    virtual: bool


class _Facts(NamedTuple):
    """The facts of the machine that are needed to read a netdev."""

    functions: dict[str, PciFunction]
    zones: frozenset[int]
    vlans: dict[str, str]
    """The lower device of each VLAN."""
    port_attribute: str
    """"dev_port", or "dev_id" if no netdev has dev_port (kernels before 3.15)."""


def _collect(read: Reader, machine: Machine) -> Machine:
    functions = {function.address: function for function in machine.pci}
    network = [function for function in machine.pci if netdev.is_network(function)]
    names = [name for name in read.names(CLASS) if name != _NO_DEVICE]
    if not names and any(function.driver is not None and function.pci_class == _ETHERNET for function in network):
        read.problem(CLASS, "lists nothing, not even the loopback device", "the directories of PCI functions")
    entries = {name: _entry(read, name) for name in names}
    for path in (f"{netdev.VIRTUAL_DEVICES}/net/{name}" for name in read.names(f"{netdev.VIRTUAL_DEVICES}/net")):
        _add_lost(read, path, None, entries)
    presence = {function.address: _presence(read, function, entries) for function in network}
    if not entries and not network:
        raise NoData("no network device")
    _report_dead(read, entries.values())
    zones = frozenset(zone.id for zone in machine.zones)
    facts = _Facts(functions, zones, netdev.vlans(read), _port_attribute(entries))
    shown = {entry.address for entry in entries.values()}
    shown_nics = [_nic(entries[name], facts) for name in natural(list(entries))]
    hidden = [_hidden(read, each, presence[each.address]) for each in network if each.address not in shown]
    return machine._replace(nics=(*shown_nics, *hidden))


# --- netdevs and functions


def _entry(read: Reader, name: str) -> _Entry:
    path = f"{CLASS}/{name}"
    attributes = Attributes(read, path, f"nics.{name}", name)
    target = read.link(path) or path
    # before kernel 2.6.25, and in trees made by hand, the entry is a directory and not a link
    virtual = _VIRTUAL in target or (target == path and bool(attributes.names) and "device" not in attributes.names)
    address = None if virtual else device_pci_address(read, path)
    read.source(attributes.fact, path, target, "the target of the link, through its PCI function if it has one")
    return _Entry(name, target, attributes, address, virtual)


def _presence(read: Reader, function: PciFunction, entries: dict[str, _Entry]) -> str:
    """Return the state of a function without a visible netdev; add its netdevs that the class does not list.

    The driver core keeps a directory `net` in a function as long as the function has a netdev in any namespace. Listed
    from another namespace the directory is empty (drivers/base/core.c class_dir_create_and_add(), fs/kernfs/dir.c).
    """
    if function.driver is None:
        return "no driver"
    if "vfio" in function.driver or function.driver in _USER_SPACE_DRIVERS:
        return "user space"
    directories = _net_directories(read, function)
    for path in (f"{directory}/{name}" for directory, names in directories.items() for name in names):
        _add_lost(read, path, function.address, entries)
    return "other namespace" if directories else "no netdev"


def _add_lost(read: Reader, path: str, address: str | None, entries: dict[str, _Entry]) -> None:
    """Add a netdev from the device tree, unless the class shows it as well."""
    name = posixpath.basename(path)
    known = entries.get(name)
    if known is not None and known.attributes.names and known.address == address:
        return
    if known is None or not known.attributes.names:
        read.problem(f"{CLASS}/{name}", "leads to no device, although one of that name exists", f"/{path}")
    entries[name] = _Entry(name, path, Attributes(read, path, f"nics.{name}", name), address, address is None)
    read.source(f"nics.{name}", path, name, "the device whose directory contains it")


def _net_directories(read: Reader, function: PciFunction) -> dict[str, list[str]]:
    """Return the content of the netdev directories below a function, by path."""
    function_path = f"{DEVICES}/{function.address}"
    below = [function_path]
    if function.driver == "virtio-pci":
        below += [f"{function_path}/{name}" for name in read.names(function_path) if name.startswith("virtio")]
    names_by_directory: dict[str, list[str]] = {}
    for path in (f"{directory}/net" for directory in below):
        try:
            names_by_directory[path] = natural(read.files.names(path))
        except OSError as error:
            if error.errno not in _NET_ABSENT:
                read.problem(path, f"cannot be listed: {error.strerror}", "its netdevs are unknown")
    return names_by_directory


def _hidden(read: Reader, function: PciFunction, presence: str) -> Nic:
    address = function.address
    rule = "a PCI function of a network class without a netdev in this network namespace"
    read.source(f"nics.{address}", f"{DEVICES}/{address}", function.driver, rule)
    return Nic(
        name=address,
        address=address,
        zone=function.zone,
        driver=function.driver,
        speed_mbps=None,
        state=None,
        mac=None,
        link_layer=None,
        sriov=function.sriov,
        rdma=None,
        physical_function=function.physical_function,
        presence=presence,
    )


def _report_dead(read: Reader, entries: Iterable[_Entry]) -> None:
    """Report, in one entry, the netdevs of which only the name is left."""
    dead = [entry.name for entry in entries if not entry.attributes.names]
    if len(dead) == 1:
        read.problem(f"{CLASS}/{dead[0]}", "is a broken link", "its name, and the path in the link")
    elif dead:
        shown = first_few(dead, 8)
        used = "their names, and the paths in the links"
        read.problem(CLASS, f"{len(dead)} entries are broken links: {shown}", used)


def _port_attribute(entries: dict[str, _Entry]) -> str:
    known = any("dev_port" in entry.attributes.names for entry in entries.values())
    return (
        "dev_port" if known or not any("dev_id" in entry.attributes.names for entry in entries.values()) else "dev_id"
    )


# --- what each is


def _nic(entry: _Entry, facts: _Facts) -> Nic:
    attributes = entry.attributes
    if attributes.names:
        hardware = () if entry.virtual else ("speed", facts.port_attribute)
        attributes.report_lacking((*_ALWAYS, *hardware))
    link_type = attributes.integer("type", "link_layer", highest=0xFFFF, rule="1: Ethernet, 32: InfiniBand (if_arp.h)")
    below = netdev.lower(attributes, entry.name, facts.vlans)
    function = facts.functions.get(entry.address or "")
    speed = netdev.printed_speed(attributes, link_type)
    return Nic(
        name=entry.name,
        address=entry.address,
        zone=_zone(entry, function, facts),
        driver=_driver(entry, function),
        speed_mbps=netdev.speed_mbps(speed),
        state=attributes.text("operstate", "state"),
        mac=netdev.mac(attributes, link_type),
        link_layer=netdev.LINK_LAYERS.get(link_type or 0),
        sriov=function and function.sriov,
        rdma=None,
        mtu=attributes.integer("mtu", "mtu", highest=(1 << 32) - 1, rule="bytes"),
        virtual=entry.virtual,
        kind=_kind(entry, link_type, below, facts),
        master=netdev.master(attributes),
        lower=below,
        port=None if entry.virtual else netdev.port(attributes, link_type, facts.port_attribute),
        physical_function=function and function.physical_function,
        printed_speed=speed,
    )


def _kind(entry: _Entry, link_type: int | None, below: tuple[str, ...], facts: _Facts) -> str | None:
    if entry.name in facts.vlans:
        return "vlan"
    return netdev.kind(entry.attributes, link_type, below) if entry.virtual else None


def _zone(entry: _Entry, function: PciFunction | None, facts: _Facts) -> int | None:
    attributes = entry.attributes
    if function is not None:
        function_path = f"{DEVICES}/{function.address}"
        attributes.read.source(f"{attributes.fact}.zone", function_path, function.zone, "the zone of its PCI function")
        return function.zone
    if entry.virtual or entry.address is not None or "device" not in attributes.names:
        return None
    # a device on a bus other than PCI: drivers/hv/vmbus_drv.c has the attribute too
    path = f"{attributes.path}/device/numa_node"
    zone = attributes.read.integer(path, fact=f"{attributes.fact}.zone", rule="the zone of the device; -1 means none")
    return zone if zone in facts.zones else None


def _driver(entry: _Entry, function: PciFunction | None) -> str | None:
    """Return the driver of the netdev's device: for a virtio device the virtio driver, not the PCI driver."""
    if entry.virtual:
        return None
    owner = posixpath.basename(posixpath.dirname(posixpath.dirname(entry.target)))
    if function is not None and owner == function.address:
        return function.driver
    attributes = entry.attributes
    path = f"{attributes.path}/device/driver"
    target = attributes.read.link(path) if "device" in attributes.names else None
    if target is None:
        return function and function.driver
    attributes.read.source(f"{attributes.fact}.driver", path, target, "the last part of the link")
    return posixpath.basename(target)


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that come and go, links that go up and down, and changes of a device's bond or bridge."""
    names = peek.names(CLASS)
    signature: list[Hashable] = []
    for path in (f"{CLASS}/{name}" for name in names):
        attributes = ["operstate", "mtu"]
        if _VIRTUAL not in (peek.link(path) or ""):
            attributes.append("speed")
        signature.append((peek.link(f"{path}/master"), *(peek.content(f"{path}/{name}") for name in attributes)))
    return names, tuple(signature)


COLLECTOR = Collector(name="nics", provides=("nics",), needs=("pci", "zones"), collect=_collect, volatile=_volatile)

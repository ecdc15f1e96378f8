"""RDMA devices: InfiniBand, RoCE, iWARP, EFA and software devices, with their ports, GIDs and counters.

The files are those of drivers/infiniband/core/sysfs.c. Drivers differ in the files that they create. So an absent file
is a problem only if another device with the same PCI ids has it, or if every kernel creates it.

Counters change all the time, and a GID table may change with every address of a netdev. Neither triggers the collector:
they are as old as the last change of a port's state, rate or LID. A caller that watches them reads them itself.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.attributes import Attributes
from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.network import netdev, rdma_port
from zonewise.machine.collectors.pci.bus import DEVICES
from zonewise.machine.model.network import RdmaDevice
from zonewise.machine.reader import natural
from zonewise.machine.sysfs import device_pci_address, pci_addresses

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Port
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.reader import Reader

CLASS = "sys/class/infiniband"
_VIRTUAL = netdev.VIRTUAL_DEVICES.removeprefix("sys/")

_ALWAYS = ("node_guid", "node_type", "ports")
_BY_DRIVER = ("sys_image_guid", "fw_ver", "hca_type", "board_id")
_PORT = re.compile(r"[0-9]{1,3}")  # a port number has 8 bits on the wire; switches have a port 0

_SOFTWARE_DESCRIPTIONS = ("rxe", "Software iWARP stack")
"""node_desc of rxe (drivers/infiniband/sw/rxe/rxe_verbs.c) and siw (drivers/infiniband/sw/siw/siw_main.c)."""

_GUID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}")
_NO_GUID = "0000:0000:0000:0000"


class _Listed(NamedTuple):
    """A device whose directories have been listed but not read."""

    attributes: Attributes
    function: PciFunction | None
    address: str | None
    ports: tuple[rdma_port.ListedPort, ...]

    @property
    def kind(self) -> tuple[str | None, ...] | None:
        """Return the kind of the device: its PCI ids, and whether it runs as InfiniBand. Devices of a kind have the
        same files.
        """
        function = self.function
        return function and (function.vendor, function.device, function.pci_class)


def _collect(read: Reader, machine: Machine) -> Machine:
    attributes = {name: _attributes(read, f"{CLASS}/{name}") for name in read.names(CLASS)}
    _add_lost(read, machine.pci, attributes)
    if not attributes:
        raise NoData("no RDMA device")
    functions = {function.address: function for function in machine.pci}
    devices = [_listed(attributes[name], functions) for name in natural(list(attributes))]
    _report_lacking(devices)
    return machine._replace(infiniband=tuple(_device(device) for device in devices))


def _attributes(read: Reader, path: str) -> Attributes:
    name = posixpath.basename(path)
    return Attributes(read, path, f"infiniband.{name}", name)


def _add_lost(read: Reader, functions: Iterable[PciFunction], attributes: dict[str, Attributes]) -> None:
    """Add the devices that the device tree contains and the class does not show."""
    carriers = [function for function in functions if function.driver is not None and netdev.is_network(function)]
    parents = [netdev.VIRTUAL_DEVICES, *(f"{DEVICES}/{function.address}" for function in carriers)]
    for directory in (f"{path}/infiniband" for path in parents):
        for name in read.names(directory):
            if name not in attributes or not attributes[name].names:
                device_path = f"{directory}/{name}"
                read.problem(
                    f"{CLASS}/{name}", "leads to no device, although one of that name exists", f"/{device_path}"
                )
                attributes[name] = _attributes(read, device_path)


def _listed(attributes: Attributes, functions: dict[str, PciFunction]) -> _Listed:
    read, path = attributes.read, attributes.path
    address = device_pci_address(read, path) if path.startswith(CLASS) else next(iter(pci_addresses(path)), None)
    if not attributes.names:
        read.problem(path, "is a broken link", "its name, and the path in the link")
    read.source(attributes.fact, path, address, "the PCI function that the link leads through, if there is one")
    return _Listed(attributes, functions.get(address or ""), address, _listed_ports(attributes))


def _listed_ports(attributes: Attributes) -> tuple[rdma_port.ListedPort, ...]:
    read, path = attributes.read, f"{attributes.path}/ports"
    names = read.names(path) if "ports" in attributes.names else []
    numbers = [int(name) for name in names if _PORT.fullmatch(name)]
    if len(numbers) < len(names) or (not names and "ports" in attributes.names):
        read.problem(path, "contains entries other than numbered ports", f"{len(numbers)} ports of {attributes.what}")
    return tuple(rdma_port.list_port(attributes, index, number) for index, number in enumerate(sorted(set(numbers))))


def _report_lacking(devices: list[_Listed]) -> None:
    """Report absent files that a kernel creates for every device, or a driver for every device of a kind."""
    alive = [device for device in devices if device.attributes.names]
    rdma_port.report_lacking([(port, device.kind) for device in alive for port in device.ports])
    names_by_kind: dict[Hashable, set[str]] = {}
    for device in alive:
        names_by_kind.setdefault(device.kind, set()).update(device.attributes.names.intersection(_BY_DRIVER))
    for device in alive:
        device.attributes.report_lacking((*_ALWAYS, *(names_by_kind[device.kind] if device.kind is not None else ())))


def _device(device: _Listed) -> RdmaDevice:
    attributes, function = device.attributes, device.function
    ports: tuple[Port, ...] = tuple(rdma_port.port(port) for port in device.ports)
    if function is not None:
        path = f"{DEVICES}/{function.address}"
        attributes.read.source(f"{attributes.fact}.zone", path, function.zone, "the zone of its PCI function")
    return RdmaDevice(
        name=attributes.what,
        address=device.address,
        zone=function and function.zone,
        node_guid=_guid(attributes, "node_guid"),
        firmware=attributes.text("fw_ver", "firmware"),
        board=attributes.text("board_id", "board"),
        ports=ports,
        hca_type=attributes.text("hca_type", "hca_type"),
        node_type=rdma_port.state_name(attributes, "node_type", "node_type"),
        netdevs=_parent(attributes),
        sys_image_guid=_guid(attributes, "sys_image_guid"),
        software=_is_software(attributes, device.address),
    )


def _guid(attributes: Attributes, name: str) -> str | None:
    text = attributes.text(name, name)
    if text is None or text == _NO_GUID:
        return None
    if _GUID.fullmatch(text) is None:
        attributes.read.problem(f"{attributes.path}/{name}", f"is not a GUID: {text[:60]!r}", f"{name} is unknown")
        return None
    return text


def _is_software(attributes: Attributes, address: str | None) -> bool:
    """Return whether a driver emulates the device on top of a netdev.

    Such a device has the attribute `parent` (rxe), or it is among the virtual devices. Older kernels put it below the
    PCI function of the netdev; its description then identifies it. The software drivers have no hca_type, so hardware
    is not affected by this rule.
    """
    if "parent" in attributes.names:
        return True
    place = attributes.read.link(attributes.path) or attributes.path
    if address is None and _VIRTUAL in place:
        return True
    if "hca_type" in attributes.names:
        return False
    rule = f"{' or '.join(_SOFTWARE_DESCRIPTIONS)}: emulated on a netdev"
    return attributes.text("node_desc", "software", rule) in _SOFTWARE_DESCRIPTIONS


def _parent(attributes: Attributes) -> tuple[str, ...]:
    """Return the netdev below a software device (drivers/infiniband/sw/rxe/rxe_verbs.c parent_show())."""
    parent = attributes.text("parent", "netdevs", "the netdev on which it runs")
    return (parent,) if parent else ()


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that come and go, and ports that go up and down, change their rate or get a LID."""
    devices = peek.names(CLASS)
    ports = [f"{CLASS}/{name}/ports/{port}" for name in devices for port in peek.names(f"{CLASS}/{name}/ports")]
    return devices, tuple(peek.content(f"{port}/{name}") for port in ports for name in rdma_port.VOLATILE)


COLLECTOR = Collector(name="infiniband", provides=("infiniband",), needs=("pci",), collect=_collect, volatile=_volatile)

"""Whole block devices of the hardware: NVMe namespaces, SCSI and virtio disks, persistent memory.

Devices that software makes of them (partitions, device mapper, RAID, loop, RBD) are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.pci.locality import nearest_cpu_zone
from zonewise.machine.model.host import BlockDevice
from zonewise.machine.sysfs import device_pci_address, pci_addresses

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Zone
    from zonewise.machine.reader import Reader

_LISTS = ("sys/class/block", "sys/block")  # the first since kernel 2.6.26, with partitions; the second without
_SOFTWARE = ("sys/devices/virtual/", "sys/devices/rbd/")
_MULTIPATH = "sys/devices/virtual/nvme-subsystem/"  # drivers/nvme/host/multipath.c: one head for several controllers
_SECTOR = 512  # block/genhd.c: `size` counts sectors of 512 bytes, whatever the device's own sector size
_MAX_SECTORS = 1 << 55  # loff_t limits a device to 2^63 bytes

_TRANSPORTS = (("/ndbus", "pmem"), ("/target", "scsi"), ("/nvme", "nvme"), ("/virtio", "virtio"))
"""Path components that identify the transport, nearest to the device first: a disk of virtio-scsi is a SCSI disk."""


class _Disk(NamedTuple):
    name: str
    path: str
    """As the class lists it."""
    target: str
    """The target of that path if it is a link, else the same path."""


def _collect(read: Reader, machine: Machine) -> Machine:
    disks = _disks(read)
    if not disks:
        raise NoData("no block device of the hardware")
    zones = {function.address: function.zone for function in machine.pci}
    return machine._replace(block_devices=tuple(_block_device(read, disk, machine.zones, zones) for disk in disks))


def _disks(read: Reader) -> list[_Disk]:
    directory = next((directory for directory in _LISTS if read.has(directory)), _LISTS[0])
    if directory != _LISTS[0]:
        read.problem(_LISTS[0], "is absent", f"/{directory}")
    names = read.names(directory)
    listed = set(names)
    disks: list[_Disk] = []
    for name in names:
        path = f"{directory}/{name}"
        link = read.link(path)
        target = path if link is None else link
        if _parent(target) not in listed and not _is_hidden(name) and not _is_software(read, path, target):
            disks.append(_Disk(name, path, target))
    return disks


def _parent(path: str) -> str:
    """Return the name of the directory that contains a device: for a partition, the whole device."""
    return path.rpartition("/")[0].rpartition("/")[2]


def _is_hidden(name: str) -> bool:
    """Return whether a device is one controller's path ("nvme0c1n1") to the namespace of a multipath head."""
    return name.startswith("nvme") and "c" in name


def _is_software(read: Reader, path: str, target: str) -> bool:
    if target == path:  # a kernel before 2.6.26: only hardware has a link to its device
        return read.link(f"{path}/device") is None
    return target.startswith(_SOFTWARE) and not target.startswith(_MULTIPATH)


def _block_device(
    read: Reader, disk: _Disk, zones: tuple[Zone, ...], zones_by_address: dict[str, int | None]
) -> BlockDevice:
    address = _address(read, disk)
    transport = next((name for part, name in _TRANSPORTS if part in disk.target), None)
    # SCSI disks have a model, and NVMe namespaces since a controller is their parent (kernel 3.20)
    names_model = transport == "scsi" or _parent(disk.target).startswith("nvme")
    fact = f"block_devices.{disk.name}"
    read.source(fact, disk.path, disk.target, "the directories in the target of its link")
    needed = f"model of {disk.name}" if names_model else ""
    return BlockDevice(
        name=disk.name,
        address=address,
        zone=zones_by_address.get(address) if address is not None else _own_zone(read, disk, transport, zones),
        size=_size(read, disk),
        rotational=_switch(read, disk, "rotational", needed=f"rotational of {disk.name}"),
        model=read.text(f"{disk.path}/device/model", fact=f"{fact}.model", needed=needed),
        transport=transport,
        dax=_switch(read, disk, "dax"),
        zoned=read.text(f"{disk.path}/queue/zoned", fact=f"{fact}.zoned"),
        zone_count=read.integer(
            f"{disk.path}/queue/nr_zones", fact=f"{fact}.zone_count", rule="the number in the file"
        ),
    )


def _address(read: Reader, disk: _Disk) -> str | None:
    """Return the PCI function of the device; if an NVMe namespace has several controllers, that of the first."""
    if disk.target == disk.path:
        return device_pci_address(read, disk.path)
    if not disk.target.startswith(_MULTIPATH):
        return next(reversed(pci_addresses(disk.target)), None)
    subsystem = disk.target.rpartition("/")[0]
    controllers = [name for name in read.names(subsystem) if name.startswith("nvme") and name[4:].isdecimal()]
    addresses = (device_pci_address(read, f"{subsystem}/{name}") for name in controllers)
    return next((address for address in addresses if address is not None), None)


def _own_zone(read: Reader, disk: _Disk, transport: str | None, zones: tuple[Zone, ...]) -> int | None:
    """Return the zone that a device without a PCI function reports itself, as persistent memory does."""
    if transport != "pmem":
        return None
    path, needed = f"{disk.path}/device/numa_node", f"zone of {disk.name}"
    fact, rule = f"block_devices.{disk.name}.zone", "the zone in the device's file"
    node = read.integer(path, fact=fact, rule=rule, needed=needed)
    if node is None or node < 0:
        return None
    zone = next((zone for zone in zones if zone.id == node), None)
    if zone is None:
        read.problem(path, f"contains zone {node}, which does not exist", f"{needed} is unknown")
        return None
    return zone.id if zone.cpus else nearest_cpu_zone(zones, zone)


def _size(read: Reader, disk: _Disk) -> int | None:
    path, needed = f"{disk.path}/size", f"size of {disk.name}"
    rule = "sectors of 512 bytes"
    sectors = read.integer(path, fact=f"block_devices.{disk.name}.size", rule=rule, needed=needed)
    if sectors is None:
        return None
    if not 0 <= sectors < _MAX_SECTORS:
        read.problem(path, f"contains {sectors} sectors, which no device has", f"{needed} is unknown")
        return None
    return sectors * _SECTOR


def _switch(read: Reader, disk: _Disk, name: str, *, needed: str = "") -> bool | None:
    """Return a queue attribute of the device that is 0 or 1; `needed` if every kernel has it."""
    path = f"{disk.path}/queue/{name}"
    value = read.integer(path, fact=f"block_devices.{disk.name}.{name}", rule="1 means yes", needed=needed)
    if value is not None and value not in (0, 1):
        read.problem(path, f"contains {value}, neither 0 nor 1", f"{name} of {disk.name} is unknown")
        return None
    return None if value is None else bool(value)


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that come and go, and virtual machine disks that grow."""
    signature: list[tuple[str, str | None, object]] = []
    for directory in _LISTS:
        for name in peek.names(directory):
            target = peek.link(f"{directory}/{name}")
            if target is None or "/virtual/" not in target or _MULTIPATH.removeprefix("sys") in target:
                signature.append((name, target, peek.content(f"{directory}/{name}/size")))
        if signature:
            break
    return tuple(signature)


COLLECTOR = Collector(
    name="storage", provides=("block_devices",), needs=("pci", "zones"), collect=_collect, volatile=_volatile
)

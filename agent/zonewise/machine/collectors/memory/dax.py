"""DAX devices: persistent or specific-purpose memory that a program maps whole or the kernel makes into a zone.

Source: drivers/dax/bus.c of the kernel. The parent of the device shows its kind of memory: an NVDIMM bus (ndbus), a CXL
region, or a device that the firmware has set aside (hmem).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.memory.zone_cpus import MAX_NODES
from zonewise.machine.collectors.memory.zone_memory import MAX_MEMORY
from zonewise.machine.model.host import DaxDevice

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

DEVICES = "sys/bus/dax/devices"
DRIVERS = "sys/bus/dax/drivers"

_NAME = re.compile(r"dax\d{1,6}\.\d{1,6}")
_DRIVERS = ("kmem", "device_dax", "fsdev_dax")
_CXL_REGION = re.compile(r"/decoder\d+\.\d+/region\d+/")  # drivers/cxl/core/region.c
_NVDIMM_BUS = re.compile(r"/ndbus\d+/")  # drivers/nvdimm/bus.c


def _collect(read: Reader, machine: Machine) -> Machine:
    names = [name for name in read.names(DEVICES) if _NAME.fullmatch(name)]
    if not names:
        _report_lost_bus(read)
        raise NoData("no DAX devices")
    bound = {name: driver for driver in _DRIVERS for name in read.names(f"{DRIVERS}/{driver}")}
    return machine._replace(dax_devices=tuple(_device(read, name, bound.get(name)) for name in names))


def _report_lost_bus(read: Reader) -> None:
    """Report a lost list of DAX devices, as opposed to a machine without any."""
    for driver in _DRIVERS:
        if bound := [name for name in read.names(f"{DRIVERS}/{driver}") if _NAME.fullmatch(name)]:
            read.problem(DEVICES, f"lists nothing, although driver {driver} has {bound[0]}", "no DAX device is known")


def _device(read: Reader, name: str, bound: str | None) -> DaxDevice:
    path, fact = f"{DEVICES}/{name}", f"dax_devices.{name}"
    target = read.link(path)
    parent = f"/{target or ''}/"
    driver = bound or _announced_driver(read, path)
    read.source(fact, path, target, "the parent of the device shows the kind of memory")
    read.source(f"{fact}.driver", f"{DRIVERS}/{driver}", driver, "the driver whose directory lists the device")
    if target is None:
        read.problem(path, "is not a link", f"the kind of memory of {name} is unknown")
    return DaxDevice(
        name,
        _node(read, f"{path}/target_node", f"{fact}.zone", needed=f"{fact}.zone"),
        _size(read, f"{path}/size", fact),
        driver,
        None if target is None else "NVM" if _NVDIMM_BUS.search(parent) else "SPM",
        numa_node=_nearest_zone(read, path, target, fact),
        cxl=_CXL_REGION.search(parent) is not None,
    )


def _announced_driver(read: Reader, path: str) -> str | None:
    """Return the driver that the device's uevent names (drivers/base/core.c dev_uevent()); None if it names none."""
    lines = (read.raw(f"{path}/uevent") or b"").split(b"\n")
    names = [line.removeprefix(b"DRIVER=") for line in lines if line.startswith(b"DRIVER=")]
    return names[0].decode() if names and names[0].decode("ascii", "ignore") in _DRIVERS else None


def _size(read: Reader, path: str, fact: str) -> int | None:
    size = read.integer(path, fact=f"{fact}.size", rule="bytes", needed=f"{fact}.size")
    if size is None or 0 <= size < MAX_MEMORY:
        return size
    read.problem(path, f"contains {size} bytes", f"{fact}.size is unknown")
    return None


def _nearest_zone(read: Reader, path: str, target: str | None, fact: str) -> int | None:
    """Return the node nearest to the device, by the device itself or else by its parent.

    Kernels before 5.10 have the node only for the parent.
    """
    near = _node(read, f"{path}/numa_node", f"{fact}.numa_node")
    if near is not None or target is None:
        return near
    return _node(read, f"{target.rpartition('/')[0]}/numa_node", f"{fact}.numa_node")


def _node(read: Reader, path: str, fact: str, needed: str = "") -> int | None:
    node = read.integer(path, fact=fact, rule="the number in the file; -1 means none", needed=needed)
    if node is None or node < 0:
        return None
    if node < MAX_NODES:
        return node
    read.problem(path, f"contains node {node}", f"{fact} is unknown")
    return None


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that appear, disappear, or change their driver (daxctl reconfigure-device) or size."""
    names = peek.names(DEVICES)
    paths = [f"{DEVICES}/{name}" for name in names]
    return names, tuple((peek.link(f"{path}/driver"), peek.content(f"{path}/size")) for path in paths)


COLLECTOR = Collector(name="dax", provides=("dax_devices",), needs=(), collect=_collect, volatile=_volatile)

"""Non-volatile memory: the devices of the kernel's bus for it (drivers/nvdimm/bus.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.attributes import Attributes
from zonewise.machine.collector import Collector, NoData
from zonewise.machine.model.host import Nvdimm

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

DEVICES = "sys/bus/nd/devices"


def _collect(read: Reader, machine: Machine) -> Machine:
    names = read.names(DEVICES)
    if not names:
        raise NoData("no non-volatile memory")
    read.source("nvdimms", DEVICES, len(names), "devtype and mode of each device")
    return machine._replace(nvdimms=tuple(_device(read, name) for name in names))


def _device(read: Reader, name: str) -> Nvdimm:
    attributes = Attributes(read, f"{DEVICES}/{name}", "nvdimms", name)
    attributes.report_lacking(("devtype",))
    return Nvdimm(name, attributes.text("devtype", "type"), attributes.text("mode", "mode"))


def _volatile(peek: Peek) -> Hashable:
    """Notice namespaces that appear, disappear or change their mode (ndctl)."""
    names = peek.names(DEVICES)
    return names, tuple(peek.content(f"{DEVICES}/{name}/mode") for name in names)


COLLECTOR = Collector("nvdimm", provides=("nvdimms",), needs=(), collect=_collect, volatile=_volatile)

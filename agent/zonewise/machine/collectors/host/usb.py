"""USB devices with vendor, product and class. Serial numbers are never read: they identify property."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.model.host import UsbDevice

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

DEVICES = "sys/bus/usb/devices"

# drivers/usb/core/usb.c usb_alloc_dev() and message.c: "usb1", "1-2.1" for devices, "1-2.1:1.0" for interfaces
_DEVICE = re.compile(r"usb\d{1,4}|\d{1,4}-[\d.]{1,24}")
_INTERFACE = re.compile(r"(\d{1,4}-[\d.]{1,24}):\d{1,3}\.\d{1,3}")
_BY_INTERFACE = "00"  # include/uapi/linux/usb/ch9.h USB_CLASS_PER_INTERFACE


def _collect(read: Reader, machine: Machine) -> Machine:
    names = read.names(DEVICES)
    devices = [name for name in names if _DEVICE.fullmatch(name)]
    if not devices:
        raise NoData("no USB devices")
    interfaces: dict[str, list[str]] = {}
    for name in names:
        if match := _INTERFACE.fullmatch(name):
            interfaces.setdefault(match[1], []).append(name)
    read.source("usb", DEVICES, len(devices), "idVendor, idProduct, bDeviceClass and bInterfaceClass of each device")
    return machine._replace(usb=tuple(_device(read, name, interfaces.get(name, [])) for name in devices))


def _device(read: Reader, name: str, interfaces: list[str]) -> UsbDevice:
    own = _digits(read, f"{DEVICES}/{name}/bDeviceClass", 2, f"class of USB device {name}")
    classes = [own]
    if own == _BY_INTERFACE:
        what = f"class of an interface of USB device {name}"
        classes = [_digits(read, f"{DEVICES}/{interface}/bInterfaceClass", 2, what) for interface in interfaces]
    return UsbDevice(
        name,
        _digits(read, f"{DEVICES}/{name}/idVendor", 4, f"vendor of USB device {name}"),
        _digits(read, f"{DEVICES}/{name}/idProduct", 4, f"product of USB device {name}"),
        tuple(usb_class for usb_class in classes if usb_class is not None),
    )


def _digits(read: Reader, path: str, length: int, needed: str) -> str | None:
    text = read.text(path, needed=needed)
    if text is None or re.fullmatch(f"[0-9a-f]{{{length}}}", text):
        return text
    read.problem(path, f"is not {length} hexadecimal digits: {text[:60]!r}", f"{needed} is unknown")
    return None


def _volatile(peek: Peek) -> Hashable:
    """Notice devices that are plugged in or unplugged."""
    return peek.names(DEVICES)


COLLECTOR = Collector("usb", provides=("usb",), needs=(), collect=_collect, volatile=_volatile)

"""Drivers by which a hypervisor takes memory from a guest and returns it: less memory is then no fault.

They reduce the kernel's managed pages, and so MemTotal (drivers/virtio/virtio_balloon.c, drivers/hv/hv_balloon.c and
drivers/xen/balloon.c: adjust_managed_page_count). virtio-mem removes whole blocks (drivers/virtio/virtio_mem.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

_DRIVERS = (
    "sys/bus/virtio/drivers/virtio_balloon",
    "sys/bus/virtio/drivers/virtio_mem",
    "sys/bus/vmbus/drivers/hv_balloon",
)
_ATTRIBUTES = frozenset({"bind", "unbind", "uevent", "module", "new_id", "remove_id"})
"""Entries of a driver's directory that are not its devices."""
_XEN = "sys/devices/system/xen_memory/xen_memory0"


def has_balloon(read: Reader) -> bool:
    """Return whether a hypervisor may take memory from this machine."""
    return read.has(_XEN) or any(set(read.names(driver)) - _ATTRIBUTES for driver in _DRIVERS)

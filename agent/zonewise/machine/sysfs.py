"""The location of a device in sysfs: its PCI function, the bridges above it, and its host bridge.

The kernel has one directory per device, inside the directory of its parent. Every other path to it (/sys/class,
/sys/bus) is a symbolic link into this tree. So one readlink contains the whole path from the root complex to a device:
Documentation/admin-guide/sysfs-rules.rst of the kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

# drivers/pci/probe.c pci_setup_device() names a function "%04x:%02x:%02x.%d". The domain has four digits or, if
# it is larger, more: x86 VMD and Hyper-V domains have up to 32 bits
_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")

# drivers/pci/probe.c pci_register_host_bridge() names a host bridge "pci%04x:%02x", by domain and first bus
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")

_TREE = "sys/devices/"  # has the only real directory of each device, so that no further link must be followed
_MAX_HOPS = 3  # an entry, or its `device`, links to it directly or through the entry of a bus


def is_pci_address(name: str) -> bool:
    """Return whether a name is the full, lower-case address of a PCI function: "0000:3b:00.0"."""
    return _ADDRESS.fullmatch(name) is not None


def is_host_bridge(name: str) -> bool:
    """Return whether a name is the name of a host bridge: "pci0000:3a"."""
    return _HOST_BRIDGE.fullmatch(name) is not None


def pci_addresses(path: str) -> list[str]:
    """Return the addresses of the PCI functions among the components of a path, topmost first."""
    return [part for part in path.split("/") if is_pci_address(part)]


class PciLocation(NamedTuple):
    """The location of a PCI function in the tree."""

    root: str
    """The path of the host bridge; domain and bus ("0004:05") if the path contains no host bridge."""
    bridges: tuple[str, ...]
    """The addresses of the bridges between the host bridge and the function, topmost first."""
    host_function: str | None
    """The function that contains the host bridge, if the bridge is nested (Intel VMD)."""


def pci_order(address: str) -> tuple[int, str]:
    """Return the key that sorts addresses by domain, bus, device and function as numbers."""
    domain, _, rest = address.partition(":")
    return int(domain, 16), rest  # the rest has a fixed width


def pci_location(path: str) -> PciLocation:
    """Return the location of the PCI function whose address ends the path.

    The host bridge is the last one in the path. It is directly below /sys/devices, a platform device, a Hyper-V channel
    or, with Intel VMD, a PCI function of another host bridge. A tree may have no host bridge (made by hand, or with
    directories below /sys/bus/pci/devices). Then the domain and bus of the topmost function represent it.
    """
    parts = path.split("/")
    last = max((at for at, part in enumerate(parts) if is_host_bridge(part)), default=None)
    if last is None:
        functions = [part for part in parts if is_pci_address(part)]
        return PciLocation(functions[0].rpartition(":")[0], tuple(functions[:-1]), None)
    above = [part for part in parts[:last] if is_pci_address(part)]
    bridges = tuple(part for part in parts[last + 1 : -1] if is_pci_address(part))
    return PciLocation("/".join(parts[: last + 1]), bridges, above[-1] if above else None)


def device_pci_address(read: Reader, path: str) -> str | None:
    """Return the address of the PCI function that provides a device of a class or bus; None if there is none.

    `path` is the entry in the class ("sys/class/net/eth0"): a link into the tree of devices. The last address in the
    link is the function's, whatever follows it (a virtio device, an NVMe or SCSI controller). Kernels before 2.6.25,
    and trees made by hand, have a directory instead, with a link `device` inside.
    """
    target = read.link(path)
    if target is None:
        target = read.link(f"{path}/device")
    for _ in range(_MAX_HOPS):
        if target is None:
            return None
        if target.startswith(_TREE) or pci_addresses(target):
            return next(reversed(pci_addresses(target)), None)
        target = read.link(target)
    return None

"""The attributes of one netdev: its speed and port, the driver that made it, and its lower devices.

The rules follow net/core/net-sysfs.c and the drivers that add files of their own.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from zonewise.machine.collectors.pci.classes import INFINIBAND, NETWORK
from zonewise.machine.reader import natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.machine.attributes import Attributes
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.reader import Reader

VIRTUAL_DEVICES = "sys/devices/virtual"
"""The directory in which drivers/base/core.c puts devices without a parent, by class."""

# include/uapi/linux/if_arp.h
_ETHERNET, _INFINIBAND, _LOOPBACK = 1, 32, 772
LINK_LAYERS = {_ETHERNET: "Ethernet", _INFINIBAND: "InfiniBand"}
"""The link layer by the attribute `type`."""

# include/uapi/linux/ethtool.h SPEED_UNKNOWN is -1. Kernels printed it as a signed number, as an unsigned one and, when
# speeds had 16 bits, as 65535. Drivers also print 0.
_UNKNOWN_SPEEDS = (-1, 0, 0xFFFF, 0xFFFFFFFF)
_IFF_TAP = 0x0002  # include/uapi/linux/if_tun.h: Ethernet frames rather than IP packets


def is_network(function: PciFunction) -> bool:
    """Return whether a PCI function is a NIC by its class: a network controller or an old HCA."""
    return (function.pci_class or "").startswith((NETWORK, INFINIBAND))


def vlans(read: Reader) -> dict[str, str]:
    """Return the device below each VLAN, from the rows of net/8021q/vlanproc.c: "eth0.100      | 100  | eth0"."""
    text = read.text("proc/net/vlan/config") or ""
    rows = ([part.strip() for part in line.split("|")] for line in text.splitlines())
    return {row[0]: row[2] for row in rows if len(row) == 3}


def printed_speed(attributes: Attributes, link_type: int | None) -> int | None:
    """Return the speed as the kernel prints it, in Mb/s; -1 if the driver reports none, None if the link is down.

    Reading `speed` fails with EINVAL if the device is down or has no link settings. In copies of a machine's files the
    file is then empty; `duplex` comes from the same settings, so it is empty as well (net/core/net-sysfs.c).
    """
    if link_type == _LOOPBACK:
        return None
    read, duplex = attributes.read, f"{attributes.path}/duplex"
    return attributes.integer(
        "speed",
        "speed_mbps",
        lowest=-1,
        highest=(1 << 32) - 1,
        rule="Mb/s; -1 means unknown",
        needed=False,
        no_number=lambda content: not content and read.raw(duplex) == b"",
    )


def speed_mbps(printed: int | None) -> int | None:
    """Return a printed speed in Mb/s; None for the numbers that kernels and drivers print for an unknown speed."""
    return None if printed in _UNKNOWN_SPEEDS else printed


def mac(attributes: Attributes, link_type: int | None) -> str | None:
    """Return the hardware address as the kernel prints it."""
    if link_type in (_ETHERNET, _INFINIBAND, _LOOPBACK):
        return attributes.text("address", "mac", "the hardware address; 20 bytes for InfiniBand")
    # a tunnel has no hardware address: its file has an empty line
    path = f"{attributes.path}/address"
    return attributes.read.text(path, fact=f"{attributes.fact}.mac") if "address" in attributes.names else None


def port(attributes: Attributes, link_type: int | None, name: str) -> int | None:
    """Return the index of a netdev's port in its PCI function, from 0, by `name`: dev_port, or dev_id before kernel
    3.15.
    """
    rule = "which port of its PCI function, from 0"
    base = 16 if name == "dev_id" else 10
    number = attributes.integer(name, "port", base=base, highest=0xFFFF, rule=rule)
    if number == 0 and link_type == _INFINIBAND and name == "dev_port":
        # before kernel 4.20 drivers/infiniband/ulp/ipoib had its port only in dev_id
        return attributes.integer("dev_id", "port", base=16, highest=0xFFFF, rule=rule) or 0
    return number


def kind(attributes: Attributes, link_type: int | None, below: tuple[str, ...]) -> str | None:
    """Return the kind of a virtual device, by the files that its driver adds to its directory; None if
    there are none.
    """
    names = attributes.names
    if link_type == _LOOPBACK:
        return "loopback"
    for directory, device_kind in (("bonding", "bond"), ("bridge", "bridge")):
        if directory in names:
            return device_kind
    if "tun_flags" in names:  # drivers/net/tun.c
        flags = attributes.integer("tun_flags", "kind", base=16, rule="IFF_TAP in the flags")
        return None if flags is None else "tap" if flags & _IFF_TAP else "tun"
    if (named := _device_type(attributes)) is not None:
        return named
    return "veth" if link_type == _ETHERNET and not below and _has_peer(attributes) else None


def _device_type(attributes: Attributes) -> str | None:
    """Return DEVTYPE, in which the drivers of VLANs, tunnels and others name themselves (SET_NETDEV_DEVTYPE)."""
    if "uevent" not in attributes.names:
        return None
    path = f"{attributes.path}/uevent"
    for line in (attributes.read.text(path) or "").splitlines():
        name, _, value = line.partition("=")
        if name == "DEVTYPE" and value:
            attributes.read.source(f"{attributes.fact}.kind", path, line, "DEVTYPE")
            return value
    return None


def _has_peer(attributes: Attributes) -> bool:
    """Return whether the device is one end of a linked pair (drivers/net/veth.c veth_get_iflink())."""
    own = attributes.integer("ifindex", "kind", rule="differs from iflink, the index of a veth's peer")
    peer = attributes.integer("iflink", "kind", rule="the index of a veth's peer")
    return bool(own and peer and own != peer)


def master(attributes: Attributes) -> str | None:
    """Return the name of the bond or bridge of which a device is a port."""
    # on kernels before 3.9 bridges have a link inside brport instead
    for name in ("master", "brport"):
        if name in attributes.names:
            path = f"{attributes.path}/{name}" if name == "master" else f"{attributes.path}/brport/bridge"
            target = attributes.read.link(path)
            attributes.read.source(f"{attributes.fact}.master", path, target, "the last part of the link")
            return posixpath.basename(target) if target else None
    return None


def lower(attributes: Attributes, name: str, below_vlans: Mapping[str, str]) -> tuple[str, ...]:
    """Return the devices below: from the links lower_* (kernel 3.9), or the older files of bonds, bridges and VLANs."""
    names = [entry.removeprefix("lower_") for entry in attributes.names if entry.startswith("lower_")]
    if not names and "bonding" in attributes.names:
        names = (attributes.read.text(f"{attributes.path}/bonding/slaves") or "").split()
    if not names and "brif" in attributes.names:
        names = attributes.read.names(f"{attributes.path}/brif")
    if not names and name in below_vlans:
        names = [below_vlans[name]]
    return tuple(natural(names))

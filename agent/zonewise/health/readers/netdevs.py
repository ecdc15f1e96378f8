"""Current state of network devices: /sys/class/net/*/carrier, carrier_down_count and speed.

Source: net/core/net-sysfs.c. Carrier and speed cannot be read while the device is administratively down; that is not a
fault. A representor is a netdev of the NIC's own switch, and stands for a virtual function or a subfunction. It has a
carrier as long as a pod uses that function, so it shows nothing about the NIC (Documentation/networking/switchdev.rst).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.health.types import NicReading
from zonewise.machine.collectors.network.netdev import speed_mbps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.reader import Reader

_CLASS = "sys/class/net"
_REPRESENTOR = re.compile(r"(?:c[0-9]{1,5})?pf[0-9]{1,5}(?:vf[0-9]{1,5}|sf[0-9]{1,10})?")
"""Port names in net/devlink/port.c; an uplink is "p0"."""


def read_nics(read: Reader, addresses: Iterable[tuple[str, str]]) -> dict[str, NicReading]:
    """Return network devices by name, from pairs of a name and a PCI address; representors are left out."""
    return {
        name: _nic(read, f"{_CLASS}/{name}", address)
        for name, address in addresses
        if not _REPRESENTOR.fullmatch(read.text(f"{_CLASS}/{name}/phys_port_name") or "")
    }


def _nic(read: Reader, directory: str, address: str) -> NicReading:
    carrier = read.integer(f"{directory}/carrier")
    speed = speed_mbps(read.integer(f"{directory}/speed"))
    losses = read.integer(f"{directory}/carrier_down_count")
    return NicReading(address, None if carrier is None else carrier > 0, speed, losses)

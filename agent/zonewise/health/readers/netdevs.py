"""Current state of network devices: /sys/class/net/*/carrier and speed.

Source: net/core/net-sysfs.c. Neither can be read while the device is administratively down; that is not a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import NicReading
from zonewise.machine.collectors.network.netdev import speed_mbps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.reader import Reader

_CLASS = "sys/class/net"


def read_nics(read: Reader, addresses: Iterable[tuple[str, str]]) -> dict[str, NicReading]:
    """Return network devices by name, from pairs of a name and a PCI address."""
    return {name: _nic(read, f"{_CLASS}/{name}", address) for name, address in addresses}


def _nic(read: Reader, directory: str, address: str) -> NicReading:
    carrier = read.integer(f"{directory}/carrier")
    speed = speed_mbps(read.integer(f"{directory}/speed"))
    return NicReading(address, None if carrier is None else carrier > 0, speed)

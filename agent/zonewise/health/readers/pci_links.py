"""Current PCI Express links: /sys/bus/pci/devices/*/current_link_width and current_link_speed.

Source: drivers/pci/pci-sysfs.c. A device that was removed from the bus has no directory. One that fell off the bus may
still have one; every bit of its registers then reads as one, which makes 63 lanes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.health.types import LinkReading
from zonewise.machine.collectors.gpu.amd_ras import AMDGPU
from zonewise.machine.collectors.pci.functions import DEVICES, LINK_WIDTHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?) GT/s")


def read_addresses(read: Reader) -> frozenset[str] | None:
    """Return the addresses on the bus; None if the machine shows no bus."""
    return frozenset(read.names(DEVICES)) if read.has(DEVICES) else None


def upstream_ports(machine: Machine, addresses: Iterable[str]) -> frozenset[str]:
    """Return the upstream ports of the switches above some functions: each has the link from its switch to the host.

    A path alternates between downstream and upstream ports. A downstream port is left out: its link is that of the
    function or switch directly below it. A switch with nothing but AMD GPUs is left out as well: it may be on the card
    of one, whose driver powers lanes down (drivers/gpu/drm/amd/pm, pp_dpm_pcie).
    """
    bridges = {function.address: function.bridges for function in machine.pci if function.driver != AMDGPU}
    return frozenset(port for address in addresses for port in bridges.get(address, ())[-2::-2])


def attainable_links(machine: Machine, addresses: Iterable[str]) -> dict[str, LinkReading]:
    """Return the best link that a function and the port above it both support; AMD GPUs are left out, as above."""
    functions = {function.address: function for function in machine.pci}
    links: dict[str, LinkReading] = {}
    for function in filter(None, map(functions.get, addresses)):
        port = functions.get(function.parent or "")
        if port is not None and function.link is not None and port.link is not None and function.driver != AMDGPU:
            speeds, widths = zip(
                *((link.max_speed_gts, link.max_width) for link in (function.link, port.link)), strict=True
            )
            links[function.address] = LinkReading(
                None if None in speeds else min(speeds), None if None in widths else min(widths)
            )
    return links


def read_links(read: Reader, addresses: Iterable[str]) -> dict[str, LinkReading]:
    """Return the links of several devices; a device without a link is left out."""
    links: dict[str, LinkReading] = {}
    for address in addresses:
        match = _SPEED.match(read.text(f"{DEVICES}/{address}/current_link_speed") or "")
        width = read.integer(f"{DEVICES}/{address}/current_link_width")
        known = width if width in LINK_WIDTHS else None
        if match is not None or known is not None:
            links[address] = LinkReading(float(match[1]) if match else None, known)
    return links

"""Current state of RDMA device ports: /sys/class/infiniband/*/ports/*.

Source: drivers/infiniband/core/sysfs.c. A counter that the hardware lacks cannot be read, and is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.health.counters import PORT_COUNTERS
from zonewise.health.types import PortReading

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.reader import Reader

_CLASS = "sys/class/infiniband"
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec")
_STATE = re.compile(r"[0-9]{1,3}: (\S.*)")


def read_ports(read: Reader, devices: Iterable[str]) -> dict[str, PortReading]:
    """Return the ports of several devices by "device/port"."""
    return {
        f"{device}/{port}": _port(read, f"{_CLASS}/{device}/ports/{port}")
        for device in devices
        for port in read.names(f"{_CLASS}/{device}/ports")
    }


def _port(read: Reader, directory: str) -> PortReading:
    rate = _RATE.match(read.text(f"{directory}/rate") or "")
    values = ((name, read.integer(f"{directory}/counters/{name}")) for name in PORT_COUNTERS)
    return PortReading(
        _state(read.text(f"{directory}/state")),
        _state(read.text(f"{directory}/phys_state")),
        float(rate[1]) if rate else None,
        {name: value for name, value in values if value is not None},
    )


def _state(text: str | None) -> str | None:
    match = _STATE.fullmatch(text or "")
    return match[1] if match else None

"""Facts that only s390 machines have, from /proc/sysinfo, /proc/cpuinfo and cpu/dispatching.

Sources: arch/s390/kernel/sysinfo.c and topology.c of the kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.model.cpu import Mainframe

if TYPE_CHECKING:
    from zonewise.machine.collectors.cpu.cpuinfo import CpuInfo
    from zonewise.machine.reader import Reader

_SYSINFO = "proc/sysinfo"
_DISPATCHING = "sys/devices/system/cpu/dispatching"
_MODES = {0: "horizontal", 1: "vertical"}

# six levels of containment, outermost first; the outer two are unused on every machine so far
_TOPOLOGY = re.compile(r"^CPU Topology SW: +\d+ +\d+ +(\d{1,4}) +(\d{1,4}) +(\d{1,4}) +(\d{1,4})$", re.MULTILINE)


def read_mainframe(read: Reader, info: CpuInfo) -> Mainframe | None:
    """Return the facts of an s390 machine; None for any other machine."""
    machine_type = info.machine_type()
    if machine_type is None:
        return None
    needed = "how virtual CPUs are dispatched"
    mode = read.integer(_DISPATCHING, fact="mainframe.dispatching", rule="0 is horizontal, 1 vertical", needed=needed)
    if mode is not None and mode not in _MODES:
        read.problem(_DISPATCHING, f"contains {mode}", f"{needed} is unknown")
    read.source(
        "mainframe",
        "proc/cpuinfo",
        machine_type,
        "the value of machine in a processor's line, and the caches listed there",
    )
    mainframe = Mainframe(
        machine_type,
        None if mode is None else _MODES.get(mode),
        shared_caches=info.shared_caches(),
    )
    text = read.text(_SYSINFO, needed="how many sockets the machine has") or ""
    # z/VM pads lines with blanks
    match = _TOPOLOGY.search("\n".join(line.rstrip() for line in text.split("\n")))
    if match is None:
        if text and "Manufacturer:" not in text:
            read.problem(_SYSINFO, "is not in the format of s390", "how many sockets the machine has is unknown")
        return mainframe
    drawers, books, sockets, cores = (int(level) for level in match.groups())
    for name in ("drawers", "books_per_drawer", "sockets_per_book", "cores_per_socket"):
        read.source(f"mainframe.{name}", _SYSINFO, match[0], "drawers, books, sockets, cores: the last four numbers")
    return mainframe._replace(drawers=drawers, books_per_drawer=books, sockets_per_book=sockets, cores_per_socket=cores)

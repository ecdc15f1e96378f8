"""Swap areas: /proc/swaps (mm/swapfile.c swap_show())."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.memory.zone_memory import MAX_MEMORY
from zonewise.machine.reader import parse_integer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

SWAPS = "proc/swaps"

_HEAD = b"Filename"
_COLUMNS = 5  # file name (blanks in it are escaped), type, size in KiB, used, priority


def _collect(read: Reader, machine: Machine) -> Machine:
    content = read.raw(SWAPS)
    if content is None:
        raise NoData("no /proc/swaps")  # a kernel without CONFIG_SWAP
    if not content.startswith(_HEAD):
        read.problem(SWAPS, "does not begin with its header line", "whether there is swap is unknown")
        return machine
    if not content.endswith(b"\n"):
        read.problem(SWAPS, "is truncated: it has no newline", "swap is unknown")
        return machine
    sizes = [_size(line.split()) for line in content.split(b"\n")[1:-1]]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        read.problem(SWAPS, f"contains a size in only {len(known)} of {len(sizes)} lines", "swap is unknown")
        return machine
    read.source("swap", SWAPS, len(sizes), "the sum of the sizes, in KiB")
    return machine._replace(swap=sum(known))


def _size(columns: list[bytes]) -> int | None:
    """Return the size of an area in bytes; None if the line does not describe an area."""
    if len(columns) != _COLUMNS:
        return None
    try:
        size = parse_integer(columns[2].decode("ascii")) * 1024
    except ValueError:
        return None
    return size if 0 <= size < MAX_MEMORY else None


def _volatile(peek: Peek) -> Hashable:
    """Notice areas that come and go; their usage is ignored, since it changes all the time."""
    content = peek.content(SWAPS)
    if not isinstance(content, bytes):
        return content
    return tuple(tuple(line.split()[:3]) for line in content.split(b"\n"))


COLLECTOR = Collector("swap", provides=("swap",), needs=(), collect=_collect, volatile=_volatile)

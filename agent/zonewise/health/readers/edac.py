"""Memory errors: counts of the EDAC drivers, and the memory that the kernel has taken out of use.

Sources: Documentation/ABI/testing/sysfs-devices-edac and fs/proc/meminfo.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.health.types import MemoryReading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.reader import Reader

_CONTROLLERS = "sys/devices/system/edac/mc"
_MEMINFO = "proc/meminfo"
_CONTROLLER = re.compile(r"mc[0-9]{1,4}")
_DIMM = re.compile(r"(?:dimm|rank)[0-9]{1,4}")


def read_memory(read: Reader) -> MemoryReading:
    """Return the errors since boot, by DIMM if the driver knows it, else by controller.

    A controller with DIMMs counts the errors that belong to no known DIMM by itself (edac_mc.c edac_inc_ue_error).
    """
    counts = list(_counts(read))
    poisoned = meminfo_bytes(read, "HardwareCorrupted")
    return MemoryReading(
        {name: corrected for name, corrected, _ in counts if corrected is not None},
        {name: uncorrected for name, _, uncorrected in counts if uncorrected is not None},
        poisoned,
    )


def meminfo_bytes(read: Reader, field: str) -> int | None:
    """Return a field of /proc/meminfo in bytes."""
    match = re.search(rf"^{field}: +([0-9]{{1,16}}) kB$", read.text(_MEMINFO) or "", re.MULTILINE)
    return int(match[1]) << 10 if match else None


def _counts(read: Reader) -> Iterator[tuple[str, int | None, int | None]]:
    for controller in filter(_CONTROLLER.fullmatch, read.names(_CONTROLLERS)):
        directory = f"{_CONTROLLERS}/{controller}"
        dimms = list(filter(_DIMM.fullmatch, read.names(directory)))
        for dimm in dimms:
            label = read.text(f"{directory}/{dimm}/dimm_label")
            name = f"{controller}/{dimm}" + (f" ({label})" if label else "")
            counts = f"{directory}/{dimm}/dimm"
            yield name, read.integer(f"{counts}_ce_count"), read.integer(f"{counts}_ue_count")
        counts = "noinfo_count" if dimms else "count"
        yield controller, read.integer(f"{directory}/ce_{counts}"), read.integer(f"{directory}/ue_{counts}")

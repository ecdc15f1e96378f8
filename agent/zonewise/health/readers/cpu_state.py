"""Current state of the CPUs: which are online, and how often heat has throttled a package.

Sources: Documentation/ABI/testing/sysfs-devices-system-cpu, drivers/thermal/intel/therm_throt.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.types import CpuReading

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

_CPUS = "sys/devices/system/cpu"


def read_cpus(read: Reader, machine: Machine) -> CpuReading:
    """Return the state of the CPUs; every CPU of a package shows the package's count, so only one CPU is read."""
    online, present = read.cpus(f"{_CPUS}/online"), read.cpus(f"{_CPUS}/present")
    throttles: dict[str, int] = {}
    for package in machine.packages:
        cpu = next(iter(package.cpus & online if online is not None else package.cpus), None)
        count = read.integer(f"{_CPUS}/cpu{cpu}/thermal_throttle/package_throttle_count") if cpu is not None else None
        if count is not None:
            throttles[f"package {package.id}"] = count
    offline = tuple(present - online) if online is not None and present is not None else ()
    return CpuReading(None if online is None else len(online), offline, throttles)

"""Frequency limits and capacities of CPUs, read once for each set of CPUs that share a clock.

Sources: Documentation/admin-guide/pm/cpufreq.rst, Documentation/scheduler/sched-capacity.rst and
Documentation/admin-guide/acpi/cppc_sysfs.rst of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.cpu.sharing import CPU, sampled
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

CAPACITY = "cpu_capacity"
_MAX, _MIN, _BASE, _RELATED = "cpuinfo_max_freq", "cpuinfo_min_freq", "base_frequency", "related_cpus"
_MAX_KHZ = 20_000_000
_MAX_CAPACITY = 4096  # include/linux/sched/topology.h SCHED_CAPACITY_SCALE is 1024


class Limits(NamedTuple):
    """The frequencies of a CPU, in MHz; None means unknown."""

    maximum: float | None = None
    """Maximum with turbo; a few favoured cores may turbo higher than the others."""
    minimum: float | None = None
    base: float | None = None
    """Sustained frequency, by design the same for all cores of a kind."""


UNKNOWN = Limits()


def read_limits(read: Reader, cpus: CpuSet) -> dict[int, Limits]:
    """Return the limits of each CPU; nothing if the kernel does not scale frequencies."""
    files = sampled(read, cpus, lambda cpu: f"{CPU}/cpu{cpu}/cpufreq")
    limits_by_cpu: dict[int, Limits] = {}
    if _MAX not in files:
        return limits_by_cpu
    has_nominal = _BASE not in files and "nominal_freq" in sampled(read, cpus, _cppc)
    for cpu in cpus:
        if cpu not in limits_by_cpu:
            directory = f"{CPU}/cpu{cpu}/cpufreq"
            maximum = _mhz(read, f"{directory}/{_MAX}", f"the highest frequency of CPU {cpu}")
            lowest = f"the lowest frequency of CPU {cpu}"
            minimum = _mhz(read, f"{directory}/{_MIN}", lowest) if _MIN in files else None
            limits = Limits(maximum, minimum, _base(read, cpu, files, has_nominal=has_nominal))
            together = _together(read, f"{directory}/{_RELATED}", cpu) if _RELATED in files else CpuSet((cpu,))
            limits_by_cpu.update(dict.fromkeys(together & cpus, limits))
    return limits_by_cpu


def read_capacities(read: Reader, cpus: CpuSet) -> dict[int, int]:
    """Return the compute power of each CPU in 1024ths of the greatest; nothing if the kernel reports none."""
    capacities: dict[int, int] = {}
    if CAPACITY in sampled(read, cpus, lambda cpu: f"{CPU}/cpu{cpu}"):
        for cpu in cpus:
            capacity = _bounded(read, f"{CPU}/cpu{cpu}/{CAPACITY}", _MAX_CAPACITY, f"the capacity of CPU {cpu}")
            if capacity is not None:
                capacities[cpu] = capacity
    return capacities


def _cppc(cpu: int) -> str:
    return f"{CPU}/cpu{cpu}/acpi_cppc"


def _base(read: Reader, cpu: int, files: frozenset[str], *, has_nominal: bool) -> float | None:
    if _BASE in files:
        return _mhz(read, f"{CPU}/cpu{cpu}/cpufreq/{_BASE}", f"the base frequency of CPU {cpu}")
    # in MHz; 0 if the firmware has none
    nominal = read.integer(f"{_cppc(cpu)}/nominal_freq") if has_nominal else None
    return float(nominal) if nominal is not None and nominal > 0 else None


def _together(read: Reader, path: str, cpu: int) -> CpuSet:
    """Return the CPUs that share a clock with `cpu`, itself included: "0 1 2"."""
    text = read.text(path) or ""
    try:
        related = CpuSet.parse_list(",".join(text.split()))
    except ValueError:
        read.problem(path, f"is not a list of CPUs: {text[:60]!r}", "the frequencies of each CPU separately")
        return CpuSet((cpu,))
    return related | CpuSet((cpu,))


def _mhz(read: Reader, path: str, needed: str) -> float | None:
    khz = _bounded(read, path, _MAX_KHZ, needed)
    return None if khz is None else khz / 1000


def _bounded(read: Reader, path: str, limit: int, needed: str) -> int | None:
    """Return the number in a file. A number out of the fact's bounds is a problem and yields None."""
    value = read.integer(path, needed=needed)
    if value is None or 0 < value <= limit:
        return value
    read.problem(path, f"contains {value}", f"{needed} is unknown")
    return None

"""Rules for memory and CPUs, and for losses relative to the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.health.counters import counter_name
from zonewise.health.types import CPU, MEMORY, NODE, DeviceId, Severity, Sign, Verdict
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise.health.counters import Counter
    from zonewise.health.types import Baseline, HardwareObservation

_EDAC = "kernel Documentation/driver-api/edac.rst"
_POISON = "kernel Documentation/mm/hwpoison.rst"
_THERMAL = "kernel arch/x86/kernel/cpu/mce, drivers/thermal/intel/therm_throt.c"
_BASELINE = "the baseline of this node"

_CORRECTED_PER_HOUR = 100
_THROTTLES_PER_HOUR = 100
_MEMORY_SHARE = 0.98
"""Memory below this share of the baseline means a missing module: kernels differ by less in the memory that they
reserve."""


def host_signs(observation: HardwareObservation, baseline: Baseline, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    """Yield the signs of memory and CPU faults."""
    yield from _memory(observation, counters)
    yield from _cpus(observation, baseline, counters)
    total = observation.memory_total
    if total is not None and baseline.memory is not None and total < _MEMORY_SHARE * baseline.memory:
        evidence = (f"{total >> 20} MiB instead of {baseline.memory >> 20}",)
        yield Sign(
            DeviceId(NODE, ""),
            "memory-missing",
            Verdict.HARDWARE,
            Severity.DEGRADED,
            "the node has less memory than before",
            "/proc/meminfo MemTotal",
            _BASELINE,
            evidence,
            "memory",
            confirm=60.0,
            settle=60.0,
        )


def _memory(observation: HardwareObservation, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    memory = observation.memory
    for name, count in memory.uncorrected.items():
        if count > 0:
            yield Sign(
                DeviceId(MEMORY, name),
                "edac-uncorrected",
                Verdict.HARDWARE,
                Severity.FAILED,
                "uncorrected memory errors since boot",
                f"/sys/devices/system/edac/mc/{name}",
                _EDAC,
                (f"ue_count {count}",),
                "edac",
            )
    for name in memory.corrected:
        counter = counters.get(counter_name("memory", f"corrected {name}"))
        if counter is not None and counter.rise >= _CORRECTED_PER_HOUR:
            yield Sign(
                DeviceId(MEMORY, name),
                "edac-corrected-rising",
                Verdict.HARDWARE,
                Severity.DEGRADED,
                "many corrected memory errors",
                f"/sys/devices/system/edac/mc/{name}",
                _EDAC,
                (f"{counter.rise} within an hour",),
                "edac",
            )
    if memory.poisoned:
        yield Sign(
            DeviceId(MEMORY, ""),
            "pages-offlined",
            Verdict.HARDWARE,
            Severity.DEGRADED,
            "the kernel has taken pages of memory out of use",
            "/proc/meminfo HardwareCorrupted",
            _POISON,
            (f"{memory.poisoned >> 10} KiB",),
            "memory",
        )


def _cpus(observation: HardwareObservation, baseline: Baseline, counters: Mapping[str, Counter]) -> Iterator[Sign]:
    cpus = observation.cpus
    if cpus.online is not None and baseline.cpus is not None and cpus.online < baseline.cpus:
        offline = f", CPUs {CpuSet(cpus.offline)} offline" if cpus.offline else ""
        yield Sign(
            DeviceId(CPU, ""),
            "cpus-offline",
            Verdict.UNKNOWN,
            Severity.DEGRADED,
            "fewer CPUs are online than before",
            "/sys/devices/system/cpu/online",
            _BASELINE,
            (f"{cpus.online} instead of {baseline.cpus}{offline}",),
            "cpu",
            confirm=60.0,
            settle=60.0,
        )
    for name in cpus.throttles:
        counter = counters.get(counter_name("cpu", f"throttles {name}"))
        if counter is not None and counter.rise >= _THROTTLES_PER_HOUR:
            yield Sign(
                DeviceId(CPU, name),
                "cpu-throttling",
                Verdict.HARDWARE,
                Severity.DEGRADED,
                "the CPU is thermally throttled",
                "/sys/devices/system/cpu/cpu*/thermal_throttle",
                _THERMAL,
                (f"{counter.rise} times within an hour",),
                "cpu",
            )

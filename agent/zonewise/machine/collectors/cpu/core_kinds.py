"""The kinds of cores of a hybrid machine, with the frequency limits of each kind.

On Intel hybrids the kernel names the kinds (arch/x86/events/intel/core.c: the PMUs cpu_core, cpu_atom, cpu_lowpower).
Elsewhere kinds differ by design (ARM's core numbers), capacity, and maximum and base frequency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.cpu.arm_parts import midr_core_name
from zonewise.machine.collectors.cpu.cpu_kinds import CpuKind, Traits, classes, kinds
from zonewise.machine.collectors.cpu.frequencies import CAPACITY, CPU, UNKNOWN, Limits, read_capacities, read_limits
from zonewise.machine.collectors.cpu.sharing import shown
from zonewise.machine.model.cpu import CoreKind
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.cpu import Core
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

_PERFORMANCE, _EFFICIENCY = "performance", "efficiency"

_LOW_POWER, _CORE, _ATOM = "cpu_lowpower", "cpu_core", "cpu_atom"
_PMUS = {_LOW_POWER: _EFFICIENCY, _CORE: _PERFORMANCE, _ATOM: _EFFICIENCY}
"""The low-power cores come first: some kernels list them under cpu_atom as well."""

_MIDR = "regs/identification/midr_el1"  # arch/arm64/kernel/cpuinfo.c


def _collect(read: Reader, machine: Machine) -> Machine:
    online = machine.cpus.online
    if not online:
        raise NoData("no CPUs")
    limits, capacities = read_limits(read, online), read_capacities(read, online)
    named = _named(read, online)
    traits = {cpu: Traits(name) for cpu, name in named.items()} or _traits(read, machine, limits, capacities)
    cpu_kinds = kinds(traits)
    labels = _labels(cpu_kinds, machine)
    labels_by_cpu = {cpu: label for kind, label in zip(cpu_kinds, labels, strict=True) for cpu in kind.cpus}
    cores = tuple(core._replace(kind=_core_label(core, labels_by_cpu)) for core in machine.cores)
    _explain(read, cpu_kinds, limits, capacities, cores)
    core_kinds = (_core_kind(kind, label, limits, capacities) for kind, label in zip(cpu_kinds, labels, strict=True))
    return machine._replace(core_kinds=tuple(core_kinds), cores=cores)


def _named(read: Reader, online: CpuSet) -> dict[int, str]:
    """Return the PMU of each CPU; nothing if the kernel names no kinds, or only one kind for all CPUs."""
    pmus: dict[int, str] = {}
    for pmu in _PMUS:
        for cpu in (read.cpus(f"sys/devices/{pmu}/cpus") or EMPTY) & online:
            pmus.setdefault(cpu, pmu)
    names = set(pmus.values())
    left = online - CpuSet(pmus)
    if pmus and left:
        unlisted_pmus = [pmu for pmu in _PMUS if pmu not in names and pmu != _LOW_POWER]
        used = f"{unlisted_pmus[0]}, for which no CPU is listed" if len(unlisted_pmus) == 1 else "their kind is unknown"
        read.problem(f"sys/devices/{(unlisted_pmus or [_CORE])[0]}/cpus", f"does not list CPUs {shown(left)}", used)
        pmus |= dict.fromkeys(left, unlisted_pmus[0]) if len(unlisted_pmus) == 1 else {}
    return pmus if len(set(pmus.values())) > 1 else {}


def _traits(read: Reader, machine: Machine, limits: dict[int, Limits], capacities: dict[int, int]) -> dict[int, Traits]:
    designs = _designs(read, machine)
    capacity = classes(capacities)
    maximum = classes({cpu: limit.maximum for cpu, limit in limits.items() if limit.maximum})
    base = classes({cpu: limit.base for cpu, limit in limits.items() if limit.base})
    return {
        cpu: Traits(None, designs.get(cpu), capacity.get(cpu), maximum.get(cpu), base.get(cpu))
        for cpu in machine.cpus.online
    }


def _designs(read: Reader, machine: Machine) -> dict[int, str]:
    """Return the name of each CPU's design; nothing unless the machine has several designs."""
    variants = machine.model.variants
    designs = {cpu: variant.name for variant in variants for cpu in variant.cpus if variant.name}
    if not variants and read.raw(f"{CPU}/cpu{machine.cpus.online.first()}/{_MIDR}") is not None:
        registers = {cpu: read.integer(f"{CPU}/cpu{cpu}/{_MIDR}", base=16) for cpu in machine.cpus.online}
        designs = {cpu: midr_core_name(midr) or f"{midr:#x}" for cpu, midr in registers.items() if midr is not None}
    return designs if len(set(designs.values())) > 1 else {}


def _labels(cpu_kinds: list[CpuKind], machine: Machine) -> list[str | None]:
    """Return the purpose of each kind: the weakest kind is for efficiency, all others for performance.

    Cores of one design do not make a hybrid only because some have higher clocks (Intel Speed Select). Without
    capacities, kinds must therefore differ in their names or in their private caches.
    """
    if all(kind.traits.named for kind in cpu_kinds):
        return [_PMUS[kind.traits.named] if kind.traits.named else None for kind in cpu_kinds]
    strengths = [(kind.traits.capacity or 0, 0) for kind in cpu_kinds]
    if len(set(strengths)) < 2:
        designs = {(kind.traits.design, _own_caches(machine, kind.cpus.first())) for kind in cpu_kinds}
        strengths = [(kind.traits.maximum or 0, kind.traits.base or 0) for kind in cpu_kinds]
        if len(designs) < 2 or len(set(strengths)) < 2:
            return [None] * len(cpu_kinds)
    weakest = min(strengths)
    return [_EFFICIENCY if strength == weakest else _PERFORMANCE for strength in strengths]


def _own_caches(machine: Machine, cpu: int) -> frozenset[tuple[int, str, int | None]]:
    caches = (cache for cache in machine.caches if cache.level <= 2 and cpu in cache.cpus)
    return frozenset((cache.level, cache.type, cache.size) for cache in caches)


def _core_kind(kind: CpuKind, label: str | None, limits: dict[int, Limits], capacities: dict[int, int]) -> CoreKind:
    members = [limits.get(cpu, UNKNOWN) for cpu in kind.cpus]
    maxima = [limit.maximum for limit in members if limit.maximum is not None]
    return CoreKind(
        label,
        kind.cpus,
        model=kind.traits.design,
        capacity=min((capacities[cpu] for cpu in kind.cpus if cpu in capacities), default=None),
        max_mhz=max(maxima, default=None),
        common_max_mhz=min(maxima, default=None),
        min_mhz=min((limit.minimum for limit in members if limit.minimum is not None), default=None),
        base_mhz=min((limit.base for limit in members if limit.base is not None), default=None),
    )


def _core_label(core: Core, labels_by_cpu: dict[int, str | None]) -> str | None:
    labels = {labels_by_cpu.get(cpu) for cpu in core.cpus}
    return labels.pop() if len(labels) == 1 else None


def _explain(
    read: Reader,
    cpu_kinds: list[CpuKind],
    limits: dict[int, Limits],
    capacities: dict[int, int],
    cores: tuple[Core, ...],
) -> None:
    rule = "CPUs with equal PMU, design, capacity, highest and base frequency; the weakest kind is the efficient one"
    for number, kind in enumerate(cpu_kinds):
        cpu = kind.cpus.first()
        file = CAPACITY if cpu in capacities else "cpufreq" if cpu in limits else "topology"
        read.source(f"core_kinds.{number}", f"{CPU}/cpu{cpu}/{file}", kind.cpus, rule)
    for number, core in enumerate(cores if read.sources is not None else ()):
        if core.kind is not None:
            read.source(f"cores.{number}.kind", f"{CPU}/cpu{core.cpus.first()}", core.kind, rule)


def _volatile(peek: Peek) -> Hashable:
    """Notice drivers that are loaded and boost that is switched; the limits themselves are properties of
    the hardware.
    """
    return peek.names(f"{CPU}/cpufreq"), peek.content(f"{CPU}/cpufreq/boost")


COLLECTOR = Collector(
    name="core_kinds",
    provides=("core_kinds", "cores"),
    needs=("cpus", "model", "cores", "caches"),
    collect=_collect,
    volatile=_volatile,
)

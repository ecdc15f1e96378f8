"""The CPUs of a report: read one by one from our agent's object, or synthesized from counts."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import MAX_CPUS, CpuSet
from zonewise_common.k8s.tolerant import shortened
from zonewise_common.nrt import names
from zonewise_common.nrt.cores import read_cores
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.report.nrt_object import cpu_bits
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.cpu_topology import CpuGroup
    from zonewise_scheduler.admission.node import Policies
    from zonewise_scheduler.admission.report.nrt_object import NrtObject


class ReportedCpus(NamedTuple):
    """The CPUs of a node, which of them are free, and which facts are unknown."""

    topology: CpuTopology
    free: int
    """Free CPUs, as bits."""
    unknown: tuple[str, ...] = ()


# --- objects of our agent


def read_agent_cpus(nrt: NrtObject, policies: Policies) -> ReportedCpus:
    """Return the CPUs from an object of our agent; without policy static, no CPU can be allocated."""
    texts = tuple(
        (zone.id, zone.attributes[names.CPUS], zone.attributes.get(names.CORES))
        for zone in nrt.zones
        if names.CPUS in zone.attributes
    )
    threads = nrt.attributes.get(names.THREADS_PER_CORE, "1")
    parsed = _read_topology(texts, nrt.packages, nrt.l3, nrt.attributes.get(names.RESERVED_CPUS, ""), threads != "1")
    nrt.problems.extend(parsed.problems)
    topology, unknown = parsed.topology, parsed.unknown
    if policies.cpu != "static":
        return ReportedCpus(topology, 0)
    if policies.align_by_cache and parsed.unknown_caches:
        unknown = (*unknown, "which CPUs share an L3 cache")
    free = 0
    for zone in nrt.zones:
        text = zone.attributes.get(names.FREE_CPUS)
        if text is None and names.CPUS in zone.attributes:
            unknown = (*unknown, f"the free CPUs of zone {zone.id}")
        elif text is not None:
            bits = _bits(text, f"node-{zone.id} {names.FREE_CPUS}", nrt.problems)
            free |= bits or 0
    return ReportedCpus(topology, free & topology.cpus & ~topology.reserved, unknown)


class _ReadTopology(NamedTuple):
    topology: CpuTopology
    problems: tuple[str, ...]
    unknown: tuple[str, ...]
    unknown_caches: bool


@lru_cache(1 << 10)
def _read_topology(
    zones: tuple[tuple[int, str, str | None], ...],
    packages: tuple[tuple[int, str], ...],
    l3: tuple[tuple[int, str], ...],
    reserved: str,
    threads: bool,
) -> _ReadTopology:
    """Parse the topology from texts, which are equal for nodes of one model."""
    problems: list[str] = []
    zone_groups: list[CpuGroup] = []
    cores: list[CpuGroup] = []
    assigned = 0
    for zone, text, cores_text in zones:
        bits = _bits(text, f"node-{zone} {names.CPUS}", problems)
        if bits is None or bits & assigned:
            if bits is not None:
                problems.append(f"node-{zone} {names.CPUS}: CPUs of another zone: {shortened(text)!r}")
            continue
        assigned |= bits
        zone_groups.append((zone, bits))
        cores.extend(_cores(bits, cores_text, f"node-{zone} {names.CORES}", problems))
    package_groups = _with_rest(_groups(packages, "package", assigned, problems), zone_groups)
    caches = _groups(l3, "l3", assigned, problems)
    topology = CpuTopology(
        cores=tuple(sorted(cores)),
        zones=tuple(zone_groups),
        packages=package_groups,
        caches=_with_rest(caches, package_groups) if caches else (),
        reserved=(_bits(reserved, names.RESERVED_CPUS, problems) or 0) & assigned,
    )
    without_cores = threads and not any(cores_text for _, _, cores_text in zones)
    return _ReadTopology(
        topology,
        tuple(problems),
        ("which CPUs are one core",) if without_cores else (),
        _has_unknown_caches(topology, caches),
    )


def _has_unknown_caches(topology: CpuTopology, caches: Sequence[CpuGroup]) -> bool:
    """Return whether the kubelet may have L3 groups other than those of the topology.

    An L3 cache of a whole zone is a group only if the cores of the zone have different numbers of CPUs (cadvisor
    utils/sysinfo/sysinfo.go addCacheInfo). Other zones without a group get the id of their package, which may also be
    the id of a cache (topology.go getUncoreCacheID).
    """
    grouped = sum(bits for _, bits in caches)
    ungrouped = [bits for _, bits in topology.zones if not bits & grouped]
    if caches and ungrouped:
        return True
    return len(topology.zones) > 1 and any(_has_uneven_cores(topology, zone) for zone in ungrouped)


def _has_uneven_cores(topology: CpuTopology, zone: int) -> bool:
    return len({(core & zone).bit_count() for _, core in topology.cores if core & zone}) > 1


def _cores(cpus: int, text: str | None, field: str, problems: list[str]) -> list[CpuGroup]:
    """Return the cores of a zone, each with its lowest CPU as id; if cores are unknown, each CPU is a core."""
    if text is not None:
        try:
            cores = [(core.first(), core.bits) for core in read_cores(text)]
            if sum(bits for _, bits in cores) == cpus:  # no CPU is in two cores
                return cores
            problems.append(f"{field}: not the CPUs of the zone: {shortened(text)!r}")
        except ValueError as error:
            problems.append(f"{field}: {error}")
    return [(cpu, 1 << cpu) for cpu in CpuSet.from_bits(cpus)]


def _groups(texts: Iterable[tuple[int, str]], name: str, known: int, problems: list[str]) -> list[CpuGroup]:
    """Return groups of CPUs, limited to the CPUs of zones; a group that overlaps an earlier one is left out."""
    groups: list[CpuGroup] = []
    assigned = 0
    for number, text in texts:
        bits = _bits(text, f"{name}-{number} {names.CPUS}", problems) or 0
        if bits & assigned:
            problems.append(f"{name}-{number} {names.CPUS}: CPUs of another: {shortened(text)!r}")
        elif bits & known:
            groups.append((number, bits & known))
            assigned |= bits
    return groups


def _with_rest(groups: Sequence[CpuGroup], wider: Sequence[CpuGroup]) -> tuple[CpuGroup, ...]:
    """Return groups, and one more for each wider group with CPUs that are in none of them.

    A core without an L3 group belongs to the group of its package (topology.go getUncoreCacheID).
    """
    grouped = 0
    for _, bits in groups:
        grouped |= bits
    numbers = count(max((number + 1 for number, _ in groups), default=0))
    return (*groups, *((next(numbers), bits & ~grouped) for _, bits in wider if bits & ~grouped))


def _bits(text: str, field: str, problems: list[str]) -> int | None:
    try:
        return cpu_bits(text)
    except ValueError as error:
        problems.append(f"{field}: {error}")
        return None


# --- objects of other agents


def synthesize_cpus(nrt: NrtObject, threads: int | None) -> ReportedCpus:
    """Return CPUs with invented ids: each zone has as many reserved, busy and free CPUs as in the report.

    Reserved CPUs come first, then busy ones, so that as many whole cores as possible are free.
    """
    counts: list[tuple[int, int, int, int]] = []
    remaining = MAX_CPUS
    for zone in nrt.zones:
        count = zone.resources.get(CPU)
        if count is not None and max(count) > remaining:
            nrt.problems.append(f"zone {zone.id} {CPU}: more than {remaining}: {max(count)}")
        elif count is not None:
            remaining -= max(count)
            counts.append((zone.id, count.capacity, count.allocatable, count.available))
    return _synthesized(tuple(counts), threads)


@lru_cache(1 << 12)
def _synthesized(counts: tuple[tuple[int, int, int, int], ...], threads: int | None) -> ReportedCpus:
    zones: list[CpuGroup] = []
    cores: list[CpuGroup] = []
    reserved = free = first = 0
    for zone, capacity, allocatable, available in counts:
        size = max(capacity, allocatable)
        zones.append((zone, _run(first, size)))
        reserved_count = size - allocatable
        reserved |= _run(first, reserved_count)
        free_count = min(available, allocatable)
        free |= _run(first + size - free_count, free_count)
        step = threads or 1
        cores.extend((core, _run(core, min(step, first + size - core))) for core in range(first, first + size, step))
        first += size
    non_empty = tuple((zone, bits) for zone, bits in zones if bits)
    topology = CpuTopology(tuple(cores), non_empty, packages=non_empty, reserved=reserved, exact=False)
    unknown = "which CPUs are free" if threads else "which CPUs are free, and how many of them are one core"
    return ReportedCpus(topology, free, (unknown,))


def _run(first: int, length: int) -> int:
    return ((1 << length) - 1) << first

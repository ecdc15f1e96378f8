"""The CPUs of a node: told by our agent one by one, or made up of counts where a report has nothing else."""

from __future__ import annotations

from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import MAX_CPUS
from zonewise_common.nrt import names
from zonewise_common.nrt.cores import read_cores
from zonewise_scheduler.admission.cpu_topology import CpuTopology
from zonewise_scheduler.admission.report.nrt_object import cpu_bits
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.cpu_topology import CpuGroup
    from zonewise_scheduler.admission.report.nrt_object import NrtObject


class ReportedCpus(NamedTuple):
    """CPUs, which of them are free, and what of them nobody knows."""

    topology: CpuTopology
    free: int
    """Bits."""
    unknown: tuple[str, ...] = ()


# --- as our agent tells them


def read_agent_cpus(nrt: NrtObject, *, static: bool) -> ReportedCpus:
    """Return the CPUs of an object of our agent; without the static policy none is free to be given."""
    texts = tuple(
        (zone.id, zone.attributes[names.CPUS], zone.attributes.get(names.CORES))
        for zone in nrt.zones
        if names.CPUS in zone.attributes
    )
    threads = nrt.attributes.get(names.THREADS_PER_CORE, "1")
    read = _read(texts, nrt.packages, nrt.l3, nrt.attributes.get(names.RESERVED_CPUS, ""), threads != "1")
    nrt.problems.extend(read.problems)
    topology, unknown = read.topology, read.unknown
    if not static:
        return ReportedCpus(topology, 0)
    free = 0
    for zone in nrt.zones:
        text = zone.attributes.get(names.FREE_CPUS)
        if text is None and names.CPUS in zone.attributes:
            unknown = (*unknown, f"the free CPUs of zone {zone.id}")
        elif text is not None:
            bits = _bits(text, f"node-{zone.id} {names.FREE_CPUS}", nrt.problems)
            free |= bits or 0
    return ReportedCpus(topology, free & topology.cpus & ~topology.reserved, unknown)


class _Read(NamedTuple):
    topology: CpuTopology
    problems: tuple[str, ...]
    unknown: tuple[str, ...]


@lru_cache(1 << 10)
def _read(
    zones: tuple[tuple[int, str, str | None], ...],
    packages: tuple[tuple[int, str], ...],
    l3: tuple[tuple[int, str], ...],
    reserved: str,
    threads: bool,
) -> _Read:
    """Return the topology of texts, of which nodes of one make have the same."""
    problems: list[str] = []
    held: list[CpuGroup] = []
    cores: list[CpuGroup] = []
    taken = 0
    for zone, text, cores_text in zones:
        bits = _bits(text, f"node-{zone} {names.CPUS}", problems)
        if bits is None or bits & taken:
            if bits is not None:
                problems.append(f"node-{zone} {names.CPUS}: CPUs of another zone: {text[:80]!r}")
            continue
        taken |= bits
        held.append((zone, bits))
        cores.extend(_cores(bits, cores_text, f"node-{zone} {names.CORES}", problems))
    sockets = _with_rest(_groups(packages, "package", taken, problems), held)
    caches = _groups(l3, "l3", taken, problems)
    made = CpuTopology(
        cores=tuple(sorted(cores)),
        zones=tuple(held),
        packages=sockets,
        caches=_with_rest(caches, sockets) if caches else (),
        reserved=(_bits(reserved, names.RESERVED_CPUS, problems) or 0) & taken,
    )
    untold = threads and not any(cores_text for _, _, cores_text in zones)
    return _Read(made, tuple(problems), ("which CPUs are one core",) if untold else ())


def _cores(cpus: int, text: str | None, at: str, problems: list[str]) -> Iterable[CpuGroup]:
    if text is not None:
        try:
            cores = [core.bits for core in read_cores(text)]
            if sum(cores) == cpus:  # they share none
                return [_group(core) for core in cores]
            problems.append(f"{at}: not the CPUs of the zone: {text[:80]!r}")
        except ValueError as error:
            problems.append(f"{at}: {error}")
    return [(cpu, 1 << cpu) for cpu in range(cpus.bit_length()) if cpus >> cpu & 1]


def _group(bits: int) -> CpuGroup:
    """Return CPUs with the id that the kubelet has for a core: the lowest."""
    return (bits & -bits).bit_length() - 1, bits


def _groups(texts: Iterable[tuple[int, str]], name: str, known: int, problems: list[str]) -> list[CpuGroup]:
    """Return groups of CPUs, of those in zones; one that overlaps another is left out."""
    found: list[CpuGroup] = []
    taken = 0
    for number, text in texts:
        bits = _bits(text, f"{name}-{number} {names.CPUS}", problems) or 0
        if bits & taken:
            problems.append(f"{name}-{number} {names.CPUS}: CPUs of another: {text[:80]!r}")
        elif bits & known:
            found.append((number, bits & known))
            taken |= bits
    return found


def _with_rest(groups: Sequence[CpuGroup], wider: Sequence[CpuGroup]) -> tuple[CpuGroup, ...]:
    """Return groups, and those of wider ones with the CPUs that are in none.

    A core without an L3 group of its own is in the group of its package (topology.go getUncoreCacheID).
    """
    taken = 0
    for _, bits in groups:
        taken |= bits
    numbers = count(max((number for number, _ in groups), default=-1) + 1)
    return (*groups, *((next(numbers), bits & ~taken) for _, bits in wider if bits & ~taken))


def _bits(text: str, at: str, problems: list[str]) -> int | None:
    try:
        return cpu_bits(text)
    except ValueError as error:
        problems.append(f"{at}: {error}")
        return None


# --- made up


def synthesize_cpus(nrt: NrtObject, threads: int | None) -> ReportedCpus:
    """Return CPUs with ids that are made up, as many in each zone as are counted there, of each sort.

    Those reserved come first, then those that are taken, so that as many cores as can be are free as a whole.
    """
    counts: list[tuple[int, int, int, int]] = []
    for zone in nrt.zones:
        count = zone.counts.get(CPU)
        if count is not None and max(count) > MAX_CPUS:
            nrt.problems.append(f"zone {zone.id} {CPU}: more than {MAX_CPUS}: {max(count)}")
        elif count is not None:
            counts.append((zone.id, count.capacity, count.allocatable, count.available))
    return _made_up(tuple(counts), threads)


@lru_cache(1 << 12)
def _made_up(counts: tuple[tuple[int, int, int, int], ...], threads: int | None) -> ReportedCpus:
    zones: list[CpuGroup] = []
    cores: list[CpuGroup] = []
    reserved = free = first = 0
    for zone, capacity, allocatable, available in counts:
        size = max(capacity, allocatable)
        zones.append((zone, _run(first, size)))
        kept = size - allocatable
        reserved |= _run(first, kept)
        left = min(available, allocatable)
        free |= _run(first + size - left, left)
        step = threads or 1
        cores.extend((core, _run(core, min(step, first + size - core))) for core in range(first, first + size, step))
        first += size
    held = tuple((zone, bits) for zone, bits in zones if bits)
    topology = CpuTopology(tuple(cores), held, packages=held, reserved=reserved, exact=False)
    unknown = "which CPUs are free" if threads else "which CPUs are free, and how many of them are one core"
    return ReportedCpus(topology, free, (unknown,))


def _run(first: int, length: int) -> int:
    return ((1 << length) - 1) << first

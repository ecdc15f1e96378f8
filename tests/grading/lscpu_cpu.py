"""lscpu's view of a machine's CPUs, derived from ours by lscpu's rules.

lscpu sorts CPUs into types according to /proc/cpuinfo. It numbers the cores and sockets of each type from 0. On a
machine with several types, CPUs of different cores may therefore have the same number. Cores are sets of thread
siblings, so an AMD module is one core. Ratios are those of the first type; on s390, the firmware's counts for the whole
machine replace them if available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.cpu import Cache
    from zonewise.machine.model.machine import Machine

_LETTERS = {"Data": "d", "Instruction": "i", "Unified": ""}
_COLUMNS = ("L1d", "L1i", "L2", "L3")


class CpuType(NamedTuple):
    """CPUs of one type, and the levels that group them."""

    name: str | None
    cpus: CpuSet
    cores: list[CpuSet]
    sockets: list[CpuSet]
    books: list[CpuSet]
    drawers: list[CpuSet]


def types(machine: Machine) -> list[CpuType]:
    """Return the types of CPU; a single type if /proc/cpuinfo names none."""
    named = [(variant.name, variant.cpus) for variant in machine.model.variants] or [(None, machine.cpus.online)]
    modules = [cluster.cpus for cluster in machine.clusters if cluster.kind == "module"]
    cores = modules + [each.cpus for each in machine.cores if not any(each.cpus <= module for module in modules)]
    packages = [each.cpus for each in machine.packages]
    groups = {kind: [each.cpus for each in machine.groups if each.kind == kind] for kind in ("book", "drawer")}
    levels = (cores, packages, groups["book"], groups["drawer"])
    return [CpuType(name, cpus, *(_inside(cpus, level) for level in levels)) for name, cpus in named]


def _inside(cpus: CpuSet, sets: Iterable[CpuSet]) -> list[CpuSet]:
    return sorted({each & cpus for each in sets if each & cpus}, key=CpuSet.first)


def same_number(machine: Machine, level: str) -> list[CpuSet]:
    """Return the sets of CPUs with the same number at a level ("cores", "sockets"), regardless of their type."""
    collected: dict[int, CpuSet] = {}
    for each in types(machine):
        for index, cpus in enumerate(getattr(each, level)):
            collected[index] = collected.get(index, CpuSet()) | cpus
    return sorted(collected.values(), key=CpuSet.first)


class Ratios(NamedTuple):
    """Numbers of objects of one level in one object of the next."""

    threads_per_core: int
    cores_per_socket: int
    sockets: int | None = None
    sockets_per_book: int | None = None
    books: int | None = None
    books_per_drawer: int | None = None
    drawers: int | None = None


def ratios(machine: Machine, each: CpuType) -> Ratios:
    """Return the ratios of a type."""
    threads, cores, sockets = len(each.cpus) // len(each.cores), len(each.cores), len(each.sockets)
    books, drawers = len(each.books), len(each.drawers)
    frame = machine.mainframe
    if frame is not None and frame.cores_per_socket:
        outer: tuple[int | None, ...] = (None, frame.books_per_drawer, frame.drawers)
        if not frame.drawers:
            outer = (frame.books_per_drawer, None, None)  # a machine without drawers contains its books directly
        return Ratios(threads, frame.cores_per_socket, None, frame.sockets_per_book, *outer)
    if drawers:
        return Ratios(threads, cores // sockets, None, sockets // books, None, books // drawers, drawers)
    if books:
        return Ratios(threads, cores // sockets, None, sockets // books, books)
    return Ratios(threads, cores // sockets, sockets)


def type_rows(machine: Machine) -> list[dict[str, str]]:
    """Return lscpu's row for each type."""
    rows: list[dict[str, str]] = []
    for each in types(machine):
        ratio = ratios(machine, each)
        kinds = [kind for kind in machine.core_kinds if not kind.cpus.isdisjoint(each.cpus)]
        maxima = [kind.max_mhz for kind in kinds if kind.max_mhz is not None]
        minima = [kind.min_mhz for kind in kinds if kind.min_mhz is not None]
        row = {
            "Model name": each.name or "-",
            "Thread(s) per core": ratio.threads_per_core,
            "Core(s) per socket": ratio.cores_per_socket,
            "Socket(s)": ratio.sockets,
            "Socket(s) per book": ratio.sockets_per_book,
            "Book(s)": ratio.books,
            "Book(s) per drawer": ratio.books_per_drawer,
            "Drawer(s)": ratio.drawers,
            "CPU max MHz": f"{max(maxima):.4f}" if maxima else None,
            "CPU min MHz": f"{min(minima):.4f}" if minima else None,
        }
        rows.append({name: str(value) for name, value in row.items() if value is not None})
    return sorted(rows, key=lambda row: row["Model name"])


def physical_ids(machine: Machine, *, has_nodes: bool) -> dict[str, dict[str, str]]:
    """Return the kernel's ids of each CPU's core, socket and NUMA node: "-" for -1, and no node without NUMA nodes."""
    collected: dict[str, dict[str, str]] = {}
    for core in machine.cores:
        ids = {"Core": _printed(core.id), "Node": str(core.zone) if has_nodes else "", "Socket": _printed(core.package)}
        collected |= {str(cpu): ids for cpu in core.cpus}
    return collected


def _printed(kernel_id: int | None) -> str:
    return "-" if kernel_id in (None, -1) else str(kernel_id)


def groups(machine: Machine, *, has_nodes: bool) -> dict[str, list[str]]:
    """Return the sets of CPUs with the same number in each column of lscpu's table."""
    collected: dict[str, list[CpuSet]] = {
        "Core": same_number(machine, "cores"),
        "Socket": same_number(machine, "sockets"),
        "Node": [zone.cpus for zone in machine.zones if zone.cpus] if has_nodes else [],
    }
    for cache in machine.caches:
        if _cache_name(cache) in _COLUMNS:
            collected.setdefault(_cache_name(cache), []).append(cache.cpus)
    return {name: [str(cpus) for cpus in sorted(sets, key=CpuSet.first)] for name, sets in collected.items()}


def cache_rows(machine: Machine) -> dict[str, dict[str, Any]]:
    """Return count and total size of the caches by name; for caches that s390 only describes, only the size."""
    collected: dict[str, dict[str, Any]] = {}
    totals: dict[str, int] = {}
    for cache in machine.caches:
        name = _cache_name(cache)
        row = collected.setdefault(name, {"instances": 0})
        row["instances"] += 1
        totals[name] = totals.get(name, 0) + (cache.size or 0)
    for cache in machine.mainframe.shared_caches if machine.mainframe else ():
        name = f"L{cache.level}{_LETTERS[cache.type]}"
        collected[name] = {}
        totals[name] = cache.size or 0
    return {name: {**row, "total": human(totals[name])} for name, row in collected.items()}


def _cache_name(cache: Cache) -> str:
    return f"L{cache.level}{_LETTERS[cache.type]}"


def human(size: int) -> str:
    """Return a size as lscpu prints it: "1.5 MiB"."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.1f}".removesuffix(".0") + f" {unit}"

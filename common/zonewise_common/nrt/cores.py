"""The CPUs of each core, as one short text: "0-31/64-95".

A text consists of groups separated by ";". The cores of a group have the same number of threads. There are two
notations, for the two ways in which machines number their CPUs:

- "0-31/64-95": CPU lists separated by "/"; the first CPUs of all lists form a core, the second ones another. A single
  list describes cores of one thread.
- "0-31*2": one CPU list; its first two CPUs form a core, the next two another.

Lists are ascending, in the kernel's notation. Every partition of CPUs into cores can be written this way, at worst with
a group for each core.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

_Core = tuple[int, ...]
"""CPUs of a core, ascending."""


def write_cores(cores: Iterable[CpuSet]) -> str:
    """Return the text of disjoint cores. It does not depend on their order; empty cores are omitted."""
    by_threads: dict[int, list[_Core]] = defaultdict(list)
    for core in sorted(tuple(core) for core in cores if core):
        by_threads[len(core)].append(core)
    groups = [group for cores_alike in by_threads.values() for group in _groups(cores_alike)]
    return ";".join(text for _, text in sorted((group[0], _text(group)) for group in groups))


def read_cores(text: str) -> tuple[CpuSet, ...]:
    """Return the cores of a text, sorted by their first CPUs; raise ValueError, naming the group, if one is invalid."""
    cores = [core for group in text.split(";") if text for core in _read(group)]
    cpus = EMPTY
    for core in cores:
        if not cpus.isdisjoint(core):
            raise ValueError(f"CPUs {cpus & core} are in two cores: {text[:80]!r}")
        cpus |= core
    return tuple(sorted(cores, key=CpuSet.first))


def _groups(cores: list[_Core]) -> list[list[_Core]]:
    """Partition cores with the same number of threads, in order, into groups that the notation can express."""
    if _is_consecutive(cores):
        return [cores]
    groups: list[list[_Core]] = []
    for core in cores:
        fitting = (group for group in groups if all(map(int.__lt__, group[-1], core)))
        group = next(fitting, None)
        if group is None:
            groups.append([core])
        else:
            group.append(core)
    return groups


def _is_consecutive(cores: list[_Core]) -> bool:
    return all(before[-1] < after[0] for before, after in pairwise(cores))


def _text(group: list[_Core]) -> str:
    threads = len(group[0])
    if threads > 1 and _is_consecutive(group):
        return f"{CpuSet(cpu for core in group for cpu in core)}*{threads}"
    return "/".join(str(CpuSet(column)) for column in zip(*group, strict=True))


def _read(group: str) -> list[CpuSet]:
    cpus_text, star, threads_text = group.partition("*")
    if star:
        cpus = list(CpuSet.parse_list(cpus_text))
        threads = int(threads_text) if threads_text.isascii() and threads_text.isdecimal() else 0
        if not threads or len(cpus) % threads or not cpus:
            raise ValueError(f"not cores: {group[:80]!r}")
        return [CpuSet(cpus[start : start + threads]) for start in range(0, len(cpus), threads)]
    columns = [CpuSet.parse_list(column) for column in group.split("/")]
    if len({len(column) for column in columns}) != 1 or not columns[0]:
        raise ValueError(f"not cores: {group[:80]!r}")
    if len(CpuSet.union(columns)) != sum(map(len, columns)):
        raise ValueError(f"not cores, since a CPU is in two of the lists: {group[:80]!r}")
    return [CpuSet(core) for core in zip(*columns, strict=True)]

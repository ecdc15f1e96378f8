"""The size of a NUMA node's memory, its reserved huge pages, the caches in front of it, and its tier.

Only values that stay constant while programs run are read: MemTotal and the sizes of the pools, not free memory.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collectors.memory.zone_cpus import MAX_NODES, NODE
from zonewise.machine.model.zone import MemorySideCache

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from zonewise.machine.reader import Reader

MEMINFO = "proc/meminfo"
HUGEPAGES = "sys/kernel/mm/hugepages"
TIERS = "sys/devices/virtual/memory_tiering"

MAX_MEMORY = 1 << 57
"""Sizes in bytes from this value on are damage: no architecture has more physical address bits (RISC-V and x86 have 56
and 52)."""

# drivers/base/node.c node_read_meminfo() prefixes the lines of fs/proc/meminfo.c with "Node 3 "; before Linux 2.6.37 an
# empty line came first
_TOTAL = re.compile(rb"^(?:Node +(\d{1,5}) +)?MemTotal: +(\d{1,19}) kB *$", re.MULTILINE)
_POOL = re.compile(r"hugepages-(\d{1,12})kB")
_TIER = re.compile(r"memory_tier(\d{1,6})")
_SIDE_CACHE = re.compile(r"index(\d{1,2})")


def total_line(content: bytes) -> bytes:
    """Return the part of a meminfo file with the total size; the whole file if that part is absent."""
    match = _TOTAL.search(content)
    return match[0] if match else content


def read_node_memory(read: Reader, nodes: Sequence[int]) -> dict[int, int]:
    """Return the bytes of RAM by node, for nodes whose size is known."""
    memory_by_node: dict[int, int] = {}
    silent: list[int] = []
    for node in nodes:
        path = f"{NODE}/node{node}/meminfo"
        content = read.raw(path)
        if content is None:
            silent.append(node)
        elif (memory := _total(read, path, content, f"zones.{node}.memory", node)) is not None:
            memory_by_node[node] = memory
    if silent == list(nodes) and len(nodes) == 1:
        node, content = nodes[0], read.raw(MEMINFO)
        memory = None if content is None else _total(read, MEMINFO, content, f"zones.{node}.memory", None)
        if memory is not None:
            memory_by_node[node] = memory
        used = (
            f"/{MEMINFO}, because the machine is one zone"
            if memory_by_node
            else f"the memory of zone {node} is unknown"
        )
        read.problem(f"{NODE}/node{node}/meminfo", "is absent", used)
    else:
        report_lacking(read, "meminfo", silent, nodes, "memory")
    return memory_by_node


def read_machine_memory(read: Reader, fact: str, *, is_needed: bool = True) -> int | None:
    """Return the bytes of RAM of the whole machine; its absence is a problem if it is needed."""
    content = read.raw(MEMINFO, needed="the memory of the machine") if is_needed else read.raw(MEMINFO)
    return None if content is None else _total(read, MEMINFO, content, fact, None)


def _total(read: Reader, path: str, content: bytes, fact: str, node: int | None) -> int | None:
    lost = "the memory of the machine is unknown" if node is None else f"the memory of zone {node} is unknown"
    match = _TOTAL.search(content)
    if match is None:
        read.problem(path, "has no line MemTotal", lost)
        return None
    memory = int(match[2]) * 1024
    if memory >= MAX_MEMORY or (node is not None and match[1] is not None and int(match[1]) != node):
        read.problem(path, f"contains {match[0].decode()!r}", lost)
        return None
    read.source(fact, path, match[0].decode(), "MemTotal, in units of 1024 bytes")
    return memory


def report_lacking(read: Reader, name: str, lacking: Sequence[int], nodes: Sequence[int], what: str) -> None:
    """Report a file that nodes lack, as a single entry if all nodes lack it."""
    if lacking and len(lacking) == len(nodes):
        read.problem(NODE, f"no node has a file {name}", f"nothing is known about the {what} of the zones")
        return
    for node in lacking:
        read.problem(f"{NODE}/node{node}/{name}", "is absent", f"nothing is known about the {what} of zone {node}")


# --- huge pages


def read_node_hugepages(read: Reader, nodes: Sequence[int], memory: dict[int, int]) -> dict[int, dict[str, int]]:
    """Return the number of pages in each pool by page size and node; no pools if the kernel has no huge pages."""
    directories = {node: f"{NODE}/node{node}/hugepages" for node in nodes}
    sizes = {node: huge_page_sizes(read, directory) for node, directory in directories.items()}
    every = sorted({size for node_sizes in sizes.values() for size in node_sizes})
    if not every and len(nodes) == 1 and (every := huge_page_sizes(read, HUGEPAGES)):
        node = nodes[0]
        read.problem(directories[node], "is absent", f"/{HUGEPAGES}: the machine is one zone")
        return {node: _pools(read, HUGEPAGES, every, f"zones.{node}.hugepages")}
    if not every and any(read_machine_hugepages(read, "").values()):
        # before Linux 2.6.32 nodes did not have their own pools
        read.problem(NODE, "no node has pools of huge pages, but the machine has", "their zones are unknown")
    for node in nodes:
        missing = [page_name(size) for size in every if size not in sizes[node]]
        # mm/hugetlb.c creates pools only for nodes with memory
        if missing and memory.get(node) != 0:
            lost = f"pages of {', '.join(missing)} in zone {node} are unknown"
            read.problem(directories[node], "lacks pools that other nodes have", lost)
    return {node: _pools(read, directories[node], sizes[node], f"zones.{node}.hugepages") for node in nodes}


def read_machine_hugepages(read: Reader, fact: str) -> dict[str, int]:
    """Return the number of pages in the whole machine's pool of each page size."""
    return _pools(read, HUGEPAGES, huge_page_sizes(read, HUGEPAGES), fact)


def huge_page_sizes(read: Reader, directory: str = HUGEPAGES) -> list[int]:
    """Return the page sizes that have a pool in a directory, in KiB, ascending."""
    return [int(match[1]) for name in read.names(directory) if (match := _POOL.fullmatch(name)) and int(match[1]) > 0]


def _pools(read: Reader, directory: str, sizes: Sequence[int], fact: str) -> dict[str, int]:
    pools: dict[str, int] = {}
    for size in sizes:
        name = page_name(size)
        path = f"{directory}/hugepages-{size}kB/nr_hugepages"
        own = f"{fact}.{name}" if fact else ""
        pages = read.integer(path, fact=own, rule="pages in the pool", needed=own)
        if pages is None:
            continue
        if 0 <= pages * size * 1024 < MAX_MEMORY:
            pools[name] = pages
        else:
            read.problem(path, f"contains {pages} pages of {name}", f"{own} is unknown" if own else None)
    return pools


def page_name(kib: int) -> str:
    """Return a size in KiB in the binary unit of Kubernetes' resource names: "2Mi"."""
    for unit, size in (("Gi", 1 << 20), ("Mi", 1 << 10)):
        if kib % size == 0:
            return f"{kib // size}{unit}"
    return f"{kib}Ki"


# --- caches and tiers


def read_node_side_caches(
    read: Reader, nodes: Sequence[int], bare: Container[int]
) -> dict[int, tuple[MemorySideCache, ...]]:
    """Return the memory-side caches by node, nearest level first (Documentation/admin-guide/mm/numaperf.rst)."""
    levels = {
        node: [int(match[1]) for name in read.names(_side_cache_path(node)) if (match := _SIDE_CACHE.fullmatch(name))]
        for node in nodes
    }
    report_outlier(
        read, _side_cache_path, {node: bool(cache_levels) for node, cache_levels in levels.items()}, bare, "side caches"
    )
    return {node: tuple(_side_cache(read, node, level) for level in sorted(levels[node])) for node in nodes}


def report_outlier(
    read: Reader, path: Callable[[int], str], held: Mapping[int, bool], bare: Container[int], what: str
) -> None:
    """Report a directory that one node lacks and that all other nodes of its sort (with or without CPUs) have."""
    for sort in (False, True):
        alike = [node for node in held if (node in bare) is sort]
        odd = [node for node in alike if not held[node]]
        if len(odd) == 1 and len(alike) > 1:
            lost = f"nothing is known about the {what} of zone {odd[0]}"
            read.problem(path(odd[0]), "is absent, although every other node of its kind has it", lost)


def _side_cache_path(node: int) -> str:
    return f"{NODE}/node{node}/memory_side_cache"


def _side_cache(read: Reader, node: int, level: int) -> MemorySideCache:
    directory, fact = f"{_side_cache_path(node)}/index{level}", f"zones.{node}.side_caches"
    needed = f"a side cache of zone {node}"
    size = _bytes(read, f"{directory}/size", f"the size of {needed}")
    line = _bytes(read, f"{directory}/line_size", f"the line size of {needed}")
    read.source(fact, directory, size, "size and line_size in bytes, by level")
    return MemorySideCache(level, size, line)


def _bytes(read: Reader, path: str, needed: str) -> int | None:
    value = read.integer(path, needed=needed)
    if value is None or 0 <= value < MAX_MEMORY:
        return value
    read.problem(path, f"contains {value} bytes", f"{needed} is unknown")
    return None


def read_node_tiers(read: Reader, memory: Mapping[int, int]) -> dict[int, int]:
    """Return the kernel's memory tier by node; none before Linux 6.1, and none for a node without memory."""
    tiers: dict[int, int] = {}
    for name in read.names(TIERS):
        if match := _TIER.fullmatch(name):
            path = f"{TIERS}/{name}/nodelist"
            for node in read.cpus(path) or ():
                if node < MAX_NODES:
                    tiers[node] = int(match[1])
                    read.source(f"zones.{node}.tier", path, node, "the tier whose nodelist names it")
    if tiers and (without := [node for node, size in memory.items() if size and node not in tiers]):
        read.problem(TIERS, f"has no tier for nodes {without}", "their tier is unknown")
    return tiers

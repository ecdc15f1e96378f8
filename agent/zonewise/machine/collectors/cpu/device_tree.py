"""The caches of POWER machines from the device tree, for kernels that leave them out of sysfs.

A CPU's node points to its L2 by a handle, the L2 to the L3, and so on. Sources: Power.org Standard for Embedded Power
Architecture Platform Requirements (ePAPR) 3.7 and 3.8; Linux on Power Architecture Platform Reference (LoPAR) C.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.model.cpu import Cache
from zonewise_common.k8s.cpuset import MAX_CPUS, CpuSet

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

ROOTS = ("proc/device-tree", "sys/firmware/devicetree/base")

_HANDLES = ("ibm,phandle", "linux,phandle", "phandle")
_NEXT = ("l2-cache", "next-level-cache")  # IBM's name is "l2-cache" at every level
_THREADS = "ibm,ppc-interrupt-server#s"
_MAX_LEVEL = 8


class TreeCache(NamedTuple):
    """A cache of the device tree, with its node."""

    cache: Cache
    path: str


class _Node(NamedTuple):
    path: str
    following: int | None
    """The handle of the next level's cache."""
    threads: tuple[int, ...]
    """The hardware's numbers of a CPU's threads; empty for a cache."""


def device_tree_caches(read: Reader, online: CpuSet) -> list[TreeCache]:
    """Return the caches that the device tree lists, from the second level on."""
    nodes, handles = _nodes(read)
    logical = _logical_cpus(read, online) if any(node.threads for node in nodes) else {}
    reached: dict[tuple[int, str], list[int]] = {}
    for node in nodes:
        cpus = [logical[thread] for thread in node.threads if thread in logical]
        following, level = node.following, 2
        while cpus and level <= _MAX_LEVEL and (cache := handles.get(following)):
            reached.setdefault((level, cache.path), []).extend(cpus)
            following, level = cache.following, level + 1
    return [each for (level, path), cpus in reached.items() for each in _caches(read, level, path, CpuSet(cpus))]


def _nodes(read: Reader) -> tuple[list[_Node], dict[int | None, _Node]]:
    for root in ROOTS:
        nodes: list[_Node] = []
        handles: dict[int | None, _Node] = {}
        for name in read.names(f"{root}/cpus"):
            path = f"{root}/cpus/{name}"
            properties = frozenset(read.names(path)) if "@" in name else frozenset[str]()
            node = _Node(path, _first(read, path, properties, _NEXT), _threads(read, path, properties))
            nodes.append(node)
            for handle in _HANDLES:
                if handle in properties and not node.threads:
                    handles[_cell(read, f"{path}/{handle}")] = node
        handles.pop(None, None)
        if nodes:
            return nodes, handles
    return [], {}


def _first(read: Reader, path: str, properties: frozenset[str], names: tuple[str, ...]) -> int | None:
    present = next((name for name in names if name in properties), None)
    return None if present is None else _cell(read, f"{path}/{present}")


def _threads(read: Reader, path: str, properties: frozenset[str]) -> tuple[int, ...]:
    if _THREADS not in properties:
        return ()
    content = read.raw(f"{path}/{_THREADS}", needed="which CPUs share the caches of this core") or b""
    return tuple(int.from_bytes(content[at : at + 4], "big") for at in range(0, len(content) - 3, 4))


def _cell(read: Reader, path: str) -> int | None:
    """Return a property of one cell: 32 bits, big endian."""
    content = read.raw(path)
    if content is None:
        return None
    if len(content) != 4:
        read.problem(path, f"has {len(content)} bytes, not 4", "its value is unknown")
        return None
    return int.from_bytes(content, "big")


def _logical_cpus(read: Reader, online: CpuSet) -> dict[int, int]:
    """Return the kernel's number of each CPU by its hardware number (arch/powerpc/kernel/sysfs.c
    show_physical_id()).
    """
    cpus_by_number: dict[int, int] = {}
    for cpu in online:
        hardware = read.integer(f"sys/devices/system/cpu/cpu{cpu}/physical_id")
        number = cpu if hardware is None else hardware
        if 0 <= number < MAX_CPUS:
            cpus_by_number[number] = cpu
    return cpus_by_number


def _caches(read: Reader, level: int, path: str, cpus: CpuSet) -> list[TreeCache]:
    properties = frozenset(read.names(path))
    data = _first(read, path, properties, ("d-cache-size", "cache-size"))
    if "cache-unified" in properties:
        return [TreeCache(Cache(level, "Unified", data, cpus), path)]
    instructions = _first(read, path, properties, ("i-cache-size",))
    sizes = (("Data", data), ("Instruction", instructions))
    return [TreeCache(Cache(level, kind, size, cpus), path) for kind, size in sizes if size]

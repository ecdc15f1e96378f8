"""The caches of POWER machines in the device tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.cpu_trees import CPU, add_cache, bare_tree, cpuset, healthy, line, paths, reader
from support.damage import DELETE, Damage, Damaged
from zonewise.machine.collectors.cpu import caches, cpus
from zonewise.machine.collectors.cpu.device_tree import ROOTS, device_tree_caches
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.cpu import Cache
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from support.trees import Contents

ONLINE = cpuset("0-7")


def cell(*values: int) -> bytes:
    """Return a property of 32-bit cells in big-endian order."""
    return b"".join(value.to_bytes(4, "big") for value in values)


def power_tree(root: str = ROOTS[0], handle: str = "ibm,phandle") -> Contents:
    """Return a tree of two cores with four threads each, an L2 per core and one L3."""
    tree: Contents = {f"{root}/cpus/name": b"cpus\0"}
    for core in (0, 1):
        node = f"{root}/cpus/PowerPC,POWER7@{4 * core:x}"
        tree |= {f"{node}/ibm,ppc-interrupt-server#s": cell(*range(4 * core, 4 * core + 4))}
        tree |= {f"{node}/l2-cache": cell(0x2000 + core), f"{node}/{handle}": cell(0x2000), f"{node}/reg": cell(core)}
        l2 = f"{root}/cpus/l2-cache@{2000 + core}"
        tree |= {f"{l2}/{handle}": cell(0x2000 + core), f"{l2}/l2-cache": cell(0x3000), f"{l2}/cache-unified": b""}
        tree |= {f"{l2}/d-cache-size": cell(256 << 10), f"{l2}/i-cache-size": cell(256 << 10)}
    l3 = f"{root}/cpus/l3-cache@3000"
    return tree | {f"{l3}/{handle}": cell(0x3000), f"{l3}/d-cache-size": cell(4 << 20), f"{l3}/cache-unified": b""}


def rows(read: Reader) -> set[tuple[int, str, int | None, str]]:
    """Return the caches of a tree."""
    tree_caches = (entry.cache for entry in device_tree_caches(read, ONLINE))
    return {(cache.level, cache.type, cache.size, str(cache.cpus)) for cache in tree_caches}


EXPECTED = {(2, "Unified", 256 << 10, "0-3"), (2, "Unified", 256 << 10, "4-7"), (3, "Unified", 4 << 20, "0-7")}


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("handle", ["ibm,phandle", "linux,phandle", "phandle"])
def test_each_level_points_to_the_next(root: str, handle: str) -> None:
    """A core's node points to its L2, which points to the L3. CPUs that reach the same cache share it."""
    read = reader(power_tree(root, handle))
    assert rows(read) == EXPECTED
    assert read.problems == []


def test_numbers_of_the_hardware() -> None:
    """The device tree numbers threads like the hardware; sysfs maps them to the kernel's CPUs."""
    physical: Contents = {f"{CPU}/cpu{cpu}/physical_id": line((cpu + 4) % 8) for cpu in range(8)}
    tree = power_tree() | physical | {f"{ROOTS[0]}/cpus/l2-cache@2000/d-cache-size": cell(1 << 20)}
    assert (2, "Unified", 1 << 20, "4-7") in rows(reader(tree))


def test_split_caches() -> None:
    """A cache that is not unified is one data and one instruction cache."""
    tree = {path: content for path, content in power_tree().items() if not path.endswith("@2000/cache-unified")}
    assert rows(reader(tree)) >= {(2, "Data", 256 << 10, "0-3"), (2, "Instruction", 256 << 10, "0-3")}


def test_a_ring_of_handles_ends() -> None:
    """Caches that point to each other in a ring do not form an endless hierarchy."""
    tree = power_tree() | {f"{ROOTS[0]}/cpus/l3-cache@3000/l2-cache": cell(0x2000)}
    assert max(level for level, _, _, _ in rows(reader(tree))) <= 8


def test_device_trees_without_caches() -> None:
    """Nodes without thread numbers, as on ARM, have no caches; nor has an absent tree."""
    arm: Contents = {
        "proc/device-tree/cpus/cpu@0/reg": cell(0),
        "proc/device-tree/cpus/cpu@0/next-level-cache": cell(1),
    }
    nothing: Contents = {"x": b""}
    for tree in (arm, nothing):
        read = reader(tree)
        assert rows(read) == set()
        assert read.problems == []


@pytest.mark.parametrize("content", [b"", b"\0", b"junk!", b"\xff" * 9])
def test_damage(content: bytes) -> None:
    """A handle or size of another length is reported; its target is lost, the rest remains."""
    read = reader(power_tree() | {f"{ROOTS[0]}/cpus/l2-cache@2000/d-cache-size": content})
    assert rows(read) == {row if row[3] != "0-3" else (2, "Unified", None, "0-3") for row in EXPECTED}
    assert paths(read.problems) == [f"{ROOTS[0]}/cpus/l2-cache@2000/d-cache-size"]
    read = reader(power_tree() | {f"{ROOTS[0]}/cpus/PowerPC,POWER7@0/l2-cache": content})
    assert rows(read) == {(2, "Unified", 256 << 10, "4-7"), (3, "Unified", 4 << 20, "4-7")}
    assert len(read.problems) == 1


def test_lost_threads() -> None:
    """A core with unreadable thread numbers has no caches, and this is reported."""
    path = f"{ROOTS[0]}/cpus/PowerPC,POWER7@0/ibm,ppc-interrupt-server#s"
    read = Reader(Damaged(MemoryFiles(power_tree().items()), {path: Damage("deny")}))
    assert (2, "Unified", 256 << 10, "0-3") not in rows(read)
    assert paths(read.problems) == [path]
    read = Reader(Damaged(MemoryFiles(power_tree().items()), {path: Damage(DELETE)}))
    assert (2, "Unified", 256 << 10, "4-7") in rows(read)


def test_it_applies_only_if_sysfs_lacks_caches() -> None:
    """The device tree adds the caches that sysfs omits beside an L1. If sysfs lists an L2, sysfs applies."""
    collectors = (cpus.COLLECTOR, caches.COLLECTOR)
    tree = bare_tree("0-7") | power_tree()
    add_cache(tree, 0, 1, "Data", "32K", ["0-3", "4-7"])
    assert {cache.level for cache in healthy(tree, collectors).caches} == {1, 2, 3}
    add_cache(tree, 1, 2, "Unified", "512K", ["0-3", "4-7"])
    assert Cache(2, "Unified", 512 << 10, cpuset("0-3")) in healthy(tree, collectors).caches
    assert {cache.level for cache in healthy(tree, collectors).caches} == {1, 2}

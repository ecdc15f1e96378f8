"""Caches: each is listed once, with its sharers, whatever the kernel omits and whatever is damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cpu_trees import (
    ALL,
    CPU,
    add_cache,
    bare_tree,
    cpuset,
    found,
    healthy,
    line,
    paths,
    reads,
    scan,
    topology_tree,
)
from support.damage import DELETE, Damage
from support.trees import SERVER, Contents, Shape, machine_tree
from zonewise.machine.collectors.cpu import caches, cpus, topology
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.cpu import Cache

ONLY = (cpus.COLLECTOR, caches.COLLECTOR)
WITH_CORES = (cpus.COLLECTOR, topology.COLLECTOR, caches.COLLECTOR)
SINGLES = [str(cpu) for cpu in range(8)]


def quad(online: str = "0-7", *, size: bool = True) -> Contents:
    """Return a tree of eight CPUs with an L1d and an L1i each, an L2 per two CPUs and an L3 per four."""
    tree = bare_tree(online)
    add_cache(tree, 0, 1, "Data", "32K" if size else None, SINGLES)
    add_cache(tree, 1, 1, "Instruction", "64K" if size else None, SINGLES)
    add_cache(tree, 2, 2, "Unified", "1024K" if size else None, ["0-1", "2-3", "4-5", "6-7"])
    add_cache(tree, 3, 3, "Unified", "16384K" if size else None, ["0-3", "4-7"])
    return tree


def index(cpu: int, number: int, name: str = "") -> str:
    """Return the path of a cache's directory at a CPU, or of a file in it."""
    return f"{CPU}/cpu{cpu}/cache/index{number}" + (f"/{name}" if name else "")


def rows(actual: tuple[Cache, ...]) -> list[tuple[int, str, int | None, str]]:
    """Return caches without their ids."""
    return [(cache.level, cache.type, cache.size, str(cache.cpus)) for cache in actual]


QUAD = healthy(quad(), ONLY).caches


def test_every_cache_once_in_order() -> None:
    """Caches are sorted by first CPU, then level, then type."""
    assert rows(QUAD)[:5] == [
        (1, "Data", 32768, "0"),
        (1, "Instruction", 65536, "0"),
        (2, "Unified", 1 << 20, "0-1"),
        (3, "Unified", 16 << 20, "0-3"),
        (1, "Data", 32768, "1"),
    ]
    assert len(QUAD) == 8 + 8 + 4 + 2


def test_each_cache_is_read_once() -> None:
    """Level, size, type and sharers are read only at the first CPU of a cache."""
    read = [path for path in reads(quad(), ONLY) if "/cache/" in path]
    assert len(read) == len(set(read)) == 4 * len(QUAD)
    assert [path for path in read if "index3" in path] == [
        index(cpu, 3, name) for name in ("shared_cpu_map",) for cpu in (0, 4)
    ] + [index(cpu, 3, name) for cpu in (0, 4) for name in ("level", "type", "size")]


def test_offline_cpus_share_nothing() -> None:
    """Masks are restricted to online CPUs."""
    tree = {path: content for path, content in quad("0-2,4-7").items() if "/cpu3/" not in path}
    tree |= {f"{CPU}/cpu3/online": b"0\n", f"{CPU}/present": b"0-7\n", f"{CPU}/possible": b"0-7\n"}
    assert (2, "Unified", 1 << 20, "2") in rows(healthy(tree, ONLY).caches)
    assert (3, "Unified", 16 << 20, "0-2") in rows(healthy(tree, ONLY).caches)


def test_masks_without_lists() -> None:
    """Old kernels have neither lists nor ids."""
    tree = {path: content for path, content in quad().items() if not path.endswith("shared_cpu_list")}
    assert healthy(tree, ONLY).caches == QUAD
    lists = {path: content for path, content in quad().items() if not path.endswith("shared_cpu_map")}
    assert healthy(lists, ONLY).caches == QUAD


def test_unknown_sizes() -> None:
    """Many ARM and RISC-V kernels do not know sizes, and old kernels print 0: None, without a problem."""
    assert {cache.size for cache in healthy(quad(size=False), ONLY).caches} == {None}
    unknown = {index(cpu, 3, "size"): b"0K\n" for cpu in range(8)}
    assert {cache.size for cache in healthy(quad() | unknown, ONLY).caches if cache.level == 3} == {None}


def test_ids() -> None:
    """Ids need not be unique: caches of different types may share one, as on s390."""
    tree = quad() | {index(cpu, number, "id"): line(cpu) for cpu in range(8) for number in range(4)}
    assert {(cache.type, cache.id) for cache in healthy(tree, ONLY).caches if cache.level == 1} == {
        (kind, cpu) for kind in ("Data", "Instruction") for cpu in range(8)
    }


def test_levels_without_ids() -> None:
    """ARM firmware numbers only some levels. The others have no id, without a problem."""
    tree = quad() | {index(cpu, 3, "id"): line(cpu // 4) for cpu in range(8)}
    assert {(cache.level, cache.id) for cache in healthy(tree, ONLY).caches} == {(1, None), (2, None), (3, 0), (3, 1)}


def test_an_empty_mask_means_the_cpu_itself() -> None:
    """On ia64, kernels leave the mask empty for a cache that only one CPU has."""
    tree = bare_tree("0-1")
    add_cache(tree, 0, 1, "Data", "16K", ["0", "1"])
    tree |= {index(cpu, 0, "shared_cpu_map"): b"00000000,00000000\n" for cpu in (0, 1)}
    assert rows(healthy(tree, ONLY).caches) == [(1, "Data", 16384, "0"), (1, "Data", 16384, "1")]


def test_an_empty_mask_means_the_core_if_it_is_known() -> None:
    """A core with several threads has one such cache, not one per thread."""
    tree = topology_tree({"0,2": 0, "1,3": 1}, {"0-3": 0})
    add_cache(tree, 0, 3, "Unified", "9M", ["0", "1", "2", "3"])
    tree |= {index(cpu, 0, "shared_cpu_map"): b"00000000,00000000\n" for cpu in range(4)}
    machine = healthy(tree, WITH_CORES)
    assert {core.cpus for core in machine.cores} == {cache.cpus for cache in machine.caches}
    assert len(machine.caches) == 2


def test_cpus_with_different_caches() -> None:
    """CPUs with another list of caches may have other caches at the same index, so their own files are read."""
    tree = bare_tree("0-3")
    add_cache(tree, 0, 1, "Data", "32K", ["0", "1", "2", "3"])
    add_cache(tree, 1, 1, "Instruction", "32K", ["0", "1"])
    add_cache(tree, 2, 2, "Unified", "512K", ["0-3"])
    for cpu in (2, 3):  # without an instruction cache of its own, a CPU has the L2 at index 1
        for name in ("level", "type", "size", "shared_cpu_map", "shared_cpu_list"):
            tree[index(cpu, 1, name)] = tree.pop(index(cpu, 2, name))
    assert rows(healthy(tree, ONLY).caches) == [
        (1, "Data", 32768, "0"),
        (1, "Instruction", 32768, "0"),
        (2, "Unified", 524288, "0-3"),
        (1, "Data", 32768, "1"),
        (1, "Instruction", 32768, "1"),
        (1, "Data", 32768, "2"),
        (1, "Data", 32768, "3"),
    ]


def test_the_same_cache_twice() -> None:
    """VirtualBox lists one L1 twice; it counts once."""
    tree = bare_tree("0-1")
    for number in (0, 1):
        add_cache(tree, number, 1, "Data", "32K", ["0", "1"])
    assert rows(healthy(tree, ONLY).caches) == [(1, "Data", 32768, "0"), (1, "Data", 32768, "1")]


def test_a_gap_in_the_numbers() -> None:
    """A missing index is a loss: the other caches are used, and the gap is reported."""
    tree = {path: content for path, content in quad().items() if not path.startswith(index(0, 1))}
    machine = found(tree, ONLY)
    assert machine.caches == tuple(cache for cache in QUAD if (cache.type, cache.cpus) != ("Instruction", cpuset("0")))
    assert paths(machine.problems) == [f"{CPU}/cpu0/cache"]


def test_a_single_cpu_without_caches() -> None:
    """Its private caches are lost, and this is reported. The files of other CPUs list the caches that it shares."""
    tree = {path: content for path, content in quad().items() if not path.startswith(f"{CPU}/cpu2/cache")}
    machine = found(tree, ONLY)
    assert machine.caches == tuple(cache for cache in QUAD if cache.cpus != cpuset("2"))
    assert paths(machine.problems) == [f"{CPU}/cpu2/cache"]


@pytest.mark.parametrize(
    "damage",
    [
        Damage(DELETE),
        Damage("deny"),
        Damage("content", 0, b"junk\n"),
        Damage("content", 0, b""),
        Damage("content", 0, b"0\n"),
    ],
)
@pytest.mark.parametrize("name", ["level", "type"])
def test_level_and_type_from_sharing_cpus(name: str, damage: Damage) -> None:
    """A CPU with the same list of caches has the same level and type at the same index."""
    machine = found(quad(), ONLY, {index(0, 0, name): damage})
    assert machine.caches == QUAD
    assert {(problem.path, problem.used) for problem in machine.problems} == {
        (f"/{index(0, 0, name)}", f"/{index(1, 0, name)}")
    }


@pytest.mark.parametrize("name", ["level", "type"])
def test_levels_or_types_that_are_lost_everywhere(name: str) -> None:
    """A cache without a level or type in any file cannot be listed; this is reported once per index, not per CPU."""
    tree = {path: content for path, content in quad().items() if not path.endswith(f"index2/{name}")}
    machine = found(tree, ONLY)
    assert machine.caches == tuple(cache for cache in QUAD if cache.level != 2)
    assert paths(machine.problems) == [index(0, 2, name)]


def test_a_lost_size() -> None:
    """A sharer's file has the size. The size of an unshared cache is unknown, not zero."""
    machine = found(quad(), ONLY, {index(0, 3, "size"): Damage(DELETE)})
    assert machine.caches == QUAD
    assert machine.problems[0].used == f"/{index(1, 3, 'size')}"
    machine = found(quad(), ONLY, {index(0, 0, "size"): Damage("content", 0, b"-3K\n")})
    assert machine.caches == (QUAD[0]._replace(size=None), *QUAD[1:])
    assert machine.problems[0].used is not None


def test_lost_sharers() -> None:
    """The list replaces the mask. Without both, a cache that no other file lists is lost, and this is reported."""
    machine = found(quad(), ONLY, {index(0, 0, "shared_cpu_map"): Damage("content", 0, b"zz\n")})
    assert machine.caches == QUAD
    assert machine.problems[0].used == f"/{index(0, 0, 'shared_cpu_list')}"
    both = {index(0, 0, name): Damage(DELETE) for name in ("shared_cpu_map", "shared_cpu_list")}
    machine = found(quad(), ONLY, both)
    assert machine.caches == QUAD[1:]
    assert [problem.used for problem in machine.problems] == ["the cache of CPU 0 is unknown"]
    both = {index(0, 3, name): Damage(DELETE) for name in ("shared_cpu_map", "shared_cpu_list")}
    machine = found(quad(), ONLY, both)
    assert machine.caches == QUAD
    assert [problem.used for problem in machine.problems] == [f"/{index(1, 3, 'shared_cpu_map')}"]


def test_conflicting_sharers() -> None:
    """A cache that claims CPUs of another is dropped together with that one; the rest remains."""
    machine = found(quad() | {index(0, 3, "shared_cpu_map"): b"0000001f\n"}, ONLY)
    assert [str(cache.cpus) for cache in machine.caches if cache.level == 3] == ["4-7"]
    assert len(machine.caches) == len(QUAD) - 1
    assert {path.rpartition("/")[0] for path in paths(machine.problems)} == {index(0, 3), index(1, 3)}


def test_conflicts_between_lists_of_caches() -> None:
    """Overlapping caches of one level and type are dropped even if the CPUs have different lists of caches."""
    tree = bare_tree("0-3")
    add_cache(tree, 0, 2, "Unified", "1M", ["0-1", "2-3"])
    add_cache(tree, 1, 3, "Unified", "8M", ["0-1"])
    for cpu in (2, 3):
        tree[index(cpu, 0, "shared_cpu_map")] = b"0000000e\n"
    machine = found(tree, ONLY)
    assert [str(cache.cpus) for cache in machine.caches] == ["0-1"]
    assert len(machine.problems) == 2


def test_machines_without_caches() -> None:
    """Many virtual machines list none: no data, without a problem."""
    scan_result = scan(bare_tree("0-1"), ONLY)
    assert scan_result.runs[1].outcome == "no data"
    assert scan_result.machine.problems == ()
    assert scan({"x": b""}, (caches.COLLECTOR,)).runs[0].detail == "no CPUs"


def test_sparc() -> None:
    """Each CPU has its own files with sizes in bytes; the threads of a core share caches."""
    tree = topology_tree({"6-7": 0, "10": 1}, {"6-7": 0, "10": 1})
    for cpu in (6, 7, 10):
        sizes = {"l1_dcache_size": 16384, "l1_icache_size": 32768, "l2_cache_size": 1 << 20}
        tree |= {f"{CPU}/cpu{cpu}/{name}": line(size) for name, size in sizes.items()}
    expected = [(1, "Data", 16384), (1, "Instruction", 32768), (2, "Unified", 1 << 20)]
    assert rows(healthy(tree, WITH_CORES).caches) == [(*cache, cpus) for cpus in ("6-7", "10") for cache in expected]
    machine = found(tree, WITH_CORES, {f"{CPU}/cpu10/l2_cache_size": Damage(DELETE)})
    assert len(machine.caches) == 5
    assert paths(machine.problems) == [f"{CPU}/cpu10/l2_cache_size"]


def test_sources() -> None:
    """Every cache names the file that lists its sharers."""
    sources = scan(quad(), ONLY, explain=True).sources
    assert sources["caches.3"].file == f"/{index(0, 3, 'shared_cpu_map')}"
    assert {f"caches.{number}" for number in range(len(QUAD))} <= set(sources)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Return a machine of any shape."""
    l3_cores = draw(st.integers(1, 3))
    return Shape(
        packages=draw(st.integers(1, 2)),
        zones=1,
        cores=l3_cores * draw(st.integers(1, 2)),
        threads=draw(st.sampled_from([1, 2, 4])),
        l3_cores=l3_cores,
        adjacent=draw(st.booleans()),
    )


@settings(max_examples=25, deadline=None)
@given(shapes())
def test_any_shape(shape: Shape) -> None:
    """Each core has its L1 and L2, each group of cores has its L3, and each cache is read once."""
    tree = machine_tree(shape)
    core_cpus = [str(shape.of_core(core)) for core in range(shape.all_cores)]
    l3_cpus = [str(shape.of_cores(core, shape.l3_cores)) for core in range(0, shape.all_cores, shape.l3_cores)]
    sets = {
        level: [str(cache.cpus) for cache in healthy(tree, ONLY).caches if cache.level == level] for level in (2, 3)
    }
    assert sorted(sets[2]) == sorted(core_cpus)
    assert sorted(sets[3]) == sorted(l3_cpus)
    maps = [path for path in reads(tree, ONLY) if path.endswith("index3/shared_cpu_map")]
    assert len(maps) == len(l3_cpus)


@settings(max_examples=80, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(sorted(path for path in quad() if "cache" in path)), st.binary(max_size=20), max_size=5
    )
)
def test_no_noise_makes_caches_overlap(noise: dict[str, bytes]) -> None:
    """Whatever the files contain, a CPU has at most one cache of each level and type, and every loss is reported."""
    machine = found(quad() | noise, ONLY)
    served = [(cache.level, cache.type, cpu) for cache in machine.caches for cpu in cache.cpus]
    assert len(served) == len(set(served))
    assert CpuSet(cpu for _, _, cpu in served) <= machine.cpus.online
    if not set(QUAD) <= set(machine.caches):
        assert machine.problems


def test_the_whole_server() -> None:
    """All CPU collectors together report no problem for a complete machine."""
    assert len(healthy(machine_tree(SERVER), ALL).caches) == 8 * 3 + 4

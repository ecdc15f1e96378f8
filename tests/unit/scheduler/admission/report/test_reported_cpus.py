"""The individual CPUs of our agent's object."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.agent_objects import damaged_state, published, read, report_of, set_attribute, two_zones
from support.kubelet_reports import CONFIG, GIB
from support.machine_parts import CacheSizes, Processors, processors
from support.trees import Shape, machine_tree
from zonewise.kubelet.types import Allocatable, ContainerResources, KubeletReport, MemoryBlock, PodResources
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names


@given(st.tuples(*(st.integers(1, 3) for _ in range(5))), st.data())
def test_cpus(counts: tuple[int, int, int, int, int], data: st.DataObject) -> None:
    """Cores, zones, packages, L3 groups, reserved and free CPUs are read for any machine."""
    shape = Processors(*counts)
    machine = processors(shape, CacheSizes(0, 0, 0, 32 << 20), "model", GIB)
    online = sorted(machine.cpus.online)
    reserved = CpuSet(data.draw(st.sets(st.sampled_from(online), max_size=len(online) - 1)))
    unreserved = sorted(machine.cpus.online - reserved)
    held = CpuSet(data.draw(st.sets(st.sampled_from(unreserved))))
    allocatable = Allocatable(machine.cpus.online - reserved, (), (MemoryBlock("memory", GIB, (0,)),))
    state = read(
        machine, KubeletReport((PodResources("n", "p", (ContainerResources("c", held),)),), allocatable, CONFIG)
    )
    cpus = state.kind.cpus
    assert cpus.exact
    assert cpus.cores == tuple(sorted((core.cpus.first(), core.cpus.bits) for core in machine.cores))
    assert cpus.zones == tuple((zone.id, zone.cpus.bits) for zone in machine.zones)
    assert [bits for _, bits in cpus.packages] == [package.cpus.bits for package in machine.packages]
    groups = [cache.cpus.bits for cache in machine.caches if cache.level == 3]
    assert [bits for _, bits in cpus.caches] == (groups if shape.l3_groups > 1 else [])
    assert cpus.reserved == reserved.bits
    assert state.free_cpus == (machine.cpus.online - reserved - held).bits


def test_no_cpu_is_free_in_a_damaged_list() -> None:
    nrt = two_zones()
    set_attribute(nrt, names.RESERVED_CPUS, "7")
    set_attribute(nrt["zones"][0], names.FREE_CPUS, "x")
    state = damaged_state(nrt)
    assert state.free_cpus == 0xFF00


def test_zones_replace_unreported_packages() -> None:
    nrt = two_zones()
    nrt["zones"] = [zone for zone in nrt["zones"] if not zone["name"].startswith("package-")]
    state = damaged_state(nrt)
    assert state.kind.cpus.packages == ((0, 0xFF), (1, 0xFF00))


@pytest.mark.parametrize("text", ["x", "99"])
@pytest.mark.parametrize(
    ("damaged", "expected"),
    [(0, ((1, 0b1100), (2, 0b01), (3, 0b10))), (1, ((0, 0b0011), (1, 0b0100), (2, 0b1000)))],
)
def test_a_package_without_cpus_of_zones_is_left_out(
    damaged: int, text: str, expected: tuple[tuple[int, int], ...]
) -> None:
    """Each zone of that package counts as a package, and the other package remains."""
    machine = processors(Processors(2, 2, 1, 1, 1), CacheSizes(0, 0, 0, 32 << 20), "model", GIB)
    nrt = published(machine, report_of(machine))
    packages = [zone for zone in nrt["zones"] if zone["name"].startswith("package-")]
    set_attribute(packages[damaged], names.CPUS, text)
    state = damaged_state(nrt)
    assert state.kind.cpus.packages == expected


def test_zones_after_one_with_damaged_cpus_are_read() -> None:
    nrt = two_zones()
    set_attribute(nrt["zones"][0], names.CPUS, "x")
    assert damaged_state(nrt).kind.cpus.zones == ((1, 0xFF00),)


L3_OF_A_ZONE = Shape(packages=1, zones=2, cores=3, threads=2, l3_cores=3)
"""A package of two zones, each with one L3 cache."""


@pytest.mark.parametrize(
    ("shape", "is_unknown"),
    [
        (L3_OF_A_ZONE, False),
        (L3_OF_A_ZONE._replace(offline=(0, 6)), False),
        (L3_OF_A_ZONE._replace(offline=(6,)), True),
        (L3_OF_A_ZONE._replace(offline=(6,), l3_cores=1), False),
        (L3_OF_A_ZONE._replace(offline=(3,), zones=1), False),
        (L3_OF_A_ZONE._replace(offline=(1, 2, 7, 8), l3_cores=1), True),
        (L3_OF_A_ZONE._replace(offline=(0,), adjacent=True), True),
    ],
    ids=[
        "all online",
        "a core offline",
        "a thread offline",
        "an L3 for each core",
        "one zone",
        "a zone of one core",
        "a thread offline, with adjacent threads",
    ],
)
def test_l3_groups_are_unknown_if_offline_cpus_make_zones_differ(shape: Shape, is_unknown: bool) -> None:
    """They only matter if the kubelet aligns CPUs to L3 groups."""
    machine = Scanner(MemoryFiles(machine_tree(shape).items())).scan().machine
    for option in ("prefer-align-cpus-by-uncorecache", "full-pcpus-only"):
        config = CONFIG._replace(cpu_manager_options=((option, "true"),))
        nrt = published(machine, report_of(machine)._replace(config=config))
        unknown = damaged_state(nrt).kind.unknown
        aligns = option == "prefer-align-cpus-by-uncorecache"
        assert unknown == (("which CPUs share an L3 cache",) if is_unknown and aligns else ())

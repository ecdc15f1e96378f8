"""The tree of boxes that both renderers draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from support.any_machines import any_machines
from support.machine_parts import GIB, MIB, CacheSizes, Processors, cpus, processors
from support.machines import ALL, big_machine, gpu_server, grace_blackwell, hybrid, small_vm, tiered_memory
from support.pictures import boxes_in, cores_in, devices_of, named
from zonewise.machine.model.cpu import Cache, Cluster
from zonewise.render.boxes import Box, Cores
from zonewise.render.layout import all_cpus, layout
from zonewise.render.phrases import core_count, label_text
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine


def check_every_cpu_is_present_once(machine: Machine) -> None:
    """Fail if a CPU is missing in the leaves or occurs twice."""
    shown = [cpu for leaf in cores_in(layout(machine).boxes) for held in leaf.cores for cpu in held]
    assert sorted(shown) == list(all_cpus(machine))


# --- CPUs


@pytest.mark.parametrize("name", ALL)
def test_every_cpu_is_present_once(name: str) -> None:
    """Every CPU of a machine is in one leaf of its picture."""
    check_every_cpu_is_present_once(ALL[name]())


@settings(max_examples=60, deadline=None)
@given(any_machines())
def test_every_cpu_of_any_machine_is_present_once(machine: Machine) -> None:
    """The same holds if packages, zones, caches and cores overlap or are unknown."""
    check_every_cpu_is_present_once(machine)


@settings(max_examples=60, deadline=None)
@given(any_machines())
def test_boxes_have_the_cpus_of_their_children(machine: Machine) -> None:
    """The CPUs of a box are those of its children, and its members are disjoint."""
    for box in boxes_in(layout(machine).boxes):
        assert sum(len(member) for member in box.members) == len(box.cpus)
        assert CpuSet(cpu for child in box.children for cpu in child.cpus) == box.cpus


def test_hybrid_cores_are_separate() -> None:
    """Performance and efficiency cores are two leaves, each with the sizes of its own caches."""
    leaves = list(cores_in(layout(hybrid()).boxes))
    assert [(leaf.kind, core_count(leaf)) for leaf in leaves] == [
        ("performance", "4 performance cores × 2 threads"),
        ("efficiency", "8 efficiency cores"),
    ]
    assert [leaf.caches for leaf in leaves] == [
        ("L1d 48 KiB", "L1i 32 KiB", "L2 1.25 MiB"),
        ("L1d 32 KiB", "L1i 64 KiB"),
    ]


def test_special_cpus_are_marked() -> None:
    """Offline, isolated and disallowed CPUs have their own leaves with their state; threads are in order."""
    machine = small_vm()
    states = machine.cpus._replace(online=cpus("0-3"), offline=cpus("4-5"), isolated=cpus("2"), allowed=cpus("0,2"))
    picture = layout(machine._replace(cpus=states))
    marks = {str(leaf.cpus): leaf.state for leaf in cores_in(picture.boxes)}
    assert marks == {
        "0,2": ("thread 2 isolated",),
        "1,3": ("not allowed",),
        "4-5": ("offline",),
    }
    assert picture.facts[-1] == (
        "2 CPUs offline: 4-5",
        "2 CPUs not allowed for this process: 1,3",
        "1 CPU isolated: 2",
    )


def test_unknown_cores_are_called_unknown() -> None:
    """If it is unknown which CPUs form a core, the leaf counts CPUs."""
    machine = small_vm()._replace(cores=(), caches=())
    [leaf] = cores_in(layout(machine).boxes)
    assert core_count(leaf) == "4 CPUs, cores unknown"


# --- folding


def core_facts(machine: Machine, held: CpuSet) -> object:
    """Return the properties of a core directly from the machine: threads, kind, private caches and states."""
    [core] = [core for core in machine.cores if core.cpus == held]
    private = sorted((cache.level, cache.type, cache.size or -1) for cache in machine.caches if cache.cpus <= held)
    states = machine.cpus
    sets = (states.isolated or EMPTY, states.offline, states.nohz_full or EMPTY, states.allowed or EMPTY)
    return len(held), core.kind, private, [[cpu in cpu_set for cpu in held] for cpu_set in sets]


@pytest.mark.parametrize("name", ALL)
def test_only_equal_cores_share_a_leaf(name: str) -> None:
    """Cores of one leaf have the same threads, kind, private caches and state."""
    machine = ALL[name]()
    for leaf in cores_in(layout(machine).boxes):
        first = core_facts(machine, leaf.cores[0])
        assert all(core_facts(machine, held) == first for held in leaf.cores)


@pytest.mark.parametrize("name", ALL)
def test_equal_cores_of_a_box_share_a_leaf(name: str) -> None:
    """Equal cores are folded: no two sibling leaves could be one."""
    for box in boxes_in(layout(ALL[name]()).boxes):
        leaves = [leaf._replace(cores=()) for leaf in box.children if isinstance(leaf, Cores)]
        assert len(leaves) == len(set(leaves))


def test_equal_l3_groups_are_one_box_and_an_unequal_one_is_not() -> None:
    """The zone with isolated cores has separate boxes for its two L3 groups; the other zones have one box for both."""
    picture = layout(big_machine())
    groups = [box for box in boxes_in(picture.boxes) if box.kind == "cache"]
    assert sorted(len(box.members) for box in groups) == [1, 1, 2, 2, 2, 2, 2, 2, 2]
    assert [str(member) for member in groups[0].members] == ["0-7,128-135", "8-15,136-143"]


@pytest.mark.parametrize(
    ("packages", "expected"), [(8, [f"Package {number}" for number in range(8)]), (9, ["9 packages 0-8"])]
)
def test_many_packages_are_folded(packages: int, expected: list[str]) -> None:
    """Up to eight equal packages have their own boxes; more packages are one box with all numbers."""
    machine = processors(Processors(packages, 1, 1, 4, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    texts = [label_text(box.labels[0]) for box in boxes_in(layout(machine).boxes)]
    assert texts == expected


def test_packages_without_numbers_are_folded_at_once() -> None:
    """If the firmware has no numbers, users cannot look for a package by number."""
    machine = processors(Processors(2, 1, 1, 4, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    machine = machine._replace(packages=tuple(package._replace(id=-1) for package in machine.packages), zones=())
    [box] = boxes_in(layout(machine).boxes)
    assert label_text(box.labels[0]) == "2 packages"


def test_unequal_packages_are_never_folded() -> None:
    """If one of nine packages has more memory, it is separate, and the others are too few to be folded."""
    machine = processors(Processors(9, 1, 1, 4, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    larger = machine.zones[4]._replace(memory=2 * GIB)
    machine = machine._replace(zones=(*machine.zones[:4], larger, *machine.zones[5:]))
    assert [len(box.members) for box in boxes_in(layout(machine).boxes)] == [1] * 9


def test_a_box_with_devices_is_never_folded() -> None:
    """Devices have names, so a package with a device is separate from eleven other packages of its shape."""
    machine = processors(Processors(12, 1, 1, 2, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    drive = small_vm().block_devices[0]._replace(zone=3, address=None)
    picture = layout(machine._replace(block_devices=(drive,)))
    assert [len(box.members) for box in boxes_in(picture.boxes)] == [11, 1]
    assert [device.names for device in devices_of(named(picture, "Zone 3").devices)] == [("vda",)]


# --- boxes


def test_a_package_that_is_also_a_zone_is_one_box() -> None:
    """One box has both names and counts as a zone."""
    [box] = boxes_in(layout(small_vm()).boxes)
    assert [label_text(label) for label in box.labels] == ["Package 0", "Zone 0"]
    assert (box.kind, box.headline, box.details) == ("zone", ("15.6 GiB", "Intel Xeon Platinum 8273CL"), ("L3 39 MiB",))


def test_a_zone_may_span_packages() -> None:
    """The packages are then inside the zone."""
    machine = processors(Processors(2, 1, 1, 2, 1), CacheSizes(MIB, MIB, 0, 0), "cpu", GIB)
    zone = machine.zones[0]._replace(cpus=machine.cpus.online, local_cpus=machine.cpus.online)
    [outer] = layout(machine._replace(zones=(zone,))).boxes
    assert isinstance(outer, Box)
    assert [label_text(label) for label in outer.labels] == ["Zone 0"]
    assert [label_text(box.labels[0]) for box in boxes_in(outer.children)] == ["Package 0", "Package 1"]


def test_a_cache_larger_than_a_zone_belongs_to_the_package() -> None:
    """With sub-NUMA clustering, the L3 belongs to the package, not to its zones."""
    picture = layout(gpu_server())
    assert named(picture, "Package 0").details == ("L3 105 MiB",)
    assert named(picture, "Zone 0").details == ()


def test_a_cluster_of_one_core_is_omitted() -> None:
    """If cores share nothing below L3, kernels number a cluster for every core; the picture omits these."""
    machine = small_vm()
    clusters = tuple(Cluster(i, 0, core.cpus) for i, core in enumerate(machine.cores))
    assert layout(machine._replace(clusters=clusters)).boxes == layout(machine).boxes


def test_a_module_is_named_and_shows_its_largest_cache_first() -> None:
    """A compute unit of AMD has two cores that share an L2 and an L1i."""
    machine = processors(Processors(1, 1, 1, 4, 1), CacheSizes(MIB, 0, 0, 0), "cpu", GIB)
    pairs = (cpus("0-1"), cpus("2-3"))
    shared = [Cache(level, kind, MIB, held) for level, kind in ((1, "Instruction"), (2, "Unified")) for held in pairs]
    picture = layout(machine._replace(caches=(*machine.caches, *shared)))
    [group] = [box for box in boxes_in(picture.boxes) if box.kind == "cache"]
    assert (group.headline, group.details, len(group.members)) == (("L2 1 MiB",), ("L1i 1 MiB",), 2)
    modules = tuple(Cluster(i, 0, held, "module") for i, held in enumerate(pairs))
    picture = layout(machine._replace(clusters=modules))
    assert "2 modules" in [label_text(label) for box in boxes_in(picture.boxes) for label in box.labels]


def test_unknown_memory_is_not_zero() -> None:
    """Unknown memory of a zone is shown as unknown, unlike that of a zone without memory."""
    machine = small_vm()
    [zone] = machine.zones
    assert (
        named(layout(machine._replace(zones=(zone._replace(memory=None),))), "Zone 0").headline[0] == "memory unknown"
    )
    assert named(layout(machine._replace(zones=(zone._replace(memory=0),))), "Zone 0").headline[0] == "no memory"


# --- zones without CPUs


def test_memory_is_beside_its_nearest_cpus() -> None:
    """HBM is in the box of its package. CXL memory near to both packages is outside boxes and lists its CPUs."""
    picture = layout(tiered_memory())
    [near] = named(picture, "Zone 0").memories
    assert (near.zones, near.facts) == ((2,), ("64 GiB HBM", "400 GB/s", "30 ns"))
    [far] = picture.memories
    assert (far.zones, far.facts) == ((4,), ("512 GiB", "nearest to CPUs 0-31"))


def test_memory_without_near_cpus() -> None:
    """A zone without CPUs and without known near CPUs is in no box."""
    machine = tiered_memory()
    zones = tuple(zone._replace(local_cpus=EMPTY) if zone.id == 2 else zone for zone in machine.zones)
    facts = {memory.zones: memory.facts for memory in layout(machine._replace(zones=zones)).memories}
    assert facts[(2,)][-1] == "nearest CPUs unknown"


def test_gpu_memory_names_its_gpu_and_empty_zones_are_folded() -> None:
    """A coherent GPU's memory has the GPU's name; zones reserved for its instances are one entry."""
    memories = named(layout(grace_blackwell()), "Zone 0").memories
    assert [memory.zones for memory in memories] == [(2,), (10,), (3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17)]
    assert memories[0].facts == ("185 GiB", "memory of GPU0")
    assert memories[-1].facts == ("no memory", "reserved for a GPU")

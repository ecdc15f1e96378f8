"""Packages, dies, clusters, groups and cores, from masks and ids of every age and architecture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cpu_trees import (
    CPU,
    add_level,
    bare_tree,
    cpuinfo,
    cpuset,
    found,
    healthy,
    line,
    mask,
    paths,
    reads,
    scan,
    topology_tree,
)
from support.damage import DELETE, Damage
from support.trees import SERVER, Contents, Shape, machine_tree
from support.views import core_sets, package_sets
from zonewise.machine.collector import Collector
from zonewise.machine.collectors.cpu import cpus, topology
from zonewise.machine.model.cpu import Cluster, Die, Group, Package
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

ONLY = (cpus.COLLECTOR, topology.COLLECTOR)
TWO_SOCKETS = topology_tree({"0,4": 0, "1,5": 1, "2,6": 0, "3,7": 1}, {"0-1,4-5": 0, "2-3,6-7": 1})


def zones_collector(*zones: str) -> Collector:
    """Return a collector that gives zones with these CPUs."""
    scan_result = tuple(
        Zone(number, cpuset(text), cpuset(text), None, {}, {}, "cpu") for number, text in enumerate(zones)
    )

    def collect(_read: Reader, machine: Machine) -> Machine:
        return machine._replace(zones=scan_result)

    def volatile(_peek: Peek) -> Hashable:
        return None

    return Collector("zones", ("zones",), (), collect, volatile)


def core_ids(machine: Machine) -> list[tuple[int | None, int | None, str]]:
    """Return the id, the package and the CPUs of every core."""
    return [(core.id, core.package, str(core.cpus)) for core in machine.cores]


def test_masks_of_old_kernels() -> None:
    """The kernel has only masks, threads of a core have distant numbers, and ids repeat in each package."""
    machine = healthy(TWO_SOCKETS, ONLY)
    assert machine.packages == (
        Package(0, cpuset("0-1,4-5"), "Processor"),
        Package(1, cpuset("2-3,6-7"), "Processor"),
    )
    assert core_ids(machine) == [(0, 0, "0,4"), (1, 0, "1,5"), (0, 1, "2,6"), (1, 1, "3,7")]
    assert (machine.dies, machine.clusters, machine.groups) == ((), (), ())


def test_lists_alone() -> None:
    """A tree with lists and no masks gives the same result."""
    tree = {path: content for path, content in machine_tree(SERVER).items() if not path.endswith(("cpus", "siblings"))}
    machine = healthy(tree, ONLY)
    assert package_sets(machine) == {str(SERVER.of_package(package)) for package in range(2)}
    assert len(machine.cores) == SERVER.all_cores


@pytest.mark.parametrize("number", [-1, 0])
def test_ids_without_meaning(number: int) -> None:
    """POWER, sparc and s390 print -1 for every package, ia64 prints 0; masks distinguish the packages."""
    machine = healthy(topology_tree({"0-3": 0, "4-7": 4}, {"0-3": number, "4-7": number}), ONLY)
    assert [(package.id, str(package.cpus)) for package in machine.packages] == [(number, "0-3"), (number, "4-7")]
    assert [core.package for core in machine.cores] == [number, number]


def test_offline_threads() -> None:
    """A core has only its online threads, or is absent without any; files of offline threads are not looked up."""
    tree = {path: content for path, content in TWO_SOCKETS.items() if "/cpu4/" not in path and "/cpu1/" not in path}
    tree = {path: content for path, content in tree.items() if "/cpu5/" not in path}
    tree |= {f"{CPU}/{name}": line("0,2-3,6-7") for name in ("online", "present", "possible")}
    tree |= {f"{CPU}/cpu{cpu}/online": b"0\n" for cpu in (1, 4, 5)} | {f"{CPU}/possible": b"0-7\n"}
    tree["proc/cpuinfo"] = cpuinfo({}, [0, 2, 3, 6, 7])
    machine = healthy(tree, ONLY)
    assert core_sets(machine) == {"0", "2,6", "3,7"}
    assert package_sets(machine) == {"0", "2-3,6-7"}


@pytest.mark.parametrize(
    ("vendor", "family", "cores"),
    [("AuthenticAMD", "21", 4), ("AuthenticAMD", "23", 2), ("GenuineIntel", "6", 2), (None, None, 4)],
)
def test_bulldozer(vendor: str | None, family: str | None, cores: int) -> None:
    """Thread siblings with separate ids are cores of an AMD module; other processors have no modules."""
    tree = topology_tree({"0-1": 0, "2-3": 2}, {"0-3": 0}) | {
        f"{CPU}/cpu1/topology/core_id": line(1),
        f"{CPU}/cpu3/topology/core_id": line(3),
        "proc/cpuinfo": cpuinfo({"vendor_id": vendor, "cpu family": family or ""} if vendor else {}, range(4)),
    }
    machine = healthy(tree, ONLY)
    assert len(machine.cores) == cores
    modules = [(str(cluster.cpus), cluster.package) for cluster in machine.clusters if cluster.kind == "module"]
    assert modules == ([("0-1", 0), ("2-3", 0)] if cores == 4 else [])
    if cores == 4:
        assert [core.id for core in machine.cores] == [0, 1, 2, 3]


def test_threads_of_a_processor_without_modules() -> None:
    """Siblings with the same id are threads, even on AMD's family 15h."""
    tree = TWO_SOCKETS | {"proc/cpuinfo": cpuinfo({"vendor_id": "AuthenticAMD", "cpu family": "21"}, range(8))}
    assert core_sets(healthy(tree, ONLY)) == {"0,4", "1,5", "2,6", "3,7"}


def test_dies_and_clusters() -> None:
    """Ids of dies may repeat in each package; each die and cluster has the package that contains it."""
    tree = topology_tree({str(cpu): cpu for cpu in range(8)}, {"0-3": 0, "4-7": 1})
    add_level(tree, "die_cpus", "die_id", {"0-1": 0, "2-3": 1, "4-5": 0, "6-7": 1})
    add_level(tree, "cluster_cpus", "cluster_id", {"0-1": 56, "2-3": 57, "4-5": 58, "6-7": 59})
    machine = healthy(tree, ONLY)
    assert machine.dies == tuple(
        Die(number % 2, number // 2, cpuset(text)) for number, text in enumerate(("0-1", "2-3", "4-5", "6-7"))
    )
    assert machine.clusters[2] == Cluster(58, 1, cpuset("4-5"), "cluster")


def test_levels_that_an_architecture_does_not_define() -> None:
    """Id -1 and a mask of only the CPU itself are the kernel's placeholders: no dies, no clusters."""
    tree = topology_tree({str(cpu): cpu for cpu in range(4)}, {"0-3": 0})
    for stem, id_name in (("die_cpus", "die_id"), ("cluster_cpus", "cluster_id")):
        add_level(tree, stem, id_name, {str(cpu): -1 for cpu in range(4)})
    machine = healthy(tree, ONLY)
    assert (machine.dies, machine.clusters) == ((), ())
    assert {path for path in reads(tree, ONLY) if "die" in path or "cluster" in path} == {
        f"{CPU}/cpu{cpu}/topology/{name}" for cpu in (0, 3) for name in ("die_id", "cluster_id")
    }


def test_clusters_that_x86_does_not_know() -> None:
    """Id 65535 means that x86 does not know the CPUs of an L2: the mask is that of the core, and no cluster exists."""
    tree = topology_tree({"0,2": 0, "1,3": 1}, {"0-3": 0})
    add_level(tree, "cluster_cpus", "cluster_id", {"0,2": 65535, "1,3": 65535})
    assert healthy(tree, ONLY).clusters == ()


def test_a_level_that_some_cores_lack() -> None:
    """Cores outside any cluster have id -1 and a mask of their own; the clusters of the other cores are listed."""
    tree = topology_tree({str(cpu): cpu for cpu in range(4)}, {"0-3": 0})
    add_level(tree, "cluster_cpus", "cluster_id", {"0": -1, "1": -1, "2-3": 7})
    assert [(cluster.id, str(cluster.cpus)) for cluster in healthy(tree, ONLY).clusters] == [(7, "2-3")]


def test_books_and_drawers() -> None:
    """The levels of s390 above the socket are listed, the outermost first."""
    tree = topology_tree({str(cpu): cpu for cpu in range(4)}, {"0-1": 2, "2-3": 3})
    for name, objects in (("book", {"0-1": 0, "2-3": 1}), ("drawer", {"0-3": 4})):
        for text, number in objects.items():
            for cpu in cpuset(text):
                directory = f"{CPU}/cpu{cpu}/topology"
                tree |= {f"{directory}/{name}_siblings": mask(text), f"{directory}/{name}_id": line(number)}
    assert healthy(tree, ONLY).groups == (
        Group("drawer", 4, cpuset("0-3")),
        Group("book", 0, cpuset("0-1")),
        Group("book", 1, cpuset("2-3")),
    )


def test_zones_of_cores() -> None:
    """A core is in the zone that contains all of its CPUs; without zones, or across two zones, it is in none."""
    zoned = (cpus.COLLECTOR, zones_collector("0-1,4-5", "2,6-7"), topology.COLLECTOR)
    assert [core.zone for core in healthy(TWO_SOCKETS, zoned).cores] == [0, 0, 1, None]
    assert {core.zone for core in healthy(TWO_SOCKETS, ONLY).cores} == {None}


def test_models_of_packages() -> None:
    """A package has the model of its CPUs, or none if they have several models or none is known."""
    parts = ("d46", "d46", "d46", "d4d", "d47", "d4e")
    lines = "".join(
        f"processor\t: {cpu}\nCPU implementer\t: 0x41\nCPU part\t: 0x{part}\n\n" for cpu, part in enumerate(parts)
    )
    tree = topology_tree({str(cpu): cpu for cpu in range(6)}, {"0-2": 0, "3-4": 1, "5": 2})
    machine = healthy(tree | {"proc/cpuinfo": lines.encode()}, ONLY)
    assert [package.model for package in machine.packages] == ["Cortex-A510", None, "Cortex-X3"]
    assert {package.model for package in found(tree, ONLY, {"proc/cpuinfo": Damage(DELETE)}).packages} == {None}


def test_each_file_is_read_once_per_object() -> None:
    """The files of a package, die or core are read only from its first CPU."""
    tree = machine_tree(SERVER)
    names = [path.split("/", 4)[-1] for path in reads(tree, ONLY) if "/topology/" in path]
    counts = {name: sum(path.endswith(f"topology/{name}") for path in names) for name in ("core_cpus", "package_cpus")}
    assert counts == {"core_cpus": SERVER.all_cores, "package_cpus": SERVER.packages}
    assert sum(path.endswith("core_id") for path in names) == SERVER.all_cores
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "content", [b"", b"zz\n", b"000000", b"00000000\n", b"\xff\xfe\n", b"9" * 60 + b"\n", b"00000002\n"]
)
def test_a_damaged_mask_is_replaced_by_the_older_name(content: bytes) -> None:
    """A mask that is invalid, cut off or lacks its own CPU is replaced by the next notation; the problem names both."""
    tree = machine_tree(SERVER)
    intact = healthy(tree, ONLY)
    for name, fallback in (("package_cpus", "core_siblings"), ("core_cpus", "thread_siblings")):
        directory = f"{CPU}/cpu0/topology"
        machine = found(tree, ONLY, {f"{directory}/{name}": Damage("content", 0, content)})
        assert (machine.packages, machine.cores) == (intact.packages, intact.cores)
        assert [(problem.path, problem.used) for problem in machine.problems] == [
            (f"/{directory}/{name}", f"/{directory}/{fallback}")
        ]


def test_a_cpu_without_files_is_placed_by_its_siblings() -> None:
    """The siblings of CPU 0 have the missing data. A CPU that is a core by itself is lost and reported."""
    tree = topology_tree({"0,4": 0, "1,5": 1, "2": 2, "3": 3}, {"0-5": 0})
    damages = {f"{CPU}/cpu{cpu}/topology/thread_siblings": Damage(DELETE) for cpu in (0, 2)}
    machine = found(tree, ONLY, damages)
    assert core_sets(machine) == {"0,4", "1,5", "3"}
    assert [(problem.path.split("/")[5], problem.used) for problem in machine.problems] == [
        ("cpu0", f"/{CPU}/cpu4/topology/thread_siblings"),
        ("cpu2", "the core of CPU 2 is unknown"),
    ]


@pytest.mark.parametrize("damage", [Damage(DELETE), Damage("deny"), Damage("content", 0, b"x\n"), Damage("loop")])
def test_a_lost_id_is_taken_from_a_sibling(damage: Damage) -> None:
    """The next CPU of a core or package has the same id. A core with one CPU is listed without an id."""
    machine = found(TWO_SOCKETS, ONLY, {f"{CPU}/cpu0/topology/core_id": damage})
    assert machine.cores == healthy(TWO_SOCKETS, ONLY).cores
    assert [problem.used for problem in machine.problems] == [f"/{CPU}/cpu4/topology/core_id"]
    lone = topology_tree({"0": 0, "1": 1, "2": 2}, {"0-2": 0})
    machine = found(lone, ONLY, {f"{CPU}/cpu1/topology/core_id": damage})
    assert core_ids(machine) == [(0, 0, "0"), (None, 0, "1"), (2, 0, "2")]
    assert [problem.used for problem in machine.problems] == ["the id of core 1 is unknown"]


def test_conflicting_packages() -> None:
    """A package that claims CPUs of another is dropped together with that one; their cores have no package."""
    tree = topology_tree({str(cpu): cpu for cpu in range(12)}, {"0-3": 0, "4-7": 1, "8-11": 2})
    tree[f"{CPU}/cpu8/topology/core_siblings"] = mask("0-8")
    machine = found(tree, ONLY)
    assert package_sets(machine) == {"0-3", "4-7"}
    assert {core.package for core in machine.cores if core.cpus.first() >= 8} == {None}
    assert len(machine.cores) == 12
    assert paths(machine.problems) == [f"{CPU}/cpu{cpu}/topology/core_siblings" for cpu in (8, 9)]


def test_a_core_across_packages() -> None:
    """A core in two packages has no package, and this is reported."""
    machine = found(topology_tree({"0": 0, "1-2": 1, "3": 3}, {"0-1": 0, "2-3": 1}), ONLY)
    assert core_ids(machine) == [(0, 0, "0"), (1, None, "1-2"), (3, 1, "3")]
    assert "several packages" in machine.problems[0].problem


def test_kernels_with_fewer_levels() -> None:
    """Without package masks there are no packages, without thread masks no cores; each is reported once."""
    for stem, field in (("core_siblings", "packages"), ("thread_siblings", "cores")):
        tree = {path: content for path, content in TWO_SOCKETS.items() if not path.endswith(stem)}
        machine = found(tree, ONLY)
        assert getattr(machine, field) == ()
        assert len(machine.problems) == 1


def test_no_topology_at_all() -> None:
    """CPUs without any topology give no data, and this is reported."""
    scan_result = scan(bare_tree("0-3"), ONLY)
    assert scan_result.runs[1].outcome == "no data"
    assert len(scan_result.machine.problems) == 1
    assert scan({"x": b""}, (topology.COLLECTOR,)).runs[0].detail == "no CPUs"


def test_sources() -> None:
    """Every object names the file that lists its CPUs."""
    sources = scan(machine_tree(SERVER), ONLY, explain=True).sources
    assert sources["packages.1"].file.endswith("cpu4/topology/package_cpus")
    assert sources["packages.1"].value == "4-7,12-15"
    assert {f"cores.{number}" for number in range(8)} | {"dies.0", "dies.1"} <= set(sources)


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Return a machine of any shape."""
    cores = draw(st.integers(1, 3))
    return Shape(
        packages=draw(st.integers(1, 3)),
        zones=draw(st.integers(1, 2)),
        cores=cores,
        threads=draw(st.sampled_from([1, 2, 4])),
        l3_cores=cores,
        adjacent=draw(st.booleans()),
    )


@settings(max_examples=30, deadline=None)
@given(shapes())
def test_any_shape(shape: Shape) -> None:
    """The cores and packages of any machine are those it was built from, and every CPU is in one of each."""
    machine = healthy(machine_tree(shape), ONLY)
    assert core_sets(machine) == {str(shape.of_core(core)) for core in range(shape.all_cores)}
    assert package_sets(machine) == {str(shape.of_package(package)) for package in range(shape.packages)}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(machine_tree(SERVER))), st.binary(max_size=20), max_size=5))
def test_no_noise_invents_a_core(noise: dict[str, bytes]) -> None:
    """Whatever the files contain, cores and packages are disjoint and contain only online CPUs."""
    tree: Contents = machine_tree(SERVER) | {path: content for path, content in noise.items() if "/topology/" in path}
    machine = found(tree, ONLY)
    for objects in (machine.cores, machine.packages):
        together = [cpu for each in objects for cpu in each.cpus]
        assert len(together) == len(set(together))
        assert CpuSet(together) - machine.cpus.online == EMPTY

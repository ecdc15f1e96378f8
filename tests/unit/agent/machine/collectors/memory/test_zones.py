"""NUMA nodes: their CPUs, memory, distances and kind."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.node_trees import (
    NODES,
    Node,
    cpus_by_zone,
    flat_tree,
    full_tree,
    node_tree,
    problems,
    scan_zones,
    two_nodes,
    without,
    zones_of,
)
from support.trees import Shape, line, machine_tree
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.memory import zones
from zonewise.machine.files import MemoryFiles
from zonewise_common.k8s.cpuset import CpuSet

KIB = 1024


# --- facts


def test_two_nodes() -> None:
    """Each node is a zone with its CPUs, memory in bytes and distances; a healthy tree has no problem."""
    machine = zones_of(two_nodes())
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert [zone.memory for zone in machine.zones] == [1000 * KIB, 2000 * KIB]
    assert machine.memory == 3000 * KIB
    assert machine.zones[1].distances == {"0": 20, "1": 10}
    assert machine.zones[1].hugepages == {"2Mi": 0}
    assert {zone.kind for zone in machine.zones} == {"cpu"}
    assert all(zone.local_cpus == zone.cpus for zone in machine.zones)
    assert machine.problems == ()


LATE = "has less memory in all nodes together than /proc/meminfo"


@pytest.mark.parametrize(("total", "problem"), [(3000, None), (3110, None), (2900, None), (3200, LATE), (6000, LATE)])
def test_the_memory_of_the_machine_is_that_of_the_kernel(total: int, problem: str | None) -> None:
    """If nodes have less because the kernel initialises memory late, the machine has the memory that `free` prints.

    Zones have their own sizes. Old kernels count nodes slightly differently: the machine then has the sum of its zones.
    """
    machine = zones_of({**two_nodes(), "proc/meminfo": f"MemTotal: {total} kB\n".encode()})
    assert machine.memory == (total if problem else 3000) * KIB
    assert [zone.memory for zone in machine.zones] == [1000 * KIB, 2000 * KIB]
    assert [found.problem for found in machine.problems] == ([problem] if problem else [])


def test_more_memory_in_the_nodes_than_in_the_machine() -> None:
    """The contradiction is reported, and the machine has the value from its own file."""
    machine = zones_of({**two_nodes(), "proc/meminfo": b"MemTotal: 1500 kB\n"})
    assert machine.memory == 1500 * KIB
    assert [found.problem for found in machine.problems] == ["has more memory in all nodes together than /proc/meminfo"]


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2, 4]))
@settings(max_examples=30, deadline=None)
def test_every_shape_is_discovered(packages: int, per_package: int, cores: int, threads: int) -> None:
    """Whatever the shape, every online CPU is only in the zone to which it was added."""
    shape = Shape(packages, per_package, cores, threads, l3_cores=1, offline=(1,) if threads > 1 else ())
    machine = zones_of(machine_tree(shape))
    assert {zone.id: zone.cpus for zone in machine.zones} == {
        zone: shape.of_zone(zone) for zone in range(shape.all_zones)
    }
    assert machine.problems == ()


def test_sparse_ids_and_their_distances() -> None:
    """A row of distances has one column per existing node, in ascending order, whatever the ids are."""
    nodes = {
        0: Node("0", distance="10 20 40"),
        8: Node("1", distance="20 10 80"),
        250: Node("2", distance="40 80 10"),
    }
    machine = zones_of(node_tree(nodes, "0-2"))
    assert machine.zones[2].distances == {"0": 40, "8": 80, "250": 10}


def test_distances_follow_the_online_nodes_without_a_directory() -> None:
    """A node that is online but has no directory still has its column."""
    nodes = {0: Node("0", distance="10 20 40"), 1: Node(), 2: Node("1", distance="40 20 10")}
    machine = zones_of(without(node_tree(nodes, "0-1"), "/node1/"))
    assert [zone.id for zone in machine.zones] == [0, 2]
    assert machine.zones[0].distances == {"0": 10, "2": 40}
    assert problems(machine) == [f"/{NODES}/online"]


def test_offline_cpus_are_in_no_zone() -> None:
    """Only the online CPUs that a node lists belong to it; s390 lists all possible CPUs."""
    machine = zones_of(node_tree({0: Node("0-140")}, "0-7"))
    assert cpus_by_zone(machine) == {0: "0-7"}


def test_old_kernels_have_masks_and_no_lists() -> None:
    """Before Linux 2.6.29, a node has no cpulist; this is not damage."""
    machine = zones_of(without(two_nodes(), "cpulist"))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert machine.problems == ()


def test_an_empty_line_in_front_of_meminfo() -> None:
    """Before Linux 2.6.37, the file begins with an empty line."""
    tree = two_nodes()
    tree[f"{NODES}/node1/meminfo"] = b"\nNode 1 MemTotal:     5 kB\n"
    assert zones_of(tree).zones[1].memory == 5 * KIB


@pytest.mark.parametrize(
    ("kib", "name"),
    [(64, "64Ki"), (1024, "1Mi"), (2048, "2Mi"), (32768, "32Mi"), (1048576, "1Gi"), (16777216, "16Gi")],
)
def test_pools_have_the_names_of_kubernetes(kib: int, name: str) -> None:
    """A pool is named by its size in the binary unit of Kubernetes."""
    tree = without(two_nodes(), "hugepages")
    tree |= {f"{NODES}/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages": line(node + 3) for node in (0, 1)}
    assert [zone.hugepages for zone in zones_of(tree).zones] == [{name: 3}, {name: 4}]


# --- contradictions


def test_a_list_and_a_mask_that_contradict_each_other() -> None:
    """The links between node and CPUs decide; without links, the node gets the CPUs that no other node has."""
    tree = two_nodes()
    tree[f"{NODES}/node1/cpulist"] = line("4-6")
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}
    links = [f"/node1/cpu{cpu}" for cpu in range(4, 8)] + [f"/cpu{cpu}/node1" for cpu in range(4, 8)]
    machine = zones_of(without(tree, *links))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}/node1/cpulist"]


def test_the_cpus_of_a_node_that_lost_both_files() -> None:
    """The node gets the CPUs that link to it; without links, it gets those that no other node has."""
    tree = without(two_nodes(), "node1/cpulist", "node1/cpumap")
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}
    machine = zones_of(without(tree, "/node1/cpu", *[f"/cpu{cpu}/node1" for cpu in range(4, 8)]))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}/node1/cpulist"]


def test_two_nodes_that_lost_all_files_have_no_cpus_and_are_not_memory() -> None:
    """Unknown is not the same as none: such zones remain CPU zones, and no CPU is invented."""
    links = [f"/cpu{cpu}/node" for cpu in range(8)]
    machine = zones_of(without(two_nodes(), "/node0/cpu", "/node1/cpu", *links))
    assert cpus_by_zone(machine) == {0: "", 1: ""}
    assert {zone.kind for zone in machine.zones} == {"cpu"}
    assert len(machine.problems) == 2


def test_nodes_that_claim_the_cpus_of_another() -> None:
    """A CPU belongs to the first node that lists it. Like hwloc, discovery omits a node without CPUs of its own."""
    nodes = {0: Node("0-3"), 1: Node("2-5"), 2: Node("0-5"), 3: Node("6-7")}
    machine = zones_of(node_tree(nodes, "0-7"))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-5", 3: "6-7"}
    assert str(machine.zones[1].local_cpus) == "2-5"
    assert "2" not in machine.zones[0].distances
    assert machine.memory == sum(zone.memory or 0 for zone in machine.zones)
    assert problems(machine) == [f"/{NODES}/node1/cpumap", f"/{NODES}/node2/cpumap"]


def test_nodes_of_numa_fake() -> None:
    """With numa=fake=, every part of a node lists its CPUs. They belong to the first part and are near the others."""
    tree = node_tree({0: Node("0-3"), 1: Node("0-3"), 2: Node("0-3")}, "0-3")
    assert len(zones_of(tree).zones) == 1
    tree["proc/cmdline"] = b"ro numa=fake=3U quiet\n"
    machine = zones_of(tree)
    assert cpus_by_zone(machine) == {0: "0-3", 1: "", 2: ""}
    assert [str(zone.local_cpus) for zone in machine.zones] == ["0-3"] * 3
    assert [zone.kind for zone in machine.zones] == ["cpu", "memory", "memory"]
    assert machine.problems == ()


@given(st.lists(st.sets(st.integers(0, 15)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_cpu_is_in_two_zones_whatever_nodes_claim(claims: list[set[int]]) -> None:
    """Nodes may list any CPUs: each CPU is in at most one zone, and the zones are some of the nodes."""
    nodes = {number: Node(str(CpuSet(claim))) for number, claim in enumerate(claims)}
    machine = zones_of(node_tree(nodes, "0-15"))
    counts = Counter(cpu for zone in machine.zones for cpu in zone.cpus)
    assert all(times == 1 for times in counts.values())
    assert {zone.id for zone in machine.zones} <= nodes.keys()
    assert set(counts) == set().union(*claims)


# --- provenance and rescans


def test_every_fact_of_a_zone_has_a_source() -> None:
    """Each known fact has a source, its own or its zone's."""
    scan = scan_zones(full_tree())
    for zone in scan.machine.zones:
        for field in ("cpus", "memory", "distances", "kind", "accesses", "initiators", "side_caches", "tier"):
            assert f"zones.{zone.id}.{field}" in scan.sources
        if not zone.cpus:
            assert f"zones.{zone.id}.local_cpus" in scan.sources
    assert scan.sources["zones.5.device"].value == "0009:01:00.0"
    assert scan.sources["zones.0.memory"].value == "Node 0 MemTotal:       1048576 kB"
    assert "memory" in scan.sources


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"{NODES}/node1/meminfo", b"Node 1 MemTotal:       3000 kB\n"),
        (f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages", b"512\n"),
        (f"{NODES}/online", b"0-2\n"),
        (f"{NODES}/node2/meminfo", b"Node 2 MemTotal:       3000 kB\n"),
    ],
)
def test_what_causes_a_rescan(path: str, content: bytes) -> None:
    """Added or removed memory, resized pools and plugged nodes change the signature."""
    tree = two_nodes()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles((tree | {path: content}).items()))) != before


def test_pools_change_if_the_first_node_has_no_memory() -> None:
    """Such a node has no directory of pools (mm/hugetlb.c); the pools of the other nodes are watched."""
    tree = without(node_tree({0: Node("0-3", 0), 1: Node("4-7")}, "0-7"), "node0/hugepages")
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    tree[f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages"] = line(512)
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) != before


def test_free_memory_is_not_a_change() -> None:
    """Memory that programs allocate and free does not count."""
    tree = two_nodes()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    tree[f"{NODES}/node1/meminfo"] = b"Node 1 MemTotal:       2000 kB\nNode 1 MemFree: 1999 kB\n"
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) == before


def test_the_signature_of_a_single_zone_is_the_memory_of_the_machine() -> None:
    """Without nodes, ballooning is visible in /proc/meminfo."""
    tree = flat_tree()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    tree["proc/meminfo"] = b"MemTotal:        2048 kB\n"
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) != before

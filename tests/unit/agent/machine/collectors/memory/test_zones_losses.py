"""Zones whose files are lost, unreadable or damaged."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged, Recording
from support.node_trees import (
    COLLECTORS,
    NODES,
    Node,
    add_gpu,
    cpus_by_zone,
    flat_tree,
    full_tree,
    memory_node,
    node_tree,
    problems,
    scan_zones,
    two_nodes,
    without,
    zones_of,
)
from support.trees import Contents, line
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles

KIB = 1024


def test_a_kernel_without_numa_is_a_single_zone() -> None:
    """Without any node, the machine is zone 0; a rule gives this fact, and it is not damage."""
    scan = scan_zones(flat_tree())
    (zone,) = scan.machine.zones
    assert (zone.id, str(zone.cpus), zone.memory, zone.kind) == (0, "0-7", 4096 * KIB, "cpu")
    assert (zone.hugepages, zone.distances, scan.machine.memory) == ({"2Mi": 5}, {}, 4096 * KIB)
    assert scan.machine.problems == ()
    assert "without NUMA" in scan.sources["zones.0"].rule


def test_a_lost_tree_of_nodes_is_not_a_kernel_without_numa() -> None:
    """CPUs that link to nodes, or a PCI function in a node, show that nodes existed."""
    linked = {path: content for path, content in two_nodes().items() if not path.startswith(f"{NODES}/node")}
    machine = zones_of(linked)
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert f"/{NODES}" in problems(machine)
    tree = flat_tree()
    add_gpu(tree, "0000:81:00.0", 1)
    assert problems(zones_of(tree)) == [f"/{NODES}"]


def test_a_directory_that_may_be_entered_and_not_listed() -> None:
    """If only the listing fails, the nodes are found by name, and the failure is reported."""
    machine = zones_of(Damaged(MemoryFiles(two_nodes().items()), {NODES: Damage(DELETE)}))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}"]


def test_a_directory_of_nodes_without_any() -> None:
    """A directory of nodes without any node gives one zone and a problem."""
    machine = zones_of(flat_tree() | {f"{NODES}/online": line("0-1")})
    assert cpus_by_zone(machine) == {0: "0-7"}
    assert problems(machine) == [f"/{NODES}"]


def test_no_cpus_at_all_is_no_zone() -> None:
    """A tree with neither nodes nor CPUs, such as a single class of devices, has no zone."""
    assert zones_of({"sys/class/net/lo/mtu": b"65536\n", "proc/meminfo": b"MemTotal: 5 kB\n"}).zones == ()


@pytest.mark.parametrize("name", ["node1024", "node99999999999", "node-1", "node01", "node1x", "nodé1", "node"])
def test_names_that_are_not_nodes(name: str) -> None:
    """Ids are bounded, and only a plain number is an id."""
    tree = two_nodes()
    tree[f"{NODES}/{name}/meminfo"] = b"Node 0 MemTotal: 5 kB\n"
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}


# --- losses


def test_memory_that_is_lost() -> None:
    """A zone that lost meminfo has unknown memory; the machine's memory is then known only from /proc/meminfo."""
    tree = without(two_nodes(), "node1/meminfo")
    machine = zones_of(tree)
    assert [zone.memory for zone in machine.zones] == [1000 * KIB, None]
    assert machine.memory is None
    tree["proc/meminfo"] = b"MemTotal:        3000 kB\n"
    machine = zones_of(tree)
    assert (machine.zones[1].memory, machine.memory) == (None, 3000 * KIB)
    assert problems(machine) == [f"/{NODES}/node1/meminfo"]


def test_memory_of_the_only_node_is_that_of_the_machine() -> None:
    """With one node, /proc/meminfo has the same value."""
    tree = without(node_tree({0: Node("0-3")}, "0-3"), "node0/meminfo")
    tree["proc/meminfo"] = b"MemTotal:        3000 kB\n"
    machine = zones_of(tree)
    assert (machine.zones[0].memory, machine.memory) == (3000 * KIB, 3000 * KIB)
    assert [problem.used for problem in machine.problems] == ["/proc/meminfo, because the machine is one zone"]


@pytest.mark.parametrize(
    "content",
    [
        b"Node 0 MemTotal: 5 kB\n",
        b"Node 1 MemTotal: 99999999999999999999 kB\n",
        b"Node 1 MemTotal: 999999999999999999 kB\n",
        b"Node 1 MemTotal: -5 kB\n",
        b"Node 1 MemTotal: 5\n",
        b"Node 1 MemT",
        b"\xff\xfe",
        b"",
    ],
)
def test_impossible_memory(content: bytes) -> None:
    """Memory of another node, beyond any address space, negative, without a unit or cut off is unknown and reported."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/meminfo": content})
    assert machine.zones[1].memory is None
    assert f"/{NODES}/node1/meminfo" in problems(machine)


@pytest.mark.parametrize("row", ["10", "10 20 30", "10 x", "10 0", "", "10 -20", "10 999999"])
def test_impossible_rows_of_distances(row: str) -> None:
    """A row with the wrong number of values, or with an invalid distance, is unknown as a whole."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/distance": row.encode() + b"\n"})
    assert machine.zones[0].distances == {"0": 10, "1": 20}
    assert machine.zones[1].distances == {}
    assert len(machine.problems) == 1


def test_a_pool_that_sibling_nodes_have() -> None:
    """A node with memory has the pools that the others have; a node without memory need not have them."""
    tree = without(two_nodes(), "node1/hugepages")
    assert problems(zones_of(tree)) == [f"/{NODES}/node1/hugepages"]
    empty = node_tree({0: Node("0-3"), 1: Node("4-7", kib=0)}, "0-7")
    assert problems(zones_of(without(empty, "node1/hugepages"))) == []


@pytest.mark.parametrize("content", [b"-1\n", b"99999999999999999\n", b"x\n", b"", b"\xff\n"])
def test_impossible_pools(content: bytes) -> None:
    """A count that is negative, beyond any memory or not a number is unknown, never 0."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages": content})
    assert machine.zones[1].hugepages == {}
    assert len(machine.problems) == 1


def test_a_zone_that_no_tier_names() -> None:
    """If there are tiers, every zone with memory is in one."""
    tree = two_nodes()
    tree["sys/devices/virtual/memory_tiering/memory_tier4/nodelist"] = line("0")
    assert problems(zones_of(tree)) == ["/sys/devices/virtual/memory_tiering"]


def test_speeds_that_a_node_lost() -> None:
    """A node without the speeds that all similar nodes have has lost them."""
    tree = node_tree({0: Node("0-1"), 1: Node("2-3")}, "0-3")
    for node in (0, 1):
        memory_node(tree, node, node)
    assert zones_of(tree).problems == ()
    assert problems(zones_of(without(tree, "node1/access0"))) == [f"/{NODES}/node1/access0/initiators"]


def paths_read(tree: Contents) -> list[str]:
    """Return the paths that discovery reads and lists in a tree."""
    recording = Recording(MemoryFiles(tree.items()))
    Scanner(recording, collectors=COLLECTORS).scan()
    return sorted({*recording.reads, *recording.listings})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(paths_read(full_tree())), DAMAGES, min_size=1, max_size=8))
def test_damage_invents_nothing(damages: dict[str, Damage]) -> None:
    """Whatever is deleted, denied, cut or garbled, no collector fails.

    No zone is invented, and no CPU is in two zones or offline.
    """
    files = MemoryFiles(full_tree().items())
    scan = Scanner(Damaged(files, damages), collectors=COLLECTORS).scan()
    machine = scan.machine
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    assert {zone.id for zone in machine.zones} <= {0, 1, 2, 5}
    counts = Counter(cpu for zone in machine.zones for cpu in zone.cpus)
    assert [cpu for cpu, times in counts.items() if times > 1] == []
    assert all(zone.cpus <= machine.cpus.online and zone.local_cpus <= machine.cpus.online for zone in machine.zones)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(paths_read(full_tree())), st.sampled_from([Damage(DELETE), Damage("content", 0, b"\xff\n")]))
def test_a_loss_is_reported(path: str, damage: Damage) -> None:
    """A lost or garbled file loses a fact and is reported, or another source has the fact."""
    files = MemoryFiles(full_tree().items())
    before = Scanner(files, collectors=COLLECTORS).scan().machine
    after = Scanner(Damaged(files, {path: damage}), collectors=COLLECTORS).scan().machine
    if path == "sys/devices/virtual/memory_tiering":
        return  # kernels before 6.1 have none
    if after.zones != before.zones or after.memory != before.memory:
        assert set(after.problems) - set(before.problems)

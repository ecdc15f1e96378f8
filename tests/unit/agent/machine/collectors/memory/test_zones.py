"""NUMA nodes: their CPUs, memory, distances and kind, and what remains of them under damage."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged, Recording
from support.node_trees import COLLECTORS, NODES, SYSTEM, Node, node_tree, scan_zones, without, zones_of
from support.trees import Contents, Shape, line, machine_tree, mask
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.memory import zones
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

KIB = 1024
TWO = {0: Node("0-3", 1000), 1: Node("4-7", 2000)}


def two_nodes() -> Contents:
    """Two nodes of four CPUs each."""
    return node_tree(TWO, "0-7")


def cpus_by_zone(machine: Machine) -> dict[int, str]:
    return {zone.id: str(zone.cpus) for zone in machine.zones}


def problems(machine: Machine) -> list[str]:
    return [problem.path for problem in machine.problems]


# --- what is


def test_two_nodes() -> None:
    """A node is a zone with its CPUs, its memory in bytes and its distances, and a healthy tree has no problem."""
    machine = zones_of(two_nodes())
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert [zone.memory for zone in machine.zones] == [1000 * KIB, 2000 * KIB]
    assert machine.memory == 3000 * KIB
    assert machine.zones[1].distances == {"0": 20, "1": 10}
    assert machine.zones[1].hugepages == {"2Mi": 0}
    assert {zone.kind for zone in machine.zones} == {"cpu"}
    assert all(zone.local_cpus == zone.cpus for zone in machine.zones)
    assert machine.problems == ()


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 2, 4]))
@settings(max_examples=30, deadline=None)
def test_every_shape_is_discovered(packages: int, per_package: int, cores: int, threads: int) -> None:
    """Whatever the shape, every online CPU is in the zone that it was made in, and in no other."""
    shape = Shape(packages, per_package, cores, threads, l3_cores=1, offline=(1,) if threads > 1 else ())
    machine = zones_of(machine_tree(shape))
    assert {zone.id: zone.cpus for zone in machine.zones} == {
        zone: shape.of_zone(zone) for zone in range(shape.all_zones)
    }
    assert machine.problems == ()


def test_sparse_ids_and_their_distances() -> None:
    """A row of distances has one column for each node that is, in ascending order, whatever their ids."""
    nodes = {
        0: Node("0", distance="10 20 40"),
        8: Node("1", distance="20 10 80"),
        250: Node("2", distance="40 80 10"),
    }
    machine = zones_of(node_tree(nodes, "0-2"))
    assert machine.zones[2].distances == {"0": 40, "8": 80, "250": 10}


def test_distances_follow_the_online_nodes_without_a_directory() -> None:
    """A node that is online and has no directory still has its column."""
    nodes = {0: Node("0", distance="10 20 40"), 1: Node(), 2: Node("1", distance="40 20 10")}
    machine = zones_of(without(node_tree(nodes, "0-1"), "/node1/"))
    assert [zone.id for zone in machine.zones] == [0, 2]
    assert machine.zones[0].distances == {"0": 10, "2": 40}
    assert problems(machine) == [f"/{NODES}/online"]


def test_offline_cpus_are_in_no_zone() -> None:
    """Of the CPUs that a node names, those that are online are its own (s390 names all that could be)."""
    machine = zones_of(node_tree({0: Node("0-140")}, "0-7"))
    assert cpus_by_zone(machine) == {0: "0-7"}


def test_old_kernels_have_masks_and_no_lists() -> None:
    """Before Linux 2.6.29 a node has no cpulist; that is no damage."""
    machine = zones_of(without(two_nodes(), "cpulist"))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert machine.problems == ()


def test_an_empty_line_in_front_of_meminfo() -> None:
    """Before Linux 2.6.37 the file begins with an empty line."""
    tree = two_nodes()
    tree[f"{NODES}/node1/meminfo"] = b"\nNode 1 MemTotal:     5 kB\n"
    assert zones_of(tree).zones[1].memory == 5 * KIB


@pytest.mark.parametrize(
    ("kib", "name"),
    [(64, "64Ki"), (1024, "1Mi"), (2048, "2Mi"), (32768, "32Mi"), (1048576, "1Gi"), (16777216, "16Gi")],
)
def test_pools_by_the_names_of_kubernetes(kib: int, name: str) -> None:
    """A pool is named by its size in the binary unit of Kubernetes."""
    tree = without(two_nodes(), "hugepages")
    tree |= {f"{NODES}/node{node}/hugepages/hugepages-{kib}kB/nr_hugepages": line(node + 3) for node in (0, 1)}
    assert [zone.hugepages for zone in zones_of(tree).zones] == [{name: 3}, {name: 4}]


# --- nodes without CPUs


def memory_node(tree: Contents, node: int, initiator: int, access_class: int = 0) -> None:
    """Let the firmware name the node that reaches a node best."""
    directory = f"{NODES}/node{node}/access{access_class}/initiators"
    tree[f"{directory}/node{initiator}"] = f"../../../node{initiator}"
    values = {"read_bandwidth": 200, "write_bandwidth": 100, "read_latency": 0, "write_latency": 90}
    tree |= {f"{directory}/{name}": line(value) for name, value in values.items()}


def test_the_nearest_cpus_by_initiator() -> None:
    """The firmware's best initiator is nearer than the smallest distance."""
    nodes = {0: Node("0-1", distance="10 20 17"), 1: Node("2-3", distance="20 10 28"), 2: Node(distance="17 28 10")}
    tree = node_tree(nodes, "0-3")
    assert str(zones_of(tree).zones[2].local_cpus) == "0-1"
    memory_node(tree, 2, 1)
    zone = zones_of(tree).zones[2]
    assert (zone.kind, zone.cpus, str(zone.local_cpus)) == ("memory", EMPTY, "2-3")
    assert zone.initiators == (1,)


def test_class_1_goes_before_class_0() -> None:
    """Class 0 may name a device that is nearer than any CPU; class 1 is of CPUs alone."""
    tree = node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node(), 3: Node(kib=0)}, "0-3")
    memory_node(tree, 2, 3, 0)
    memory_node(tree, 2, 1, 1)
    zone = zones_of(tree).zones[2]
    assert (zone.initiators, str(zone.local_cpus)) == ((1,), "2-3")
    assert [access.access_class for access in zone.accesses] == [0, 1]


def test_speeds_that_the_firmware_lacks() -> None:
    """Bandwidths and latencies are those of the class; 0 is the kernel's word for "unknown"."""
    tree = node_tree({0: Node("0-1"), 1: Node()}, "0-1")
    memory_node(tree, 1, 0)
    (access,) = zones_of(tree).zones[1].accesses
    assert (access.read_bandwidth, access.write_bandwidth) == (200, 100)
    assert (access.read_latency, access.write_latency) == (None, 90)


def test_equal_distances_make_all_cpus_the_nearest() -> None:
    """A node that is as far from all is near to all CPUs."""
    machine = zones_of(node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node()}, "0-3"))
    assert str(machine.zones[2].local_cpus) == "0-3"


def test_without_distances_no_zone_is_nearest() -> None:
    """Without a source, no CPU is called near; but the only zone with CPUs is."""
    lost = without(node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node()}, "0-3"), "distance")
    assert zones_of(lost).zones[2].local_cpus == EMPTY
    lost = without(node_tree({0: Node("0-1"), 2: Node()}, "0-1"), "distance")
    assert str(zones_of(lost).zones[1].local_cpus) == "0-1"


def test_side_caches_and_tiers() -> None:
    """Caches in front of memory are listed level by level, and the tier is the one that lists the zone."""
    tree = two_nodes()
    for node in (0, 1):
        directory = f"{NODES}/node{node}/memory_side_cache/index1"
        tree |= {f"{directory}/size": line(96 << 30), f"{directory}/line_size": line(64)}
    tree["sys/devices/virtual/memory_tiering/memory_tier4/nodelist"] = line("0-1")
    machine = zones_of(tree)
    assert [(cache.level, cache.size, cache.line_size) for cache in machine.zones[1].side_caches] == [(1, 96 << 30, 64)]
    assert [zone.tier for zone in machine.zones] == [4, 4]
    assert machine.problems == ()


# --- the memory of GPUs


def add_gpu(tree: Contents, address: str, node: int, local_cpus: str = "", vendor: str = "10de") -> None:
    directory = f"sys/devices/pci{address[:7]}/{address}"
    tree[f"sys/bus/pci/devices/{address}"] = f"../../../devices/pci{address[:7]}/{address}"
    values = {"class": "0x030200", "vendor": f"0x{vendor}", "device": "0x2941"}
    values |= {"subsystem_vendor": "0x10de", "subsystem_device": "0x1", "numa_node": str(node)}
    tree |= {f"{directory}/{name}": line(value) for name, value in values.items()}
    tree |= {
        f"{directory}/local_cpulist": line(local_cpus),
        f"{directory}/local_cpus": mask(CpuSet.parse_list(local_cpus)),
    }


def grace() -> Contents:
    """One Grace package with a GPU whose memory is node 1, and seven nodes that are kept for MIG."""
    rows = {0: "10 80 80 80 80 80 80 80 80", 1: "80 10 255 255 255 255 255 255 255"}
    gpu_nodes = {node: Node(kib=0, distance="80" + " 255" * 8) for node in range(2, 9)}
    nodes = {0: Node("0-3", 1000, rows[0]), 1: Node(kib=500, distance=rows[1]), **gpu_nodes}
    tree = node_tree(nodes, "0-3")
    for node in gpu_nodes:
        tree[f"{NODES}/node{node}/distance"] = line(" ".join("10" if at == node else "80" for at in range(9)))
    add_gpu(tree, "0009:01:00.0", 1)
    return tree


def test_coherent_gpus_on_grace() -> None:
    """The node of the GPU's function and the nodes kept behind it are the GPU's, and no memory of the machine."""
    machine = zones_of(grace())
    assert [zone.kind for zone in machine.zones] == ["cpu", *["device"] * 8]
    assert {zone.device for zone in machine.zones[1:]} == {"0009:01:00.0"}
    assert {zone.medium for zone in machine.zones} == {None, "GPU"}
    assert machine.memory == 1000 * KIB
    assert str(machine.zones[1].local_cpus) == "0-3"
    assert machine.problems == ()


def test_gpus_on_power9() -> None:
    """On POWER9 the driver names the node, and the GPU's function is in a node with CPUs."""
    tree = node_tree({0: Node("0-3"), 8: Node("4-7"), 254: Node(), 255: Node()}, "0-7")
    for address, node, near in (("0004:04:00.0", 255, "0-3"), ("0035:03:00.0", 254, "4-7")):
        add_gpu(tree, address, 0, near)
        status = f"Node:      {node}\nStatus:    online\nAddress:   40000000000\n"
        tree[f"proc/driver/nvidia/gpus/{address}/numa_status"] = status.encode()
    machine = zones_of(tree)
    discovered = {zone.id: (zone.kind, zone.device, str(zone.local_cpus)) for zone in machine.zones[2:]}
    assert discovered == {254: ("device", "0035:03:00.0", "4-7"), 255: ("device", "0004:04:00.0", "0-3")}
    assert machine.problems == ()


def test_a_node_with_switched_off_cpus_is_no_memory_of_a_gpu() -> None:
    """Where all CPUs of a node were switched off, a GPU near it does not make it the GPU's memory."""
    tree = two_nodes()
    tree[f"{SYSTEM}/cpu/online"] = line("0-3")
    tree |= {f"{SYSTEM}/cpu/cpu{cpu}/online": line(0) for cpu in range(4, 8)}
    add_gpu(tree, "0000:81:00.0", 1)
    zone = zones_of(tree).zones[1]
    assert (zone.kind, zone.cpus, zone.device) == ("memory", EMPTY, None)
    assert zones_of(tree).memory == 3000 * KIB


def test_gpus_of_further_vendors_and_nodes_with_cpus() -> None:
    """Neither a GPU of another vendor nor one in a node with CPUs makes a node its memory."""
    tree = node_tree({0: Node("0-3"), 1: Node()}, "0-3")
    add_gpu(tree, "0000:81:00.0", 1, vendor="1002")
    add_gpu(tree, "0000:82:00.0", 0)
    assert [zone.kind for zone in zones_of(tree).zones] == ["cpu", "memory"]


# --- contradictions


def test_a_list_and_a_mask_that_contradict_each_other() -> None:
    """The links between node and CPUs decide, and else the CPUs that no other node has."""
    tree = two_nodes()
    tree[f"{NODES}/node1/cpulist"] = line("4-6")
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}
    links = [f"/node1/cpu{cpu}" for cpu in range(4, 8)] + [f"/cpu{cpu}/node1" for cpu in range(4, 8)]
    machine = zones_of(without(tree, *links))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}/node1/cpulist"]


def test_the_cpus_of_a_node_that_lost_both_files() -> None:
    """They are those that link to it; without links those that no other node has."""
    tree = without(two_nodes(), "node1/cpulist", "node1/cpumap")
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}
    machine = zones_of(without(tree, "/node1/cpu", *[f"/cpu{cpu}/node1" for cpu in range(4, 8)]))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}/node1/cpulist"]


def test_two_nodes_that_lost_everything_have_no_cpus_and_are_not_called_memory() -> None:
    """What is unknown is not none: such zones stay CPU zones, with no CPU made up."""
    links = [f"/cpu{cpu}/node" for cpu in range(8)]
    machine = zones_of(without(two_nodes(), "/node0/cpu", "/node1/cpu", *links))
    assert cpus_by_zone(machine) == {0: "", 1: ""}
    assert {zone.kind for zone in machine.zones} == {"cpu"}
    assert len(machine.problems) == 2


def test_nodes_that_claim_the_cpus_of_another() -> None:
    """A CPU stays with the first node that names it; a node with none but others' CPUs is left out, as by hwloc."""
    nodes = {0: Node("0-3"), 1: Node("2-5"), 2: Node("0-5"), 3: Node("6-7")}
    machine = zones_of(node_tree(nodes, "0-7"))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-5", 3: "6-7"}
    assert str(machine.zones[1].local_cpus) == "2-5"
    assert "2" not in machine.zones[0].distances
    assert machine.memory == sum(zone.memory or 0 for zone in machine.zones)
    assert problems(machine) == [f"/{NODES}/node1/cpumap", f"/{NODES}/node2/cpumap"]


def test_nodes_of_numa_fake() -> None:
    """With numa=fake= every part of a node shows its CPUs: they are in the first part, and near to the others."""
    tree = node_tree({0: Node("0-3"), 1: Node("0-3"), 2: Node("0-3")}, "0-3")
    assert len(zones_of(tree).zones) == 1
    tree["proc/cmdline"] = b"ro numa=fake=3U quiet\n"
    machine = zones_of(tree)
    assert cpus_by_zone(machine) == {0: "0-3", 1: "", 2: ""}
    assert [str(zone.local_cpus) for zone in machine.zones] == ["0-3"] * 3
    assert [zone.kind for zone in machine.zones] == ["cpu", "memory", "memory"]
    assert machine.problems == ()


# --- without nodes


def flat_tree() -> Contents:
    """A kernel without NUMA."""
    tree = without(two_nodes(), NODES, "/node")
    tree["proc/meminfo"] = b"MemTotal:        4096 kB\nMemFree:         1 kB\n"
    tree["sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] = line(5)
    return tree


def test_a_kernel_without_numa_is_a_single_zone() -> None:
    """Without any node the machine is zone 0; a fact by a rule, and no damage."""
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
    """Where only the listing fails, the nodes are found by their names, and the failure is reported."""
    machine = zones_of(Damaged(MemoryFiles(two_nodes().items()), {NODES: Damage(DELETE)}))
    assert cpus_by_zone(machine) == {0: "0-3", 1: "4-7"}
    assert problems(machine) == [f"/{NODES}"]


def test_a_directory_of_nodes_without_any() -> None:
    """A tree of nodes that holds none makes one zone, and a problem."""
    machine = zones_of(flat_tree() | {f"{NODES}/online": line("0-1")})
    assert cpus_by_zone(machine) == {0: "0-7"}
    assert problems(machine) == [f"/{NODES}"]


def test_no_cpus_at_all_is_no_zone() -> None:
    """A tree with neither nodes nor CPUs, such as a single class of devices, has no zone."""
    assert zones_of({"sys/class/net/lo/mtu": b"65536\n", "proc/meminfo": b"MemTotal: 5 kB\n"}).zones == ()


@pytest.mark.parametrize("name", ["node1024", "node99999999999", "node-1", "node01", "node1x", "nodé1", "node"])
def test_names_that_are_no_nodes(name: str) -> None:
    """Ids are bounded, and only a plain number is one."""
    tree = two_nodes()
    tree[f"{NODES}/{name}/meminfo"] = b"Node 0 MemTotal: 5 kB\n"
    assert cpus_by_zone(zones_of(tree)) == {0: "0-3", 1: "4-7"}


# --- losses


def test_memory_that_is_lost() -> None:
    """A zone whose meminfo is lost has no memory known, nor has the machine but by /proc/meminfo."""
    tree = without(two_nodes(), "node1/meminfo")
    machine = zones_of(tree)
    assert [zone.memory for zone in machine.zones] == [1000 * KIB, None]
    assert machine.memory is None
    tree["proc/meminfo"] = b"MemTotal:        3000 kB\n"
    machine = zones_of(tree)
    assert (machine.zones[1].memory, machine.memory) == (None, 3000 * KIB)
    assert problems(machine) == [f"/{NODES}/node1/meminfo"]


def test_memory_of_the_only_node_is_that_of_the_machine() -> None:
    """With one node, /proc/meminfo agrees."""
    tree = without(node_tree({0: Node("0-3")}, "0-3"), "node0/meminfo")
    tree["proc/meminfo"] = b"MemTotal:        3000 kB\n"
    machine = zones_of(tree)
    assert (machine.zones[0].memory, machine.memory) == (3000 * KIB, 3000 * KIB)
    assert [problem.used for problem in machine.problems] == ["/proc/meminfo, the machine being one zone"]


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
def test_memory_that_cannot_be(content: bytes) -> None:
    """Memory of another node, beyond any address space, negative, without its unit or cut is unknown, and reported."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/meminfo": content})
    assert machine.zones[1].memory is None
    assert f"/{NODES}/node1/meminfo" in problems(machine)


@pytest.mark.parametrize("row", ["10", "10 20 30", "10 x", "10 0", "", "10 -20", "10 999999"])
def test_rows_of_distances_that_cannot_be(row: str) -> None:
    """A row with the wrong number of numbers, or with one that is no distance, is unknown as a whole."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/distance": row.encode() + b"\n"})
    assert machine.zones[0].distances == {"0": 10, "1": 20}
    assert machine.zones[1].distances == {}
    assert len(machine.problems) == 1


def test_a_pool_that_sibling_nodes_have() -> None:
    """A node with memory has the pools that the others have; one without memory need not."""
    tree = without(two_nodes(), "node1/hugepages")
    assert problems(zones_of(tree)) == [f"/{NODES}/node1/hugepages"]
    empty = node_tree({0: Node("0-3"), 1: Node("4-7", kib=0)}, "0-7")
    assert problems(zones_of(without(empty, "node1/hugepages"))) == []


@pytest.mark.parametrize("content", [b"-1\n", b"99999999999999999\n", b"x\n", b"", b"\xff\n"])
def test_pools_that_cannot_be(content: bytes) -> None:
    """A count that is negative, beyond any memory or no number is unknown, and never 0."""
    machine = zones_of(two_nodes() | {f"{NODES}/node1/hugepages/hugepages-2048kB/nr_hugepages": content})
    assert machine.zones[1].hugepages == {}
    assert len(machine.problems) == 1


def test_a_zone_that_no_tier_names() -> None:
    """Where there are tiers, every zone with memory is in one."""
    tree = two_nodes()
    tree["sys/devices/virtual/memory_tiering/memory_tier4/nodelist"] = line("0")
    assert problems(zones_of(tree)) == ["/sys/devices/virtual/memory_tiering"]


def test_speeds_that_a_node_lost() -> None:
    """A node without the speeds that all nodes of its sort have has lost them."""
    tree = node_tree({0: Node("0-1"), 1: Node("2-3")}, "0-3")
    for node in (0, 1):
        memory_node(tree, node, node)
    assert zones_of(tree).problems == ()
    assert problems(zones_of(without(tree, "node1/access0"))) == [f"/{NODES}/node1/access0/initiators"]


# --- invariants


def built() -> Contents:
    """A tree with all that is read: four nodes, two of them without CPUs, speeds, caches, tiers, pools, a GPU."""
    nodes = {0: Node("0-3"), 1: Node("4-7"), 2: Node(), 5: Node(kib=0)}
    tree = without(node_tree(nodes, "0-7"), "node5/hugepages")
    for node in nodes:
        memory_node(tree, node, node % 2)
        directory = f"{NODES}/node{node}/memory_side_cache/index1"
        tree |= {f"{directory}/size": line(1 << 30), f"{directory}/line_size": line(64)}
    tree["sys/devices/virtual/memory_tiering/memory_tier4/nodelist"] = line("0-1,5")
    tree["sys/devices/virtual/memory_tiering/memory_tier9/nodelist"] = line("2")
    tree["proc/meminfo"] = b"MemTotal:        3145728 kB\n"
    add_gpu(tree, "0009:01:00.0", 5)
    return tree


def paths_read(tree: Contents) -> list[str]:
    """What is read and listed of a tree."""
    recording = Recording(MemoryFiles(tree.items()))
    Scanner(recording, collectors=COLLECTORS).scan()
    return sorted({*recording.reads, *recording.listings})


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(paths_read(built())), DAMAGES, min_size=1, max_size=8))
def test_damage_makes_up_nothing(damages: dict[str, Damage]) -> None:
    """Whatever is deleted, denied, cut or garbled: no zone that was not there, no CPU in two zones or offline, no
    collector that fails, and no memory from nothing.
    """
    files = MemoryFiles(built().items())
    scan = Scanner(Damaged(files, damages), collectors=COLLECTORS).scan()
    machine = scan.machine
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    assert {zone.id for zone in machine.zones} <= {0, 1, 2, 5}
    counts = Counter(cpu for zone in machine.zones for cpu in zone.cpus)
    assert [cpu for cpu, times in counts.items() if times > 1] == []
    assert all(zone.cpus <= machine.cpus.online and zone.local_cpus <= machine.cpus.online for zone in machine.zones)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(paths_read(built())), st.sampled_from([Damage(DELETE), Damage("content", 0, b"\xff\n")]))
def test_a_loss_is_reported(path: str, damage: Damage) -> None:
    """A file that is lost or garbled costs a fact, and is reported; or another source has the fact."""
    files = MemoryFiles(built().items())
    before = Scanner(files, collectors=COLLECTORS).scan().machine
    after = Scanner(Damaged(files, {path: damage}), collectors=COLLECTORS).scan().machine
    if path == "sys/devices/virtual/memory_tiering":
        return  # kernels before 6.1 have none
    if after.zones != before.zones or after.memory != before.memory:
        assert set(after.problems) - set(before.problems)


@given(st.lists(st.sets(st.integers(0, 15)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_cpu_is_in_two_zones_whatever_nodes_claim(claims: list[set[int]]) -> None:
    """Nodes may name any CPUs: each CPU is in one zone at most, and the zones are some of the nodes."""
    nodes = {number: Node(str(CpuSet(claim))) for number, claim in enumerate(claims)}
    machine = zones_of(node_tree(nodes, "0-15"))
    counts = Counter(cpu for zone in machine.zones for cpu in zone.cpus)
    assert all(times == 1 for times in counts.values())
    assert {zone.id for zone in machine.zones} <= nodes.keys()
    assert set(counts) == set().union(*claims)


# --- provenance and rescans


def test_every_fact_of_a_zone_has_a_source() -> None:
    """Each known fact has a source, of its own or of its zone."""
    scan = scan_zones(built())
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
def test_what_may_change_is_looked_at_again(path: str, content: bytes) -> None:
    """Memory given or taken, pools resized and nodes plugged in show in the signature."""
    tree = two_nodes()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles((tree | {path: content}).items()))) != before


def test_free_memory_is_no_change() -> None:
    """What programs take and give does not count."""
    tree = two_nodes()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    tree[f"{NODES}/node1/meminfo"] = b"Node 1 MemTotal:       2000 kB\nNode 1 MemFree: 1999 kB\n"
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) == before


def test_the_signature_of_a_single_zone_is_the_memory_of_the_machine() -> None:
    """Without nodes, a balloon shows in /proc/meminfo."""
    tree = flat_tree()
    before = zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    tree["proc/meminfo"] = b"MemTotal:        2048 kB\n"
    assert zones.COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) != before

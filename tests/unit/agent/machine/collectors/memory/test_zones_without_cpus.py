"""Zones without CPUs: their nearest CPUs, and the memory of GPUs."""

from __future__ import annotations

from support.node_trees import (
    COLLECTORS,
    NODES,
    SYSTEM,
    Node,
    add_gpu,
    memory_node,
    node_tree,
    two_nodes,
    without,
    zones_of,
)
from support.trees import Contents, line
from zonewise.machine.collectors.host import kernel
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise_common.k8s.cpuset import EMPTY

KIB = 1024


def test_the_nearest_cpus_by_initiator() -> None:
    """The firmware's best initiator takes precedence over the smallest distance."""
    nodes = {0: Node("0-1", distance="10 20 17"), 1: Node("2-3", distance="20 10 28"), 2: Node(distance="17 28 10")}
    tree = node_tree(nodes, "0-3")
    assert str(zones_of(tree).zones[2].local_cpus) == "0-1"
    memory_node(tree, 2, 1)
    zone = zones_of(tree).zones[2]
    assert (zone.kind, zone.cpus, str(zone.local_cpus)) == ("memory", EMPTY, "2-3")
    assert zone.initiators == (1,)


def test_class_1_precedes_class_0() -> None:
    """Class 0 may name a device that is nearer than any CPU; class 1 names only CPUs."""
    tree = node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node(), 3: Node(kib=0)}, "0-3")
    memory_node(tree, 2, 3, 0)
    memory_node(tree, 2, 1, 1)
    zone = zones_of(tree).zones[2]
    assert (zone.initiators, str(zone.local_cpus)) == ((1,), "2-3")
    assert [access.access_class for access in zone.accesses] == [0, 1]


def test_speeds_that_the_firmware_lacks() -> None:
    """Bandwidths and latencies are those of the class; the kernel prints 0 for "unknown"."""
    tree = node_tree({0: Node("0-1"), 1: Node()}, "0-1")
    memory_node(tree, 1, 0)
    (access,) = zones_of(tree).zones[1].accesses
    assert (access.read_bandwidth, access.write_bandwidth) == (200, 100)
    assert (access.read_latency, access.write_latency) == (None, 90)


def test_equal_distances_make_all_cpus_the_nearest() -> None:
    """A node at the same distance from all nodes is near to all CPUs."""
    machine = zones_of(node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node()}, "0-3"))
    assert str(machine.zones[2].local_cpus) == "0-3"


def test_without_distances_no_zone_is_nearest() -> None:
    """Without a source, no CPU is near, unless only one zone has CPUs."""
    lost = without(node_tree({0: Node("0-1"), 1: Node("2-3"), 2: Node()}, "0-3"), "distance")
    assert zones_of(lost).zones[2].local_cpus == EMPTY
    lost = without(node_tree({0: Node("0-1"), 2: Node()}, "0-1"), "distance")
    assert str(zones_of(lost).zones[1].local_cpus) == "0-1"


def test_side_caches_and_tiers() -> None:
    """Caches in front of memory are listed level by level. The tier is the one that lists the zone."""
    tree = two_nodes()
    for node in (0, 1):
        directory = f"{NODES}/node{node}/memory_side_cache/index1"
        tree |= {f"{directory}/size": line(96 << 30), f"{directory}/line_size": line(64)}
    tree["sys/devices/virtual/memory_tiering/memory_tier4/nodelist"] = line("0-1")
    machine = zones_of(tree)
    assert [(cache.level, cache.size, cache.line_size) for cache in machine.zones[1].side_caches] == [(1, 96 << 30, 64)]
    assert [zone.tier for zone in machine.zones] == [4, 4]
    assert machine.problems == ()


def grace() -> Contents:
    """Return one Grace package with a GPU whose memory is node 1, and seven nodes that are reserved for MIG."""
    rows = {0: "10 80 80 80 80 80 80 80 80", 1: "80 10 255 255 255 255 255 255 255"}
    gpu_nodes = {node: Node(kib=0, distance="80" + " 255" * 8) for node in range(2, 9)}
    nodes = {0: Node("0-3", 1000, rows[0]), 1: Node(kib=500, distance=rows[1]), **gpu_nodes}
    tree = node_tree(nodes, "0-3")
    for node in gpu_nodes:
        tree[f"{NODES}/node{node}/distance"] = line(" ".join("10" if at == node else "80" for at in range(9)))
    add_gpu(tree, "0009:01:00.0", 1)
    return tree


def test_coherent_gpus_on_grace() -> None:
    """The node of the GPU's function and the reserved nodes after it belong to the GPU, not to the machine's memory."""
    machine = zones_of(grace())
    assert [zone.kind for zone in machine.zones] == ["cpu", *["device"] * 8]
    assert {zone.device for zone in machine.zones[1:]} == {"0009:01:00.0"}
    assert {zone.medium for zone in machine.zones} == {None, "GPU"}
    assert machine.memory == 1000 * KIB
    assert str(machine.zones[1].local_cpus) == "0-3"
    assert machine.problems == ()


def test_a_node_without_cpus_on_x86_is_host_memory() -> None:
    """Hypervisors create such nodes, and may put a GPU into one. No GPU's memory is a node on x86."""
    tree = node_tree({0: Node("0-3", 1000), 1: Node(kib=500)}, "0-3")
    add_gpu(tree, "0000:81:00.0", 1)
    tree["proc/sys/kernel/arch"] = line("x86_64")
    machine = Scanner(MemoryFiles(tree.items()), collectors=(kernel.COLLECTOR, *COLLECTORS)).scan().machine
    assert [(zone.kind, zone.device, zone.medium) for zone in machine.zones] == [
        ("cpu", None, None),
        ("memory", None, None),
    ]
    assert machine.memory == 1500 * KIB


def test_gpus_on_power9() -> None:
    """On POWER9, the driver names the node, while the GPU's function is in a node with CPUs."""
    tree = node_tree({0: Node("0-3"), 8: Node("4-7"), 254: Node(), 255: Node()}, "0-7")
    for address, node, near in (("0004:04:00.0", 255, "0-3"), ("0035:03:00.0", 254, "4-7")):
        add_gpu(tree, address, 0, near)
        status = f"Node:      {node}\nStatus:    online\nAddress:   40000000000\n"
        tree[f"proc/driver/nvidia/gpus/{address}/numa_status"] = status.encode()
    machine = zones_of(tree)
    discovered = {zone.id: (zone.kind, zone.device, str(zone.local_cpus)) for zone in machine.zones[2:]}
    assert discovered == {254: ("device", "0035:03:00.0", "4-7"), 255: ("device", "0004:04:00.0", "0-3")}
    assert machine.problems == ()


def test_a_node_with_offline_cpus_is_not_the_memory_of_a_gpu() -> None:
    """If all CPUs of a node are offline, a GPU near it does not make the node GPU memory."""
    tree = two_nodes()
    tree[f"{SYSTEM}/cpu/online"] = line("0-3")
    tree |= {f"{SYSTEM}/cpu/cpu{cpu}/online": line(0) for cpu in range(4, 8)}
    add_gpu(tree, "0000:81:00.0", 1)
    zone = zones_of(tree).zones[1]
    assert (zone.kind, zone.cpus, zone.device) == ("memory", EMPTY, None)
    assert zones_of(tree).memory == 3000 * KIB


def test_gpus_of_further_vendors_and_nodes_with_cpus() -> None:
    """Neither a GPU of another vendor nor a GPU in a node with CPUs makes a node its memory."""
    tree = node_tree({0: Node("0-3"), 1: Node()}, "0-3")
    add_gpu(tree, "0000:81:00.0", 1, vendor="1002")
    add_gpu(tree, "0000:82:00.0", 0)
    assert [zone.kind for zone in zones_of(tree).zones] == ["cpu", "memory"]

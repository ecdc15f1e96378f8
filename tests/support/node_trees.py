"""NUMA nodes made of files, for tests of zones: any set of nodes with any CPUs and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support.trees import Contents, line, mask
from zonewise.machine.collectors.cpu import cpus
from zonewise.machine.collectors.memory import dax, zones
from zonewise.machine.collectors.pci import functions as pci
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import Files, MemoryFiles
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

SYSTEM = "sys/devices/system"
NODES = f"{SYSTEM}/node"
COLLECTORS = (cpus.COLLECTOR, pci.COLLECTOR, dax.COLLECTOR, zones.COLLECTOR)


class Node(NamedTuple):
    """A NUMA node."""

    cpus: str = ""
    kib: int = 1 << 20
    distance: str | None = None
    """If None, 10 to itself and 20 to all others."""


def node_tree(nodes: dict[int, Node], online: str) -> Contents:
    """Return nodes with the given CPUs online, as a 6.x kernel shows them."""
    tree: Contents = {f"{SYSTEM}/cpu/{name}": line(online) for name in ("online", "present", "possible")}
    tree |= {f"{SYSTEM}/cpu/cpu{cpu}/online": line(1) for cpu in CpuSet.parse_list(online)}
    tree["proc/cpuinfo"] = b"\n".join(b"processor\t: %d\n" % cpu for cpu in CpuSet.parse_list(online))
    tree[f"{NODES}/online"] = line(CpuSet(nodes))
    for number, node in nodes.items():
        place, held = f"{NODES}/node{number}", CpuSet.parse_list(node.cpus)
        row = node.distance or " ".join("10" if other == number else "20" for other in nodes)
        tree |= {f"{place}/cpulist": line(held), f"{place}/cpumap": mask(held), f"{place}/distance": line(row)}
        tree[f"{place}/meminfo"] = (
            f"Node {number} MemTotal:       {node.kib} kB\nNode {number} MemFree: 7 kB\n".encode()
        )
        tree[f"{place}/hugepages/hugepages-2048kB/nr_hugepages"] = line(0)
        for cpu in held:
            tree[f"{place}/cpu{cpu}"] = f"../../cpu/cpu{cpu}"
            tree[f"{SYSTEM}/cpu/cpu{cpu}/node{number}"] = f"../../node/node{number}"
    return tree


def scan_zones(tree: Contents | Files) -> Scan:
    """Scan a tree with the collectors that zones require."""
    files = MemoryFiles(tree.items()) if isinstance(tree, dict) else tree
    return Scanner(files, explain=True, collectors=COLLECTORS).scan()


def zones_of(tree: Contents | Files) -> Machine:
    """Return the machine of a tree, with the facts of those collectors."""
    return scan_zones(tree).machine


def without(tree: Contents, *parts: str) -> Contents:
    """Return a tree without the files whose path contains one of the parts."""
    return {path: content for path, content in tree.items() if not any(part in path for part in parts)}


TWO = {0: Node("0-3", 1000), 1: Node("4-7", 2000)}


def two_nodes() -> Contents:
    """Return two nodes of four CPUs each."""
    return node_tree(TWO, "0-7")


def cpus_by_zone(machine: Machine) -> dict[int, str]:
    return {zone.id: str(zone.cpus) for zone in machine.zones}


def problems(machine: Machine) -> list[str]:
    """Return the paths of a machine's problems."""
    return [problem.path for problem in machine.problems]


def memory_node(tree: Contents, node: int, initiator: int, access_class: int = 0) -> None:
    """Add the firmware's entry for the node with the best access to a memory node."""
    directory = f"{NODES}/node{node}/access{access_class}/initiators"
    tree[f"{directory}/node{initiator}"] = f"../../../node{initiator}"
    values = {"read_bandwidth": 200, "write_bandwidth": 100, "read_latency": 0, "write_latency": 90}
    tree |= {f"{directory}/{name}": line(value) for name, value in values.items()}


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


def flat_tree() -> Contents:
    """Return a tree of a kernel without NUMA."""
    tree = without(two_nodes(), NODES, "/node")
    tree["proc/meminfo"] = b"MemTotal:        4096 kB\nMemFree:         1 kB\n"
    tree["sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"] = line(5)
    return tree


def full_tree() -> Contents:
    """Return a tree with everything that is read: four nodes, two without CPUs, speeds, caches, tiers, pools, a GPU."""
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

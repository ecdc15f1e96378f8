"""NUMA nodes made of files, for the tests of zones: any set of nodes, whatever CPUs and memory each has."""

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
    """A node to be made."""

    cpus: str = ""
    kib: int = 1 << 20
    distance: str | None = None
    """10 to itself and 20 to all others, where it is None."""


def node_tree(nodes: dict[int, Node], online: str) -> Contents:
    """Make nodes, with the given CPUs online, as a kernel 6.x shows them."""
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
    """Scan a tree with the collectors that zones need."""
    files = MemoryFiles(tree.items()) if isinstance(tree, dict) else tree
    return Scanner(files, explain=True, collectors=COLLECTORS).scan()


def zones_of(tree: Contents | Files) -> Machine:
    """Return the machine of a tree, as far as those collectors know it."""
    return scan_zones(tree).machine


def without(tree: Contents, *parts: str) -> Contents:
    """A tree without the files whose path has one of the parts."""
    return {path: content for path, content in tree.items() if not any(part in path for part in parts)}

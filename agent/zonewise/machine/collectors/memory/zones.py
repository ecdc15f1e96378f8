"""NUMA nodes: the CPUs and memory of each, its distances, and its kind of memory.

Each directory of a node makes a zone (drivers/base/node.c). A kernel without NUMA has no such directories; its machine
is one zone, 0, that contains everything. Nodes without CPUs are memory in addition to the CPUs' own (HBM, CXL,
persistent memory), or the memory of a coherent GPU; `kind` separates them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.memory.zone_access import (
    best_access,
    nearest_cpus,
    read_node_accesses,
    read_node_distances,
)
from zonewise.machine.collectors.memory.zone_cpus import NODE, listed_ids, node_ids, read_node_cpus
from zonewise.machine.collectors.memory.zone_medium import gpu_nodes, media
from zonewise.machine.collectors.memory.zone_memory import (
    HUGEPAGES,
    MEMINFO,
    read_machine_hugepages,
    read_machine_memory,
    read_node_hugepages,
    read_node_memory,
    read_node_side_caches,
    read_node_tiers,
    total_line,
)
from zonewise.machine.model.zone import Zone

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from zonewise.machine.collectors.memory.zone_cpus import NodeCpus
    from zonewise.machine.model.host import DaxDevice
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.zone import Access, MemorySideCache
    from zonewise.machine.reader import Reader
    from zonewise_common.k8s.cpuset import CpuSet


class _Nodes(NamedTuple):
    """The facts from the files of every node, by node id."""

    cpus: Mapping[int, NodeCpus]
    memory: Mapping[int, int]
    pools: Mapping[int, dict[str, int]]
    distances: Mapping[int, Mapping[int, int]]
    accesses: Mapping[int, Sequence[Access]]
    side_caches: Mapping[int, tuple[MemorySideCache, ...]]
    tiers: Mapping[int, int]
    gpus: Mapping[int, str]
    kmem: Mapping[int, DaxDevice]


MAX_DIFFERENCE = 0.04
"""The fraction of the machine's memory by which the sum over the zones may differ from it."""


def _collect(read: Reader, machine: Machine) -> Machine:
    ids, online = node_ids(read, machine.cpus.online)
    if not ids:
        return _single_zone(read, machine)
    cpus = read_node_cpus(read, ids, machine.cpus.online)
    # all CPUs of a node may be offline; a node whose CPUs are unknown does not count as one without CPUs
    bare = frozenset(node for node, held in cpus.items() if held.known and not held.own)
    kmem = {dax.zone: dax for dax in machine.dax_devices if dax.driver == "kmem" and dax.zone is not None}
    memory = read_node_memory(read, ids)
    nodes = _Nodes(
        cpus,
        memory,
        read_node_hugepages(read, ids, memory),
        read_node_distances(read, ids, online),
        read_node_accesses(read, ids, bare),
        read_node_side_caches(read, ids, bare),
        read_node_tiers(read, memory),
        gpu_nodes(read, machine.pci, bare - kmem.keys(), machine.architecture),
        kmem,
    )
    zones = tuple(_zone(read, machine, nodes, node) for node in cpus)
    return machine._replace(zones=_with_media(read, zones, nodes.kmem), memory=_memory(read, nodes))


def _single_zone(read: Reader, machine: Machine) -> Machine:
    """Return the machine as one zone: with CONFIG_NUMA=n the kernel has no directory of nodes."""
    if not machine.cpus.online:
        raise NoData("no NUMA nodes, and no CPUs that could be one zone")
    _report_lost_tree(read, machine)
    rule = "a kernel without NUMA: all CPUs and all memory are one zone"
    read.source("zones.0", NODE, None, rule)
    memory = read_machine_memory(read, "zones.0.memory")
    read.source("memory", MEMINFO, memory, rule)
    online = machine.cpus.online
    return machine._replace(
        zones=(Zone(0, online, online, memory, read_machine_hugepages(read, "zones.0.hugepages"), {}, "cpu"),),
        memory=memory,
    )


def _report_lost_tree(read: Reader, machine: Machine) -> None:
    """Report a kernel that has lost its nodes, as opposed to one without NUMA: only NUMA assigns a node to a PCI
    function.
    """
    placed = [function for function in machine.pci if function.numa_node is not None]
    if placed:
        what = f"is absent, although PCI function {placed[0].address} is in node {placed[0].numa_node}"
        read.problem(NODE, what, "one zone of all CPUs and all memory")


def _zone(read: Reader, machine: Machine, nodes: _Nodes, node: int) -> Zone:
    held, memory, fact = nodes.cpus[node], nodes.memory.get(node), f"zones.{node}"
    accesses = tuple(nodes.accesses[node])
    best = best_access(accesses)
    dax, gpu = nodes.kmem.get(node), nodes.gpus.get(node)
    kind = "device" if gpu else "cpu" if held.own or not held.known else "memory"
    read.source(fact, f"{NODE}/node{node}", None, "a directory of a NUMA node")
    read.source(f"{fact}.kind", f"{NODE}/node{node}", kind, "whether it has CPUs, or a GPU names it")
    if best is not None:
        path = f"{NODE}/node{node}/access{best.access_class}/initiators"
        read.source(f"{fact}.initiators", path, best.initiators, "the best initiators: links to nodes")
    if device := gpu or (dax.name if dax else None):
        read.source(f"{fact}.device", f"{NODE}/node{node}", device, "the GPU or the DAX device that names the node")
    return Zone(
        node,
        held.own,
        held.listed or _local_cpus(read, machine, nodes, node),
        memory,
        nodes.pools[node],
        {
            str(node_id): distance
            for node_id, distance in nodes.distances.get(node, {}).items()
            if node_id in nodes.cpus
        },
        kind,
        None if best is None else tuple(node_id for node_id in best.initiators if node_id in nodes.cpus),
        accesses,
        nodes.side_caches[node],
        nodes.tiers.get(node),
        device=device,
    )


def _local_cpus(read: Reader, machine: Machine, nodes: _Nodes, node: int) -> CpuSet:
    """Return the CPUs nearest to a node without CPUs; for a GPU's memory, those nearest to the GPU."""
    fact, gpu = f"zones.{node}.local_cpus", nodes.gpus.get(node)
    near = next((function.cpus for function in machine.pci if function.address == gpu), None)
    if near and near & machine.cpus.online:
        read.source(fact, f"sys/bus/pci/devices/{gpu}", near, "the CPUs nearest to the GPU, according to the kernel")
        return near & machine.cpus.online
    own = {node_id: held.own for node_id, held in nodes.cpus.items() if held.own}
    cpus, rule = nearest_cpus(node, own, nodes.accesses[node], nodes.distances.get(node, {}))
    read.source(fact, f"{NODE}/node{node}", cpus, rule)
    return cpus


def _with_media(read: Reader, zones: tuple[Zone, ...], kmem: Mapping[int, DaxDevice]) -> tuple[Zone, ...]:
    media_by_zone = media(zones, kmem)
    for zone, medium in media_by_zone.items():
        rule = "the DAX bus, otherwise a comparison of the zones' bandwidths"
        read.source(f"zones.{zone}.medium", f"{NODE}/node{zone}", medium, rule)
    return tuple(zone._replace(medium=media_by_zone.get(zone.id)) for zone in zones)


def _memory(read: Reader, nodes: _Nodes) -> int | None:
    """Return the machine's memory without that of GPUs: the sum over the zones if /proc/meminfo agrees.

    The sum is smaller if the kernel initializes memory after startup. The MemTotal of a node then grows for up to an
    hour, while /proc/meminfo has the whole, as `free` prints it. Before Linux 3.16 the sum is up to 3.4 % larger on
    captured machines, since a node counted pages that the allocator never gets.
    """
    device = [nodes.memory.get(node) for node in nodes.gpus]
    ordinary = [nodes.memory.get(node) for node in nodes.cpus if node not in nodes.gpus]
    together = None if None in ordinary else sum(filter(None, ordinary))
    machine = None if None in device else read_machine_memory(read, "memory", is_needed=together is None)
    total = 0 if machine is None else machine - sum(filter(None, device))
    if together is None:
        return total if total > 0 else None
    if total <= 0 or abs(total - together) <= total * MAX_DIFFERENCE:
        read.source("memory", NODE, together, "the sum over all zones except those of GPUs")
        return together
    what = "has less" if together < total else "has more"
    used = f"/{MEMINFO} for the machine, and the nodes' files for the zones"
    read.problem(NODE, f"{what} memory in all nodes together than /{MEMINFO}", used)
    return total


# --- what may change


def _volatile(peek: Peek) -> Hashable:
    """Notice nodes that are plugged in and changes of a virtual machine's memory or of pool sizes; `cpus` watches the
    CPUs.
    """
    nodes = listed_ids(peek.names(NODE))
    paths = [f"{NODE}/node{node}" for node in nodes]
    directories = [f"{path}/hugepages" for path in paths] or [HUGEPAGES]
    # every node with memory has the same pools, and one without memory has none
    pools = next((names for directory in directories if (names := peek.names(directory))), ())
    totals = [_peek_total(peek, f"{node_path}/meminfo") for node_path in paths]
    totals.append(_peek_total(peek, MEMINFO))
    return (
        peek.content(f"{NODE}/online"),
        tuple(nodes),
        tuple(totals),
        tuple(peek.content(f"{node_path}/{pool}/nr_hugepages") for node_path in directories for pool in pools),
    )


def _peek_total(peek: Peek, path: str) -> bytes | int | None:
    content = peek.content(path)
    return total_line(content) if isinstance(content, bytes) else content


COLLECTOR = Collector(
    name="zones",
    provides=("zones", "memory"),
    needs=("architecture", "cpus", "pci", "dax_devices"),
    collect=_collect,
    volatile=_volatile,
)

"""The NUMA nodes and the CPUs of each, from three sources with the same content that may contradict each other.

A CPU is in one node (arch/*/mm/numa.c), so a node with a CPU of another is damaged. Only the parameter numa=fake=
creates such nodes without damage: it splits a node into several that show the same CPUs.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.cpu.sharing import CPU
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.reader import Reader

NODE = "sys/devices/system/node"
MAX_NODES = 1024
"""Ids from this number on are damage: CONFIG_NODES_SHIFT is at most 10 on every architecture."""

_ONLINE = f"{NODE}/online"
_COMMAND_LINE = "proc/cmdline"
_MAX_DIGITS = len(str(MAX_NODES))


class NodeCpus(NamedTuple):
    """The online CPUs of a node."""

    own: CpuSet
    """The CPUs that no node with a lower id has."""
    listed: CpuSet
    """All CPUs that its files name."""
    known: bool = True
    """False if no file lists them."""


def node_number(name: str) -> int | None:
    """Return the id in the name of a node's directory or link; None for any other name."""
    digits = name.removeprefix("node")
    if digits == name or not (digits.isascii() and digits.isdecimal()) or len(digits) > _MAX_DIGITS:
        return None
    number = int(digits)
    return number if number < MAX_NODES and str(number) == digits else None


def listed_ids(names: Iterable[str]) -> list[int]:
    """Return the ids of the nodes among the names in a directory, ascending."""
    return sorted(number for name in names if (number := node_number(name)) is not None)


def node_ids(read: Reader, online_cpus: CpuSet) -> tuple[list[int], list[int]]:
    """Return the ids of the nodes, and the ids that the kernel lists as online, whose order the distances follow.

    A kernel without NUMA has no ids at all. A lost tree of nodes has none either, but links still point to it.
    """
    names = _names(read)
    ids = listed_ids(names or ())
    listed = [number for number in read.cpus(_ONLINE) or () if number < MAX_NODES]
    if ids:
        _report_differing(read, ids, listed)
        return ids, listed or ids
    if names is None and (listed or read.has(f"{NODE}/node0")):
        # a directory may refuse listing and yet permit reads of a known name
        ids = [number for number in range(MAX_NODES) if read.has(f"{NODE}/node{number}")]
    if ids:
        read.problem(NODE, "cannot be listed", "the node directories that can be read")
        return ids, listed or ids
    ids = _pointed_at(read, online_cpus)
    if ids:
        read.problem(
            NODE, "contains no node, although CPUs link to nodes", f"nodes {CpuSet(ids)}, from the links of the CPUs"
        )
    elif names:
        read.problem(NODE, "contains no node", "one zone of all CPUs and all memory")
    return ids, ids


def _names(read: Reader) -> list[str] | None:
    """Return the names in the directory of nodes; None if it cannot be listed."""
    try:
        return read.files.names(NODE)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            read.problem(NODE, f"cannot be listed: {error.strerror}")
        return None


def _report_differing(read: Reader, ids: list[int], listed: list[int]) -> None:
    """Report nodes that are online without a directory, and the reverse; old kernels do not list online nodes."""
    if not listed or listed == ids:
        return
    if homeless := CpuSet(listed) - CpuSet(ids):
        read.problem(
            _ONLINE, f"lists nodes {str(homeless)[:60]}, which have no directory", "the nodes with a directory"
        )
    if unlisted := CpuSet(ids) - CpuSet(listed):
        read.problem(_ONLINE, f"omits nodes {unlisted}, which have a directory", "the nodes with a directory")


def _pointed_at(read: Reader, online_cpus: CpuSet) -> list[int]:
    """Return the nodes that the CPUs' directories link to; if the first CPU has no link, no other CPU is read."""
    nodes: set[int] = set()
    for cpu in online_cpus:
        nodes.update(listed_ids(read.names(f"{CPU}/cpu{cpu}")))
        if not nodes:
            break
    return sorted(nodes)


# --- the CPUs


def read_node_cpus(read: Reader, ids: list[int], online: CpuSet) -> dict[int, NodeCpus]:
    """Return the online CPUs of each node that has CPUs of its own or none at all.

    A node is left out if all its CPUs belong to nodes before it, as in hwloc, unless numa=fake= made it.
    """
    if not online:
        return {node: NodeCpus(EMPTY, EMPTY, known=False) for node in ids}
    candidates = {node: _cpus_by_files(read, node, online) for node in ids}
    settled = {node: sets[0] if len(sets) == 1 else None for node, sets in candidates.items()}
    open_nodes = [node for node in ids if settled[node] is None]
    left = online - CpuSet.union(node_cpus for node_cpus in settled.values() if node_cpus is not None)
    for node in open_nodes:
        settled[node] = _settled(read, node, candidates[node], left, online, alone=len(open_nodes) == 1)
    return _without_overlap(read, settled)


def _cpus_by_files(read: Reader, node: int, online: CpuSet) -> list[CpuSet]:
    """Return the CPUs in the node's two files: one set if they agree or only one has a set."""
    directory = f"{NODE}/node{node}"
    before = len(read.problems)
    by_list, by_mask = read.cpus(f"{directory}/cpulist"), read.mask(f"{directory}/cpumap")
    sets = [cpus & online for cpus in (by_list, by_mask) if cpus is not None]
    if len(sets) == 1:
        read.note_used(before, f"/{directory}/{'cpumap' if by_list is None else 'cpulist'}")
    if sets:
        path, value = (f"{directory}/cpulist", by_list) if by_list is not None else (f"{directory}/cpumap", by_mask)
        read.source(f"zones.{node}.cpus", path, value, "the node's CPUs that are online")
    return sets[:1] if len(set(sets)) == 1 else sets


def _settled(
    read: Reader, node: int, candidates: list[CpuSet], left: CpuSet, online: CpuSet, *, alone: bool
) -> CpuSet | None:
    """Return the CPUs of a node whose files contradict each other or are lost."""
    directory = f"{NODE}/node{node}"
    linked = _linked(read, node, online)
    derivations = [(linked, "the links between node and CPUs")] if linked else []
    derivations += [(left, "the CPUs that no other node has")] if alone else []
    matching = [each for each in derivations if not candidates or each[0] in candidates]
    if not matching and candidates:
        matching = [(candidates[0] & left, "the list, without the CPUs of other nodes")]
    what = "contradicts cpumap" if candidates else "cannot be used, nor can cpumap"
    if not matching:
        read.problem(f"{directory}/cpulist", what, f"the CPUs of zone {node} are unknown")
        return None
    cpus, used = matching[0]
    read.problem(f"{directory}/cpulist", what, f"{used}: {cpus}")
    read.source(f"zones.{node}.cpus", directory, cpus, used)
    return cpus


def _linked(read: Reader, node: int, online: CpuSet) -> CpuSet:
    """Return the CPUs that the node links to, or else those that link to it (drivers/base/node.c)."""
    names = frozenset(read.names(f"{NODE}/node{node}"))
    linked = CpuSet(cpu for cpu in online if f"cpu{cpu}" in names)
    return linked or CpuSet(cpu for cpu in online if read.link(f"{CPU}/cpu{cpu}/node{node}") is not None)


def _without_overlap(read: Reader, cpus_by_node: dict[int, CpuSet | None]) -> dict[int, NodeCpus]:
    claimed = EMPTY
    nodes: dict[int, NodeCpus] = {}
    for node, cpus in cpus_by_node.items():
        if cpus is None:
            nodes[node] = NodeCpus(EMPTY, EMPTY, known=False)
            continue
        own = cpus - claimed
        if own != cpus and not _keeps_overlapping(read, node, cpus, own):
            continue
        nodes[node] = NodeCpus(own, cpus)
        claimed = claimed | cpus
    return nodes


def _keeps_overlapping(read: Reader, node: int, cpus: CpuSet, own: CpuSet) -> bool:
    command_line = read.raw(_COMMAND_LINE) or b""
    if b"numa=fake=" in command_line:
        return True
    what = f"lists CPUs {cpus - own}, which belong to earlier nodes"
    used = (
        f"CPUs {own} for zone {node}" if own else f"node {node} is omitted with its memory: it has no CPUs of its own"
    )
    read.problem(f"{NODE}/node{node}/cpumap", what, used)
    return bool(own)

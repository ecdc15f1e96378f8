"""The switches and blocks of Slurm as a fabric (slurm src/plugins/topology/tree and src/plugins/topology/block)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.labels import is_subdomain
from zonewise_scheduler.fabric.host_lists import expand
from zonewise_scheduler.fabric.text_lines import excerpt
from zonewise_scheduler.fabric.types import FabricError, FabricSwitch, Hca, NetworkFabric, link

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MAX_LEVEL = 15
"""block_record.c: the largest block has 2 ** 15 base blocks."""


class SlurmEntry(NamedTuple):
    """A switch or a block."""

    where: str
    """File, and line or field."""
    name: str
    nodes: str = ""
    """Nodes as a host list."""
    children: str = ""
    """Child switches as a host list."""


def tree_fabric(entries: Sequence[SlurmEntry]) -> NetworkFabric:
    """Return the fabric of topology/tree (switch_record.c switch_record_validate). Raises FabricError."""
    by_name = _by_name(entries, "switch")
    children = {entry.name: _children(entry, by_name) for entry in entries}
    tiers = _tiers(by_name, children)
    return NetworkFabric(
        {name: FabricSwitch(name, tier) for name, tier in tiers.items()},
        frozenset(link(name, child) for name in children for child in children[name]),
        _hcas(entries),
    )


def block_fabric(entries: Sequence[SlurmEntry], sizes: Sequence[int], where: str) -> NetworkFabric:
    """Return the fabric of topology/block (block_record.c block_record_validate). Raises FabricError.

    Each of `sizes` but the first joins consecutive blocks. A larger block is represented by a switch above its blocks.
    """
    _by_name(entries, "block")
    switches = {entry.name: FabricSwitch(entry.name, 0) for entry in entries}
    links: set[tuple[str, str]] = set()
    level = [entry.name for entry in entries]
    width = 1
    for tier, count in enumerate(_blocks_of_sizes(sizes, where), 1):
        upper: list[str] = []
        step = count // width
        for first in range(0, len(level), step):
            group = level[first : first + step]
            parent = f"{tier}/{group[0].rpartition('/')[2]}"
            switches[parent] = FabricSwitch(parent.partition("/")[2], tier)
            links.update(link(parent, child) for child in group)
            upper.append(parent)
        level, width = upper, count
    return NetworkFabric(switches, frozenset(links), _hcas(entries))


def _blocks_of_sizes(sizes: Sequence[int], where: str) -> list[int]:
    """Return the number of base blocks in each larger block."""
    counts: set[int] = set()
    for size in sizes:
        count, rest = divmod(size, sizes[0]) if sizes[0] > 0 else (0, 1)
        if rest or count < 1 or count.bit_count() != 1 or count >> (_MAX_LEVEL + 1):
            raise FabricError(f"{where}: block size {size} is not {sizes[0]} times a power of two")
        counts.add(count)
    return sorted(counts - {1})


def _by_name(entries: Iterable[SlurmEntry], kind: str) -> dict[str, SlurmEntry]:
    by_name: dict[str, SlurmEntry] = {}
    for entry in entries:
        if not entry.name:
            raise FabricError(f"{entry.where}: a {kind} without a name")
        if entry.name in by_name:
            raise FabricError(f"{entry.where}: {kind} {excerpt(entry.name)} is already in {by_name[entry.name].where}")
        by_name[entry.name] = entry
    return by_name


def _children(entry: SlurmEntry, by_name: dict[str, SlurmEntry]) -> tuple[str, ...]:
    if entry.children and entry.nodes:
        raise FabricError(f"{entry.where}: switch {excerpt(entry.name)} has both switches and nodes")
    names = tuple(_expanded(entry, entry.children))
    for name in names:
        if name not in by_name or name == entry.name:
            raise FabricError(f"{entry.where}: switch {excerpt(entry.name)} has no valid child {excerpt(name)}")
    return names


def _tiers(by_name: dict[str, SlurmEntry], children: dict[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the tier of each switch: that of its highest child plus 1. Raises FabricError for a cycle."""
    parents: defaultdict[str, list[str]] = defaultdict(list)
    open_children = {name: len(set(names)) for name, names in children.items()}
    for name, names in children.items():
        for child in set(names):
            parents[child].append(name)
    tiers = {name: 0 for name, number in open_children.items() if not number}
    queue = list(tiers)
    for name in queue:
        for parent in parents[name]:
            open_children[parent] -= 1
            if not open_children[parent]:
                tiers[parent] = 1 + max(tiers[child] for child in children[parent])
                queue.append(parent)
    for name in children:
        if name not in tiers:
            raise FabricError(f"{by_name[name].where}: switch {excerpt(name)} is below or in a cycle of switches")
    return tiers


def _hcas(entries: Iterable[SlurmEntry]) -> tuple[Hca, ...]:
    """Return an entry for each node. A node in several switches is connected to all of them."""
    leaves: defaultdict[str, set[str]] = defaultdict(set)
    for entry, node in _nodes(entries):
        leaves[node].add(entry.name)
    return tuple(Hca("", node, node.lower(), frozenset(leaves[node])) for node in sorted(leaves))


def _nodes(entries: Iterable[SlurmEntry]) -> Iterator[tuple[SlurmEntry, str]]:
    for entry in entries:
        for node in _expanded(entry, entry.nodes):
            if not is_subdomain(node.lower()):
                raise FabricError(f"{entry.where}: {excerpt(node)} is not a valid name of a node")
            yield entry, node


def _expanded(entry: SlurmEntry, text: str) -> list[str]:
    try:
        return expand(text)
    except ValueError as error:
        raise FabricError(f"{entry.where}: {error}") from error

"""Fleets by topology levels: blocks of racks of nodes, and groups of equal nodes in sequence."""

from __future__ import annotations

from itertools import chain, repeat
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.node import amounts_by_resource
from zonewise_scheduler.admission.resource_names import PODS
from zonewise_scheduler.nodes.filters.info_table import MAX_AMOUNT, NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import Labels, NodeInfo
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_common.k8s.taints import Taint
    from zonewise_scheduler.admission.node import NodeState, Resource

UNSPECIFIED = MAX_AMOUNT
"""Memory, storage or pods of a node without a stated amount, which do not count."""
MAX_NODES = 1_000_000


class Level(NamedTuple):
    """Domains of one level within each domain of the level above; the lowest level is the nodes."""

    name: str
    size: int
    label: str
    """The label's key; its values are unique in the whole fleet."""


class NodeGroup(NamedTuple):
    """Equal nodes."""

    name: str
    """The name of its ResourceFlavor as well."""
    allocatable: Resource
    labels: Mapping[str, str]
    """The flavor's node labels."""
    extra_labels: Mapping[str, str] = {}
    """Further labels of the nodes."""
    taints: tuple[Taint, ...] = ()
    state: NodeState | None = None
    """The state of its idle zones; None: they are unknown."""


def build_fleet(name: str, levels: Sequence[Level], groups: Sequence[tuple[NodeGroup, int]]) -> Fleet:
    """Return groups of nodes in sequence, as many in all as the levels have nodes.

    The Topology has the fleet's name. Numbers in names have leading zeros, so that names sort as numbers.
    """
    paths = _paths(levels)
    kinds = chain.from_iterable(repeat(make, count) for make, count in groups)
    labels_cache: dict[tuple[tuple[str, ...], str], Labels] = {}
    infos: list[NodeInfo | None] = []
    states: dict[str, NodeState] = {}
    for (node, outer), make in zip(paths, kinds, strict=True):
        key = (outer, make.name)
        labels = labels_cache.get(key)
        if labels is None:
            labels = labels_cache[key] = _labels(levels, outer, make)
        infos.append(NodeInfo(node, labels, make.taints, allocatable=make.allocatable))
        if make.state is not None:
            states[node] = make.state
    return Fleet(
        name,
        NodeInfoTable(infos),
        {name: tuple(level.label for level in levels)},
        tuple(ResourceFlavor(make.name, make.labels, make.taints, topology_name=name) for make, _ in groups),
        {make.name: total_capacity([(make.allocatable, count)]) for make, count in groups},
        states,
    )


def total_capacity(nodes: Iterable[tuple[Resource, int]]) -> dict[str, int]:
    """Return the total of nodes by resource, without resources that no node has."""
    totals: dict[str, int] = {}
    for allocatable, count in nodes:
        for name, amount in amounts_by_resource(allocatable):
            if name != PODS and amount and count:
                totals[name] = UNLIMITED if amount >= UNSPECIFIED else totals.get(name, 0) + amount * count
    return {name: min(amount, UNLIMITED) for name, amount in totals.items()}


def _paths(levels: Sequence[Level]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the name of each node with the names of its domains, the outermost first."""
    paths: list[tuple[str, tuple[str, ...]]] = [("", ())]
    for depth, level in enumerate(levels):
        digits = len(str(level.size - 1))
        names = [f"{level.name}-{number:0{digits}d}" for number in range(level.size)]
        paths = [
            (f"{parent}-{name}" if parent else name, (*outer, parent) if depth else outer)
            for parent, outer in paths
            for name in names
        ]
    return paths


def _labels(levels: Sequence[Level], outer: tuple[str, ...], make: NodeGroup) -> Labels:
    domains = zip((level.label for level in levels), outer, strict=False)
    items = sorted({**make.extra_labels, **make.labels, **dict(domains)}.items())
    node_keys = tuple(sorted({levels[-1].label, HOSTNAME}))
    return Labels(
        tuple(intern(key) for key, _ in items if key not in node_keys),
        tuple(intern(value) for key, value in items if key not in node_keys),
        node_keys,
    )

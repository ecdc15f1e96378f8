"""Builds fleets from topology levels, such as blocks of racks of nodes, and from sequences of identical nodes."""

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
"""Amount of memory, storage or pods that a node does not specify; such a resource does not count."""
MAX_NODES = 1_000_000


class Level(NamedTuple):
    """Domains of one level within each domain of the level above; the lowest level consists of nodes."""

    name: str
    size: int
    label: str
    """Label key; its values are unique in the whole fleet."""


class NodeGroup(NamedTuple):
    """A group of identical nodes."""

    name: str
    """Name of the group and of its ResourceFlavor."""
    allocatable: Resource
    labels: Mapping[str, str]
    """Node labels of the flavor."""
    extra_labels: Mapping[str, str] = {}
    """Further labels of the nodes."""
    taints: tuple[Taint, ...] = ()
    state: NodeState | None = None
    """State of its idle zones; None if they are unknown."""


def build_fleet(name: str, levels: Sequence[Level], groups: Sequence[tuple[NodeGroup, int]]) -> Fleet:
    """Return a fleet of groups of nodes in sequence; in total, the groups have as many nodes as the levels.

    The Topology has the fleet's name. Numbers in names have leading zeros, so that names sort numerically.
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
    """Return the total of all nodes by resource, without resources that no node has."""
    totals: dict[str, int] = {}
    for allocatable, count in nodes:
        for name, amount in amounts_by_resource(allocatable):
            if name != PODS and amount and count:
                totals[name] = UNLIMITED if amount >= UNSPECIFIED else totals.get(name, 0) + amount * count
    return {name: min(amount, UNLIMITED) for name, amount in totals.items()}


def _paths(levels: Sequence[Level]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the name of each node with the names of its domains, outermost first."""
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

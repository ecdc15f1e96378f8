"""Nodes by the level: so many blocks of so many racks of so many nodes, of one kind after the other."""

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
"""Of a node's memory, storage or pods: nobody tells how much there is, and it is not counted."""
MAX_NODES = 1_000_000


class Level(NamedTuple):
    """Domains of one kind within each domain of the level further out; the innermost are nodes."""

    name: str
    size: int
    label: str
    """The label's key; its values are names that are unique in all."""


class NodeGroup(NamedTuple):
    """A kind of nodes."""

    name: str
    """Of its ResourceFlavor too."""
    allocatable: Resource
    labels: Mapping[str, str]
    """The flavor's, which tell its nodes from others."""
    extra_labels: Mapping[str, str] = {}
    """Further ones."""
    taints: tuple[Taint, ...] = ()
    state: NodeState | None = None
    """Its zones when nothing runs; None: nothing is known of them."""


def build_fleet(name: str, levels: Sequence[Level], groups: Sequence[tuple[NodeGroup, int]]) -> Fleet:
    """Return nodes of one kind after the other, so many of each, which together are those of the levels.

    The Topology has the fleet's name. Numbers in names have leading zeros, so that names are in the order of numbers.
    """
    paths = _paths(levels)
    kinds = chain.from_iterable(repeat(make, count) for make, count in groups)
    kept: dict[tuple[tuple[str, ...], str], Labels] = {}
    infos: list[NodeInfo | None] = []
    states: dict[str, NodeState] = {}
    for (node, outer), make in zip(paths, kinds, strict=True):
        key = (outer, make.name)
        labels = kept.get(key)
        if labels is None:
            labels = kept[key] = _labels(levels, outer, make)
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


def total_capacity(rooms: Iterable[tuple[Resource, int]]) -> dict[str, int]:
    """Return what so many nodes of each have, by resource; what none of them has is left out."""
    found: dict[str, int] = {}
    for room, count in rooms:
        for name, amount in amounts_by_resource(room):
            if name != PODS and amount and count:
                found[name] = UNLIMITED if amount >= UNSPECIFIED else found.get(name, 0) + amount * count
    return {name: min(amount, UNLIMITED) for name, amount in found.items()}


def _paths(levels: Sequence[Level]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names of the nodes, each with those of the domains around it, the outermost first."""
    found: list[tuple[str, tuple[str, ...]]] = [("", ())]
    for place, level in enumerate(levels):
        digits = len(str(level.size - 1))
        names = [f"{level.name}-{number:0{digits}d}" for number in range(level.size)]
        found = [
            (f"{above}-{name}" if above else name, (*outer, above) if place else outer)
            for above, outer in found
            for name in names
        ]
    return found


def _labels(levels: Sequence[Level], outer: tuple[str, ...], make: NodeGroup) -> Labels:
    domains = zip((level.label for level in levels), outer, strict=False)
    pairs = sorted({**make.extra_labels, **make.labels, **dict(domains)}.items())
    named = tuple(sorted({levels[-1].label, HOSTNAME}))
    return Labels(
        tuple(intern(key) for key, _ in pairs if key not in named),
        tuple(intern(value) for key, value in pairs if key not in named),
        named,
    )

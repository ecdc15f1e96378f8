"""The nodes, the topology and the flavor of a generator file (runner/generator/topology_generator.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.topology.quantity import parse_bytes, parse_milli
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.queue.quota.model.queues import ResourceFlavor
from zonewise_scheduler.simulate.inputs.errors import InputError
from zonewise_scheduler.simulate.inputs.fields import lacks, named, within
from zonewise_scheduler.simulate.inputs.nodes import MOST_NODES, Level, Make, fleet_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.fit.nodes.table import NodeTable
    from zonewise_scheduler.queue.quota.read.part import Part

_FLAVOR = "rf"
_GROUP = "tas"
"""The value of the label that tells the flavor's nodes."""
_MILLI_CPUS, _MEMORY, _PODS = 96_000, 256 << 30, 110
"""Of a node that does not say; bytes."""


class GeneratedNodes(NamedTuple):
    """Where the workloads run."""

    flavors: tuple[ResourceFlavor, ...]
    """One."""
    topologies: Mapping[str, tuple[str, ...]] = {}
    nodes: NodeTable | None = None
    """None: only quotas count."""


def read_nodes(whole: Part, where: str) -> GeneratedNodes:
    """Return the nodes of a generator file; raise InputError for a topology that is none."""
    own = whole.part("resourceFlavor")
    name, label, topology = own.text("name", _FLAVOR), own.text("nodeLabel"), own.text("topologyName")
    own.close()
    labels = {label: _GROUP} if label and topology else {}
    flavor = ResourceFlavor(name, labels, topology=topology)
    if not whole.has("topology"):
        return GeneratedNodes((flavor._replace(topology=""),))
    before = len(whole.problems)
    part = whole.part("topology")
    title = named(part)
    levels = [_level(one) for one in part.parts("levels")]
    part.close()
    if len(levels) < 2:
        part.problems.append("topology.levels: there must be two or more")
    nodes = 1
    for level, _ in levels:
        nodes *= level.size
    if nodes > MOST_NODES:
        part.problems.append(f"topology.levels: more than {MOST_NODES} nodes: {nodes}")
    if not topology or not label:
        part.problems.append("resourceFlavor: with a topology it has a nodeLabel and a topologyName")
    elif title != topology:
        part.problems.append(f"resourceFlavor.topologyName: there is none but {title!r}: {topology!r}")
    if len(whole.problems) > before:
        raise InputError(where, "; ".join(whole.problems[before:]))
    fleet = fleet_of(title, [level for level, _ in levels], [(Make(name, levels[-1][1], labels), nodes)])
    return GeneratedNodes((flavor,), fleet.topologies, fleet.nodes)


def _level(one: Part) -> tuple[Level, Room]:
    lacks(one, "count")
    capacity = one.part("capacity")
    cpus, memory = capacity.quantity("cpu", parse_milli), capacity.quantity("memory", parse_bytes)
    capacity.close()
    found = Level(named(one), within(one, "count", 1, MOST_NODES), named(one, "nodeLabel"))
    one.close()
    room = Room(_MILLI_CPUS if cpus is None else cpus, _MEMORY if memory is None else memory, _PODS, 0)
    return found, room

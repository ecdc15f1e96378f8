"""The nodes, the topology and the flavor of a generator file (runner/generator/topology_generator.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.quantity import parse_milli_value, parse_value
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.fleet_levels import MAX_NODES, Level, NodeGroup, build_fleet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable

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
    nodes: NodeInfoTable | None = None
    """None: only quotas count."""


def read_generated_nodes(whole: FieldReader, where: str) -> GeneratedNodes:
    """Return the nodes of a generator file; raise InputError for a topology that is none."""
    own = whole.child("resourceFlavor")
    name, label, topology = own.text("name", _FLAVOR), own.text("nodeLabel"), own.text("topologyName")
    own.report_unknown()
    labels = {label: _GROUP} if label and topology else {}
    flavor = ResourceFlavor(name, labels, topology_name=topology)
    if not whole.has("topology"):
        return GeneratedNodes((flavor._replace(topology_name=""),))
    before = len(whole.problems)
    part = whole.child("topology")
    title = part.required_name()
    levels = [_level(one) for one in part.children("levels")]
    part.report_unknown()
    if len(levels) < 2:
        part.problems.append("topology.levels: there must be two or more")
    nodes = 1
    for level, _ in levels:
        nodes *= level.size
    if nodes > MAX_NODES:
        part.problems.append(f"topology.levels: more than {MAX_NODES} nodes: {nodes}")
    if not topology or not label:
        part.problems.append("resourceFlavor: with a topology it has a nodeLabel and a topologyName")
    elif title != topology:
        part.problems.append(f"resourceFlavor.topologyName: there is none but {title!r}: {topology!r}")
    if len(whole.problems) > before:
        raise InputError(where, "; ".join(whole.problems[before:]))
    fleet = build_fleet(title, [level for level, _ in levels], [(NodeGroup(name, levels[-1][1], labels), nodes)])
    return GeneratedNodes((flavor,), fleet.topologies, fleet.nodes)


def _level(one: FieldReader) -> tuple[Level, Resource]:
    one.report_missing("count")
    capacity = one.child("capacity")
    cpus, memory = capacity.quantity("cpu", parse_milli_value), capacity.quantity("memory", parse_value)
    capacity.report_unknown()
    found = Level(one.required_name(), one.int_in_range("count", 1, MAX_NODES), one.required_name("nodeLabel"))
    one.report_unknown()
    room = Resource(_MILLI_CPUS if cpus is None else cpus, _MEMORY if memory is None else memory, _PODS, 0)
    return found, room

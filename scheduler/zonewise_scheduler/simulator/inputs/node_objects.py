"""Nodes as they are: from NodeResourceTopology objects, and from v1.Node objects where there are some.

Of a node with a report its zones are kept, as they are when nothing runs. What a node has in all is told by its
v1.Node, and else is the sum of its zones. Nodes of several kinds make up one flavor: each pod looks for its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.report.nrt_object import read_nrt_object
from zonewise_scheduler.admission.resource_names import CPU, MEMORY, is_compute
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.fleet_file import DEFAULT_MAX_PODS
from zonewise_scheduler.simulator.inputs.fleet_levels import UNSPECIFIED, total_capacity
from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.simulator.inputs.documents import Document

NODES_FLAVOR = "nodes"
"""The name of the flavor, and of its Topology."""

_LEVELS = (
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    "topology.k8s.aws/network-node-layer-1",
    "topology.k8s.aws/network-node-layer-2",
    "topology.k8s.aws/network-node-layer-3",
    "cloud.provider.com/topology-block",
    "cloud.provider.com/topology-rack",
)
"""Labels of nodes that tell how close they are, from the widest on: Kubernetes' own (k8s.io/api/core/v1
well_known_labels.go), Google's, Amazon's, and those of Kueue's examples."""


class _Node(NamedTuple):
    info: NodeInfo
    state: NodeState | None


def fleet_from_reports(reports: Iterable[Document], nodes: Iterable[Document] = ()) -> Fleet:
    """Return the nodes of such objects, by name; those of which nothing can be told are left out, and told."""
    problems: list[str] = []
    found: dict[str, _Node] = {}
    for one in nodes:
        _add(found, one.content, None, one.where, problems)
    kinds = KindInterner()
    for one in reports:
        _add_report(found, one, kinds, problems)
    infos = [found[name].info for name in sorted(found)]
    states = {name: one.state for name, one in found.items() if one.state is not None}
    return Fleet(
        NODES_FLAVOR,
        NodeInfoTable(infos),
        {NODES_FLAVOR: (*_levels(infos), HOSTNAME)},
        (ResourceFlavor(NODES_FLAVOR, topology_name=NODES_FLAVOR),),
        {NODES_FLAVOR: total_capacity((info.allocatable, 1) for info in infos)},
        states,
        tuple(problems),
    )


def _add_report(found: dict[str, _Node], one: Document, kinds: KindInterner, problems: list[str]) -> None:
    report = read_nrt(one.content, kinds)
    told = f"{one.where}: NodeResourceTopology {report.node}"
    problems += [f"{told}: {problem}" for problem in report.problems]
    state = None if report.state is None else idle_node(report.state.kind)
    if not report.node:
        return
    if report.node in found:
        if found[report.node].state is not None:
            problems.append(f"{told}: there is one of that name already: the first is taken")
        else:
            found[report.node] = found[report.node]._replace(state=state)
        return
    allocatable = _allocatable(one.content, state)
    if CPU not in allocatable:
        problems.append(f"{told}: no zone tells how many CPUs it has")
        return
    metadata: Mapping[str, Any] = one.content.get("metadata") or {}
    amounts = {name: str(amount) for name, amount in allocatable.items()}
    node = {
        "metadata": {"name": report.node, "labels": metadata.get("labels")},
        "status": {"allocatable": {**amounts, "pods": str(DEFAULT_MAX_PODS)}},
    }
    _add(found, node, state, told, problems)
    added = found.get(report.node)
    if added is not None:
        room = added.info.allocatable
        room = room._replace(
            memory=room.memory if MEMORY in allocatable else UNSPECIFIED, ephemeral_storage=UNSPECIFIED
        )
        found[report.node] = added._replace(info=added.info._replace(allocatable=room))


def _add(
    found: dict[str, _Node], node: Mapping[str, Any], state: NodeState | None, where: str, problems: list[str]
) -> None:
    try:
        info = read_node_info(node)
    except FieldError as error:
        problems.append(f"{where}: {error}")
        return
    labels = info.labels
    if not info.name:
        problems.append(f"{where}: metadata.name: there is none")
    elif info.name in found:
        problems.append(f"{where}: Node {info.name}: there is one of that name already: the first is taken")
    elif info.label(HOSTNAME) is None:  # the kubelet sets it; a report may not repeat it
        named = tuple(sorted((*labels.named, HOSTNAME)))
        found[info.name] = _Node(info._replace(labels=labels._replace(named=named)), state)
    else:
        found[info.name] = _Node(info, state)


def _allocatable(nrt: Mapping[str, Any], state: NodeState | None) -> dict[str, int]:
    """Return what all zones have; devices that are close to several zones, or to none, once."""
    found: dict[str, int] = {}
    for zone in read_nrt_object(nrt).zones:
        for name, count in zone.counts.items():
            if state is None or is_compute(name):
                found[name] = found.get(name, 0) + count.allocatable
    for one in state.kind.devices if state is not None else ():
        found[one.resource] = found.get(one.resource, 0) + one.healthy
    return found


def _levels(infos: Iterable[NodeInfo]) -> list[str]:
    """Return the levels that each node has a label of."""
    some = list(infos)
    return [key for key in _LEVELS if some and all(info.label(key) is not None for info in some)]

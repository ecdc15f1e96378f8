"""Reads the nodes of a cluster from NodeResourceTopology objects, and from v1.Node objects if there are any.

A node with a report has its zones, in their idle state. Its capacity is that of the v1.Node, or else the sum of its
zones. All nodes share one flavor, so each pod must select its nodes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, string_in, string_map_in
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_facts import with_node_facts
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.report.nrt_object import read_nrt_object
from zonewise_scheduler.admission.resource_names import CPU, MEMORY, is_compute
from zonewise_scheduler.fabric.node_labels import LABEL_PREFIX as FABRIC_LABEL_PREFIX
from zonewise_scheduler.fabric.node_labels import MAX_LEVELS
from zonewise_scheduler.nodes.devices.provided_devices import with_devices
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import kubelet_facts, read_node_info, with_name_label
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.fleet_file import DEFAULT_MAX_PODS
from zonewise_scheduler.simulator.inputs.fleet_levels import UNSPECIFIED, total_capacity
from zonewise_scheduler.simulator.inputs.job_objects import object_label
from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.devices.provided_devices import ProvidedDevices
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.simulator.inputs.documents import Document, Json

NODES_FLAVOR = "nodes"
"""Name of the flavor and of its Topology."""

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
    *(f"{FABRIC_LABEL_PREFIX}{level}" for level in reversed(range(MAX_LEVELS))),
)
"""Topology labels of nodes, widest level first: those of Kubernetes (k8s.io/api/core/v1 well_known_labels.go), Google,
Amazon, Kueue's examples and `zonewise fabric`."""


class _Node(NamedTuple):
    info: NodeInfo
    state: NodeState | None


def fleet_from_reports(
    reports: Iterable[Document], nodes: Iterable[Document] = (), devices: ProvidedDevices | None = None
) -> Fleet:
    """Return the nodes of these objects by name, with the devices that they provide; None: unknown.

    Nodes with unknown CPUs are left out as problems.
    """
    problems: list[str] = []
    nodes_by_name: dict[str, _Node] = {}
    for document in nodes:
        node = document.content if devices is None else _with_devices(document, devices, problems)
        _add(nodes_by_name, node, None, document.where, problems)
    kinds = KindInterner()
    for document in reports:
        _add_report(nodes_by_name, document, kinds, problems)
    infos = [nodes_by_name[name].info for name in sorted(nodes_by_name)]
    states = {name: document.state for name, document in nodes_by_name.items() if document.state is not None}
    return Fleet(
        NODES_FLAVOR,
        NodeInfoTable(infos),
        {NODES_FLAVOR: (*_levels(infos), HOSTNAME)},
        (ResourceFlavor(NODES_FLAVOR, topology_name=NODES_FLAVOR),),
        {NODES_FLAVOR: total_capacity((info.allocatable, 1) for info in infos)},
        states,
        devices is not None,
        tuple(problems),
    )


def _with_devices(document: Document, devices: ProvidedDevices, problems: list[str]) -> Json:
    """Return a v1.Node with the devices that it provides."""
    node = document.content
    try:
        metadata = object_in(node, "metadata", "")
        name = string_in(metadata, "name", "metadata.")
        labels = dict(string_map_in(metadata, "labels", "metadata."))
        return with_devices(node, devices.counts(name, labels)) if devices.may_provide(name) else node
    except ValueError as error:
        problems.append(f"{object_label(document)}: its devices do not count: {error}")
        return node


def _add_report(nodes: dict[str, _Node], document: Document, kinds: KindInterner, problems: list[str]) -> None:
    report = read_nrt(document.content, kinds)
    label = f"{document.where}: NodeResourceTopology {report.node}"
    problems += [f"{label}: {problem}" for problem in report.problems]
    if not report.node:
        return
    node_info = nodes[report.node].info if report.node in nodes else None
    state = report.state
    if state is not None:
        state = idle_node(with_node_facts(state, kubelet_facts(node_info), kinds).kind)
    if report.node in nodes:
        if nodes[report.node].state is not None:
            problems.append(f"{label}: duplicate name: the first one counts")
        else:
            nodes[report.node] = nodes[report.node]._replace(state=state)
        return
    allocatable = _allocatable(document.content, state)
    if CPU not in allocatable:
        problems.append(f"{label}: no zone has a number of CPUs")
        return
    metadata: Mapping[str, Any] = document.content.get("metadata") or {}
    quantities = {name: str(amount) for name, amount in allocatable.items()}
    node = {
        "metadata": {"name": report.node, "labels": metadata.get("labels")},
        "status": {"allocatable": {**quantities, "pods": str(DEFAULT_MAX_PODS)}},
    }
    _add(nodes, node, state, label, problems)
    entry = nodes.get(report.node)
    if entry is not None:
        resources = entry.info.allocatable
        resources = resources._replace(
            memory=resources.memory if MEMORY in allocatable else UNSPECIFIED, ephemeral_storage=UNSPECIFIED
        )
        nodes[report.node] = entry._replace(info=entry.info._replace(allocatable=resources))


def _add(
    nodes: dict[str, _Node], node: Mapping[str, Any], state: NodeState | None, where: str, problems: list[str]
) -> None:
    try:
        info = read_node_info(node)
    except FieldError as error:
        problems.append(f"{where}: {error}")
        return
    if not info.name:
        problems.append(f"{where}: metadata.name: is missing")
    elif info.name in nodes:
        problems.append(f"{where}: Node {info.name}: duplicate name: the first one counts")
    else:  # the kubelet sets the label on the Node; a report may lack it
        nodes[info.name] = _Node(with_name_label(info, HOSTNAME), state)


def _allocatable(nrt: Mapping[str, Any], state: NodeState | None) -> dict[str, int]:
    """Return the total of all zones; a device that is close to several zones or to none counts once."""
    totals: dict[str, int] = {}
    for zone in read_nrt_object(nrt).zones:
        for name, count in zone.resources.items():
            if state is None or is_compute(name):
                totals[name] = totals.get(name, 0) + count.allocatable
    for devices in state.kind.devices if state is not None else ():
        totals[devices.resource] = totals.get(devices.resource, 0) + devices.healthy
    return totals


def _levels(infos: Iterable[NodeInfo]) -> list[str]:
    """Return the levels whose label is on every node."""
    nodes = list(infos)
    return [key for key in _LEVELS if nodes and all(info.label(key) is not None for info in nodes)]

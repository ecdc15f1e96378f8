"""The nodes of a cluster, with their reports and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from zonewise_scheduler.client.cluster.session import metadata_pairs
from zonewise_scheduler.client.jobs.pod_facts import read_pod_facts
from zonewise_scheduler.client.nodes.class_devices import read_cluster_devices
from zonewise_scheduler.client.nodes.node_facts import read_node_facts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.session import Json, Session
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts
    from zonewise_scheduler.client.nodes.class_devices import ClusterDevices
    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability


def read_nodes(
    session: Session, names: Collection[str] = (), selector: str = ""
) -> tuple[list[NodeAvailability], list[str]]:
    """Return nodes by name, and sentences about missing data; `names` limits the nodes. Raises KubeError."""
    notes: list[str] = []
    objects = [node for node in session.list(NODES, label_selector=selector) if not names or _name(node) in names]
    reports = _listed(session, notes, NODE_RESOURCE_TOPOLOGIES, "zones of nodes")
    by_node = {_name(report): report for report in reports or ()}
    problems: list[str] = []
    field_selector = f"spec.nodeName={next(iter(names))}" if len(names) == 1 else ""
    pods = _listed(session, notes, PODS, "requests of pods", field_selector)
    pods_by_node: dict[str, list[PodFacts]] = {}
    for pod in (read_pod_facts(obj, problems) for obj in pods or ()):
        pods_by_node.setdefault(pod.node, []).append(pod)
    nodes = [
        read_node_facts(name, node, by_node.get(name), None if pods is None else pods_by_node.get(name, ()), problems)
        for name, node in sorted((_name(node), node) for node in objects)
    ]
    devices = read_cluster_devices(session, notes)
    if devices is not None:
        labels = {_name(node): metadata_pairs(node, "labels") for node in objects}
        nodes = [_with_devices(node, devices, labels[node.name], problems) for node in nodes]
    if nodes and reports is not None and all(node.zones is None for node in nodes):
        notes.append("Zones are missing: no node has a NodeResourceTopology. Check that the agent runs.")
    return nodes, [*notes, *problems]


def _with_devices(
    node: NodeAvailability, devices: ClusterDevices, labels: Mapping[str, str], problems: list[str]
) -> NodeAvailability:
    try:
        return devices.on_node(node, labels)
    except ValueError as error:
        problems.append(f"{node.name}: its devices are unknown: {error}")
        return node


def _listed(
    session: Session, notes: list[str], resource: Resource, facts: str, field_selector: str = ""
) -> list[Json] | None:
    """Return the objects of a kind; None and a note if the user may not list them."""
    try:
        return session.list(resource, field_selector=field_selector)
    except Forbidden as error:
        notes.append(f"The {facts} are unknown: {error.message}")
        return None


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])

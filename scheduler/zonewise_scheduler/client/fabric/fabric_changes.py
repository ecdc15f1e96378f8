"""How the labels of nodes change so that they describe the fabric: first as values, then as writes.

Each node is applied with its UID, so the API server rejects the write if the node has been deleted since it was read. A
label that another field manager has set to a different value is a conflict, which only `force` overrides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.client import object_name
from zonewise_common.kube.errors import Conflict, Invalid, NotFound
from zonewise_common.kube.resources import NODES, TOPOLOGIES
from zonewise_scheduler.client.fabric.fabric_nodes import FIELD_MANAGER
from zonewise_scheduler.client.fabric.fabric_objects import node_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.client.cluster.session import Json, Session
    from zonewise_scheduler.client.fabric.fabric_nodes import LabelledNode


class LabelChange(NamedTuple):
    """A change of one node."""

    node: str
    uid: str
    labels: Mapping[str, str]
    """All labels that the node gets. Other labels of ours are removed."""
    parts: tuple[str, ...]
    """Each label that changes, for people: "zonewise.dev/fabric-tier-0=leaf2 (was leaf1)"."""


class FabricChanges(NamedTuple):
    """The changes, and what remains although the files do not confirm it."""

    changes: tuple[LabelChange, ...]
    unconfirmed: tuple[str, ...]
    """Nodes that retain labels of ours although they are not in the files."""


def label_changes(
    nodes: Iterable[LabelledNode], desired: Mapping[str, Mapping[str, str]], *, prune: bool
) -> FabricChanges:
    """Return the changes of all nodes.

    A node that is not in the files may only be switched off, so it retains its labels unless `prune` is set.
    """
    changes: list[LabelChange] = []
    unconfirmed: list[str] = []
    for node in nodes:
        labels = desired.get(node.names.name)
        if labels is None and not prune:
            unconfirmed += [node.names.name] if node.owned else []
            continue
        parts = tuple(_parts(node, labels or {}))
        if parts:
            changes.append(LabelChange(node.names.name, node.uid, labels or {}, parts))
    return FabricChanges(tuple(changes), tuple(unconfirmed))


def _parts(node: LabelledNode, labels: Mapping[str, str]) -> Iterable[str]:
    for name, value in sorted(labels.items()):
        old = node.labels.get(name)
        if old is None:
            yield f"{name}={value}"
        elif old != value:
            yield f"{name}={value} (was {old})"
        elif name not in node.owned:
            yield f"{name}={value} (also set by another manager)"
    for name in sorted(node.owned - labels.keys()):
        yield f"{name} removed"


def apply_labels(session: Session, change: LabelChange, *, force: bool) -> str:
    """Apply a change; return why it is not possible, "" after success. Raises KubeError."""
    body = node_object(change.node, change.labels, change.uid)
    try:
        session.client.apply(NODES, body, field_manager=FIELD_MANAGER, force=force)
    except Conflict as error:
        advice = "" if "uid" in error.message.lower() else "; --force takes the labels over"
        return f"node {change.node}: {error.message}{advice}"
    return ""


def topology_change(session: Session, topology: Json) -> str | None:
    """Return the change of a Topology for people; None if the cluster does not serve the kind. Raises KubeError.

    The text is "" if the Topology is as desired.
    """
    name = topology["metadata"]["name"]
    try:
        topologies = session.client.list(TOPOLOGIES).items
    except NotFound:
        return None
    old = next((item for item in topologies if object_name(item) == name), None)
    if old is None:
        return f"topology/{name} created"
    return "" if old.get("spec") == topology["spec"] else f"topology/{name} changed"


def apply_topology(session: Session, topology: Json, *, force: bool) -> str:
    """Apply a Topology; return why it is not possible, "" after success. Raises KubeError."""
    name = topology["metadata"]["name"]
    try:
        session.client.apply(TOPOLOGIES, topology, field_manager=FIELD_MANAGER, force=force)
    except Conflict as error:
        return f"topology {name}: {error.message}; --force takes it over, and --name NAME creates another one"
    except Invalid as error:
        return f"topology {name}: {error.message}; delete it, or use --name NAME for another one"
    return ""

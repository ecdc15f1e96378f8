"""The nodes of a cluster as `zonewise fabric` needs them: their names, GUIDs and labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.errors import Forbidden
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_common.nrt.attributes import read_attributes
from zonewise_common.nrt.names import NODE_GUIDS
from zonewise_scheduler.fabric.matching import NodeNames
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.client.cluster.session import Json, Session

FIELD_MANAGER = "zonewise-fabric"
_NAME_TYPES = ("Hostname", "InternalDNS", "ExternalDNS")


class LabelledNode(NamedTuple):
    """A node with its labels."""

    names: NodeNames
    uid: str
    labels: Mapping[str, str]
    owned: frozenset[str]
    """Names of the labels that FIELD_MANAGER has applied."""


def read_labelled_nodes(session: Session) -> tuple[list[LabelledNode], list[str]]:
    """Return the nodes by name, and sentences about missing data. Raises KubeError."""
    notes: list[str] = []
    guids: dict[str, frozenset[str]] = {}
    try:
        guids = dict(session.read(NODE_RESOURCE_TOPOLOGIES, read_guids))
    except Forbidden as error:
        notes.append(f"GUIDs of HCAs are unknown, so hosts are matched by name only: {error.message}")
    nodes = session.read(NODES, read_labelled_node)
    named = (node._replace(names=node.names._replace(guids=guids.get(node.names.name, frozenset()))) for node in nodes)
    return sorted(named), notes


def read_labelled_node(node: Json) -> LabelledNode:
    """Return the names and labels of a Node; damaged fields count as absent."""
    reader = FieldReader(node, "", [])
    metadata = reader.child("metadata")
    labels = metadata.pairs("labels")
    addresses = reader.child("status").children("addresses")
    aliases = {entry.text("address") for entry in addresses if entry.text("type") in _NAME_TYPES}
    names = NodeNames(
        metadata.text("name"), frozenset(alias.lower() for alias in {*aliases, labels.get(HOSTNAME, "")} if alias)
    )
    return LabelledNode(names, metadata.text("uid"), labels, _owned_labels(metadata.children("managedFields")))


def _owned_labels(entries: Iterable[FieldReader]) -> frozenset[str]:
    """Return the labels that our last apply set (KEP-555: fieldsV1 has a key "f:NAME" for each field)."""
    owned: set[str] = set()
    for entry in entries:
        if entry.text("manager") == FIELD_MANAGER and entry.text("operation") == "Apply":
            fields = entry.child("fieldsV1").child("f:metadata").child("f:labels").obj
            owned.update(name.removeprefix("f:") for name in fields if name.startswith("f:"))
    return frozenset(owned)


def read_guids(report: Json) -> tuple[str, frozenset[str]]:
    """Return the node of a report, and the node GUIDs of its HCAs as 16 hexadecimal digits."""
    text = read_attributes(report, "", []).get(NODE_GUIDS, "")
    name = FieldReader(report, "", []).child("metadata").text("name")
    return name, frozenset(guid for guid in text.split(",") if guid)

"""The patch that sets our labels on a Node, and removes those that are no longer desired: a pure function.

Invariant: labels of others are never touched, and none of ours is left behind.

1. Our labels are those that the annotation names. One patch writes both, so neither a restart nor a crash separates
   them.
2. A label that is present and not in the annotation belongs to another manager, even if its value is the desired one.
3. A label in the annotation of another instance is that agent's. Two agents on one node need different instances.
4. A label that Node Feature Discovery's master claims in its own annotation is the master's, even if we set it before.
   So the two do not overwrite each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.objects.labels import is_allowed_label
from zonewise.objects.nfd_labels import PREFIX as NFD

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION = "zonewise.dev/labels"
"""The names of the labels that we set on a Node, sorted and separated by commas. A named instance is behind a dot."""

_NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"
"""The same of NFD's master; a named instance prefixes it with its name (nfd-master -instance)."""

Object = dict[str, Any]


class NodeLabelsPatch(NamedTuple):
    """The patch, and the conflicts."""

    body: Object
    """A JSON merge patch (RFC 7386); empty where the Node is as desired."""
    problems: tuple[str, ...] = ()
    """Desired labels that another manager has set otherwise; each a sentence."""
    owned: int = 0
    """How many labels are ours after the patch."""


def node_labels_patch(desired: Mapping[str, str], metadata: Mapping[str, Any], instance: str = "") -> NodeLabelsPatch:
    """Return the patch that makes the labels of a Node with the given metadata the desired ones.

    It holds the resource version, so that the server rejects it (Conflict) where the Node has changed meanwhile.
    """
    labels: Mapping[str, str] = metadata.get("labels") or {}
    ours = owned_labels(metadata, instance)
    claimed = claimed_by_nfd(metadata) | _claimed_by_instances(metadata, instance)
    changes: dict[str, str | None] = dict.fromkeys(sorted(ours & labels.keys() - desired.keys()))
    owned: list[str] = []
    problems: list[str] = []
    for name, value in sorted(desired.items()):
        current = labels.get(name)
        if name in ours or (current is None and name not in claimed):
            owned.append(name)
            if current != value:
                changes[name] = value
        elif current is not None and current != value:
            manager = field_manager(name, metadata) or "another manager"
            problems.append(f"label {name} is {current!r} by {manager}, and not set to {value!r}")
    return NodeLabelsPatch(
        _body(changes, ",".join(owned), metadata, _record_name(instance)), tuple(problems), len(owned)
    )


def owned_labels(metadata: Mapping[str, Any], instance: str = "") -> frozenset[str]:
    """Return the names of the labels on a Node that are ours."""
    listed = frozenset(_annotations(metadata).get(_record_name(instance), "").split(","))
    # an edited annotation cannot make us remove labels that we would never set
    return frozenset(name for name in listed if is_allowed_label(name)) - claimed_by_nfd(metadata)


def _record_name(instance: str) -> str:
    return f"{ANNOTATION}.{instance}" if instance else ANNOTATION


def _claimed_by_instances(metadata: Mapping[str, Any], instance: str) -> frozenset[str]:
    """Return the names of labels that agents of other instances have set."""
    records = {
        key: text
        for key, text in _annotations(metadata).items()
        if (key == ANNOTATION or key.startswith(f"{ANNOTATION}.")) and key != _record_name(instance)
    }
    return frozenset(name for text in records.values() for name in text.split(","))


def claimed_by_nfd(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the labels that masters of Node Feature Discovery have set."""
    names = (
        name
        for key, text in _annotations(metadata).items()
        if key == _NFD_ANNOTATION or key.endswith(f".{_NFD_ANNOTATION}")
        for name in text.split(",")
        if name
    )
    # the master writes names without its default namespace (nfd-master.go, createPatches)
    return frozenset(name if "/" in name else f"{NFD}/{name}" for name in names)


def field_manager(label: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the field manager that owns a label; None where the server does not record it.

    A Node has managed fields from its first server-side apply on.
    """
    for entry in metadata.get("managedFields") or ():
        fields = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{label}" in fields:
            return str(entry.get("manager", "")) or None
    return None


def _annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("annotations") or {}


def _body(changes: dict[str, str | None], record: str, metadata: Mapping[str, Any], record_name: str) -> Object:
    fields: Object = {}
    if changes:
        fields["labels"] = changes
    if record != _annotations(metadata).get(record_name, ""):
        fields["annotations"] = {record_name: record or None}
    if not fields:
        return {}
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], **fields}}

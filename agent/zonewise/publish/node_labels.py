"""The patch that gives a Node our labels, and takes away those that we no longer want: a function of both.

Ours are the labels that the annotation names; it is written by the same patch, so that neither a restart nor a crash
leaves any behind. Labels of others are never touched: one that is there and not in the annotation is somebody's, even
where its value is the one that we want; and so is one that Node Feature Discovery's master claims in its own
annotation, so that there is no quarrel over labels that we set before it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.objects.labels import is_allowed_label
from zonewise.objects.nfd_labels import PREFIX as NFD

if TYPE_CHECKING:
    from collections.abc import Mapping

ANNOTATION = "zonewise.dev/labels"
"""The names of the labels that we set on a Node, sorted and parted by commas."""

_NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"
"""The same of NFD's master; one with a name of its own has that in front (nfd-master -instance)."""

Object = dict[str, Any]


class NodeLabelsPatch(NamedTuple):
    """What to send."""

    body: Object
    """A JSON merge patch (RFC 7386); empty where the Node is as it should be."""
    problems: tuple[str, ...] = ()
    """Labels that we want and somebody else has set otherwise; each a sentence."""


def node_labels_patch(desired: Mapping[str, str], metadata: Mapping[str, Any]) -> NodeLabelsPatch:
    """Return the patch that makes the labels of a Node, of which the metadata are given, those wanted.

    It holds the resource version, so that the server refuses it (Conflict) where the Node has changed meanwhile.
    """
    labels: Mapping[str, str] = metadata.get("labels") or {}
    claimed, ours = claimed_by_nfd(metadata), owned_labels(metadata)
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
            manager = field_manager(name, metadata) or "somebody else"
            problems.append(f"label {name} is {current!r} by {manager}, and not set to {value!r}")
    return NodeLabelsPatch(_body(changes, ",".join(owned), metadata), tuple(problems))


def owned_labels(metadata: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the labels on a Node that are ours."""
    listed = frozenset(_annotations(metadata).get(ANNOTATION, "").split(","))
    # whoever can edit the annotation cannot make us remove what we would never set
    return frozenset(name for name in listed if is_allowed_label(name)) - claimed_by_nfd(metadata)


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
    """Return the field manager that owns a label; None where the server does not say.

    Of a Node it keeps track from the first server-side apply on only.
    """
    for entry in metadata.get("managedFields") or ():
        fields = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{label}" in fields:
            return str(entry.get("manager", "")) or None
    return None


def _annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("annotations") or {}


def _body(changes: dict[str, str | None], record: str, metadata: Mapping[str, Any]) -> Object:
    fields: Object = {}
    if changes:
        fields["labels"] = changes
    if record != _annotations(metadata).get(ANNOTATION, ""):
        fields["annotations"] = {ANNOTATION: record or None}
    if not fields:
        return {}
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], **fields}}

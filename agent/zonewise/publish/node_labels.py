"""The patch that sets our labels on a Node and removes those that are no longer desired: a pure function.

Invariant: labels of others are never touched, and none of ours is left behind.

1. Our labels are those that the annotation names. One patch writes both, so neither a restart nor a crash separates
   them.
2. A label that is present and not in the annotation belongs to another manager, even if its value is the desired one.
3. A label in the annotation of another instance is that agent's. Two agents on one node need different instances.
4. A label that Node Feature Discovery's master claims in its own annotation is the master's, even if we set it before.
   So the two do not overwrite each other.
5. On request, desired labels that NFD, GFD or a vendor's labeller has left behind become ours. The same patch removes
   their names from NFD's annotation, so a restarted master cannot remove them as its own.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.objects.labels import is_allowed_label
from zonewise.objects.nfd_labels import PREFIX as NFD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

ANNOTATION = "zonewise.dev/labels"
"""The names of the labels that we set on a Node, sorted and separated by commas. A named instance is appended after a
dot."""

_NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"
"""The corresponding annotation of NFD's master; a named instance prefixes it with its name (nfd-master -instance)."""

_LABELLER_PREFIXES = (f"{NFD}/", "nvidia.com/", "amd.com/")
_LABELLER = re.compile(r"nfd|node-feature-discovery|gpu-feature-discovery|node-labell?er")
"""Field managers of labellers: nfd-master, gpu-feature-discovery, AMD's k8s-node-labeller."""

Object = dict[str, Any]


class NodeLabelsPatch(NamedTuple):
    """The patch, with the conflicts."""

    body: Object
    """A JSON merge patch (RFC 7386); empty if the Node is as desired."""
    problems: tuple[str, ...] = ()
    """Desired labels that another manager has set to other values; each is a sentence."""
    owned: int = 0
    """Number of labels that are ours after the patch."""
    adopted: Mapping[str, str] = MappingProxyType({})
    """Labels that become ours by this patch: name -> who had set it."""


def node_labels_patch(
    desired: Mapping[str, str],
    metadata: Mapping[str, Any],
    instance: str = "",
    *,
    take_over: Callable[[str], bool] = lambda _name: False,
) -> NodeLabelsPatch:
    """Return the patch that makes the labels of a Node with the given metadata the desired ones.

    It contains the resource version, so that the server rejects it (Conflict) if the Node has changed meanwhile. Labels
    left behind by NFD, GFD or a vendor's labeller become ours if `take_over` accepts their names.
    """
    labels: Mapping[str, str] = metadata.get("labels") or {}
    others = _claimed_by_instances(metadata, instance)
    adopted = {
        name: manager
        for name in sorted(desired.keys() - owned_labels(metadata, instance) - others)
        if take_over(name) and (manager := _labeller(name, metadata)) is not None
    }
    ours = owned_labels(metadata, instance) | adopted.keys()
    claimed = (claimed_by_nfd(metadata) - adopted.keys()) | others
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
            problems.append(f"label {name} has the value {current!r} of {manager}, and is not set to {value!r}")
    records = {_record_name(instance): ",".join(owned), **_nfd_records(metadata, adopted)}
    return NodeLabelsPatch(_body(changes, records, metadata), tuple(problems), len(owned), adopted)


def owned_labels(metadata: Mapping[str, Any], instance: str = "") -> frozenset[str]:
    """Return the names of the labels on a Node that are ours."""
    listed = frozenset(_annotations(metadata).get(_record_name(instance), "").split(","))
    # an edited annotation cannot cause the removal of labels that we would never set
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
    return frozenset(_full_name(name) for text in _claims(metadata).values() for name in text.split(",") if name)


def _claims(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations in which masters claim labels; each instance has its own."""
    return {
        key: text
        for key, text in _annotations(metadata).items()
        if key == _NFD_ANNOTATION or key.endswith(f".{_NFD_ANNOTATION}")
    }


def _full_name(name: str) -> str:
    # the master writes names without its default namespace (nfd-master.go, createPatches)
    return name if "/" in name else f"{NFD}/{name}"


def _nfd_records(metadata: Mapping[str, Any], adopted: Collection[str]) -> dict[str, str]:
    """Return the annotations of NFD's masters without the labels that were taken over."""
    return {
        key: ",".join(name for name in text.split(",") if _full_name(name) not in adopted)
        for key, text in _claims(metadata).items()
    }


def _labeller(name: str, metadata: Mapping[str, Any]) -> str | None:
    """Return which labeller has left a label behind; None for a label that is absent or that others have set.

    If the server records no managers, there is no proof, and the label's name decides.
    """
    if name not in (metadata.get("labels") or {}) or not name.startswith(_LABELLER_PREFIXES):
        return None
    manager = field_manager(name, metadata)
    if name in claimed_by_nfd(metadata):
        return manager or "nfd-master"
    if manager is None:
        return "an unknown manager"
    return manager if _LABELLER.search(manager) else None


def field_manager(label: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the field manager that owns a label; None if the server does not record it.

    A Node has managed fields since its first server-side apply.
    """
    for entry in metadata.get("managedFields") or ():
        fields = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
        if f"f:{label}" in fields:
            return str(entry.get("manager", "")) or None
    return None


def _annotations(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("annotations") or {}


def _body(changes: dict[str, str | None], records: Mapping[str, str], metadata: Mapping[str, Any]) -> Object:
    fields: Object = {}
    if changes:
        fields["labels"] = changes
    before = _annotations(metadata)
    if annotations := {key: text or None for key, text in records.items() if text != before.get(key, "")}:
        fields["annotations"] = annotations
    if not fields:
        return {}
    return {"metadata": {"resourceVersion": metadata["resourceVersion"], **fields}}

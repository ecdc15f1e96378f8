"""Field management: who owns which field, what an apply changes, and with whom it conflicts.

The algorithm is that of sigs.k8s.io/structured-merge-diff (merge/update.go) under
k8s.io/apimachinery/pkg/util/managedfields/internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.fieldset import (
    NO_FIELDS,
    Changes,
    Fields,
    Path,
    ShapeError,
    compare,
    fields_below,
    from_tree,
    merge,
    path_text,
    remove_fields,
    to_field_set,
    to_tree,
    with_declared,
)
from zonewise_sandbox.apiserver.json_values import list_in
from zonewise_sandbox.apiserver.status_errors import apply_conflict

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.shapes import Shape


_NEVER_OWNED: tuple[Path, ...] = (
    ("f:apiVersion",),
    ("f:kind",),
    ("f:metadata", "f:name"),
    ("f:metadata", "f:namespace"),
    ("f:metadata", "f:creationTimestamp"),
    ("f:metadata", "f:selfLink"),
    ("f:metadata", "f:uid"),
    ("f:metadata", "f:clusterName"),
    ("f:metadata", "f:generation"),
    ("f:metadata", "f:managedFields"),
    ("f:metadata", "f:resourceVersion"),
    ("f:metadata", "f:deletionTimestamp"),
    ("f:metadata", "f:deletionGracePeriodSeconds"),
)
"""stripmeta.go; the deletion's fields are set by the server after it counted owners."""


class Manager(NamedTuple):
    """Who writes, and how."""

    name: str
    operation: str
    """Apply or Update."""
    api_version: str
    subresource: str = ""


class ManagedFields(NamedTuple):
    """What a manager owns, and since when."""

    fields: Fields
    time: str


ManagedFieldsByManager = dict[Manager, ManagedFields]


def decode_managed_fields(obj: Object) -> ManagedFieldsByManager:
    """Return who owns what of an object."""
    found: ManagedFieldsByManager = {}
    for entry in list_in(obj["metadata"], "managedFields"):
        if entry.get("manager"):
            who = Manager(entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
            found[who] = ManagedFields(from_tree(entry["fieldsV1"]), entry["time"])
    return found


def encode_managed_fields(owners: ManagedFieldsByManager) -> list[Object]:
    """Return managedFields: those who apply first, then by time and name."""
    order = sorted(owners, key=lambda who: (who.operation, owners[who].time, who.name, who.subresource))
    return [_entry(who, owners[who]) for who in order]


def _entry(who: Manager, owned: ManagedFields) -> Object:
    entry: Object = {
        "manager": who.name,
        "operation": who.operation,
        "apiVersion": who.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_tree(owned.fields),
    }
    return {**entry, "subresource": who.subresource} if who.subresource else entry


def update(
    old: Object, new: Object, shape: Shape, manager: Manager, now: str, foreign: tuple[Path, ...]
) -> list[Object]:
    """Return managedFields after a write that is no apply: the writer takes what it changed.

    `old` is empty at creation. `foreign` are the fields that this write cannot change, such as the status.
    """
    owners = decode_managed_fields(old) if old else {}
    try:
        changes = _owned_changes(old, new, shape, foreign)
    except ShapeError:  # an object with an item twice: lists of built-in kinds allow what apply cannot name
        return encode_managed_fields(owners)
    added = {path for path in changes.added if not shape.is_always_set(path[-1][2:])}
    touched = changes.modified | added
    owners = _taken(owners, manager, touched, changes.removed)
    before = owners.get(manager, ManagedFields(NO_FIELDS, now))
    fields = (before.fields - changes.removed) | touched
    owners[manager] = ManagedFields(fields, before.time if fields == before.fields else now)
    return encode_managed_fields({one: owned for one, owned in owners.items() if owned.fields})


def apply(
    live: Object,
    configuration: Object,
    shape: Shape,
    manager: Manager,
    now: str,
    foreign: tuple[Path, ...],
    *,
    force: bool,
) -> tuple[Object, list[Object]]:
    """Return the object after a server-side apply, and its managedFields.

    Raises Refusal, 409, where others own fields that would change and force is not given, and ShapeError.
    """
    owners = decode_managed_fields(live) if live else {}
    base = _without_managed(live)
    fields = _ownable(to_field_set(configuration, shape), foreign)
    last = owners.get(manager, ManagedFields(NO_FIELDS, now))
    owners[manager] = ManagedFields(fields, last.time if last.fields == fields else now)
    merged = merge(base, configuration, shape) if base else configuration
    if last.fields:
        merged = _pruned(merged, owners, last.fields, shape)
    changes = _owned_changes(base, merged, shape, foreign)
    touched = changes.added | changes.modified
    if not force:
        _refuse_conflicts(owners, manager, touched)
    owners = _taken(owners, manager, touched, changes.removed)
    return merged, encode_managed_fields({one: owned for one, owned in owners.items() if owned.fields})


def _owned_changes(old: Object, new: Object, shape: Shape, foreign: tuple[Path, ...]) -> Changes:
    found = compare(_without_managed(old), _without_managed(new), shape)
    return Changes(*(_ownable(fields, foreign) for fields in found))


def _without_managed(obj: Object) -> Object:
    if "managedFields" not in obj.get("metadata", {}):
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _ownable(fields: Fields, foreign: tuple[Path, ...]) -> Fields:
    kept = fields - fields_below(fields, (*_NEVER_OWNED, *foreign))
    return kept - {(), ("f:metadata",)}


def _taken(owners: ManagedFieldsByManager, who: Manager, touched: Fields, removed: Fields) -> ManagedFieldsByManager:
    """Return the owners after the writer took what it changed from all others."""
    gone = touched | removed
    return {one: owned if one == who else owned._replace(fields=owned.fields - gone) for one, owned in owners.items()}


def _refuse_conflicts(owners: ManagedFieldsByManager, who: Manager, touched: Fields) -> None:
    found: list[tuple[str, str]] = []
    for one in sorted(owners, key=lambda one: one.name):
        if one != who:
            found.extend((_named(one, owners[one]), path_text(path)) for path in sorted(owners[one].fields & touched))
    if found:
        raise apply_conflict(found)


def _named(who: Manager, owned: ManagedFields) -> str:
    """Return a manager as conflicts name it (conflict.go, printManager)."""
    told_as = f'"{who.name}"'
    if who.subresource:
        told_as += f' with subresource "{who.subresource}"'
    if who.operation == "Update":
        told_as += f" using {who.api_version} at {owned.time}" if owned.time else f" using {who.api_version}"
    return told_as


def _pruned(merged: Object, owners: ManagedFieldsByManager, last: Fields, shape: Shape) -> Object:
    """Return the object without what its applier applied last time, not this time, and nobody else owns."""
    last = with_declared(last, shape)
    present = with_declared(to_field_set(merged, shape), shape)
    pruned = remove_fields(merged, last, shape)
    left = with_declared(to_field_set(pruned, shape), shape)
    managed = with_declared(frozenset[Path]().union(*(owned.fields for owned in owners.values())), shape)
    pruned = remove_fields(merged, present - (left | managed), shape)
    left = with_declared(to_field_set(pruned, shape), shape)
    return remove_fields(merged, (present - left) & last, shape)

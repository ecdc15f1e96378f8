"""Field management: the owners of fields, and the changes and conflicts of an apply.

The algorithm is that of sigs.k8s.io/structured-merge-diff (merge/update.go) under
k8s.io/apimachinery/pkg/util/managedfields/internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import list_in
from zonewise_sandbox.apiserver.patches.fieldset import (
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
from zonewise_sandbox.apiserver.status_errors import apply_conflict

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object
    from zonewise_sandbox.apiserver.patches.shapes import Shape


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
"""stripmeta.go; the server sets the deletion fields after it has computed the owners."""


class Manager(NamedTuple):
    """A writer and the operation by which it writes."""

    name: str
    operation: str
    """Apply or Update."""
    api_version: str
    subresource: str = ""


class ManagedFields(NamedTuple):
    """The fields that a manager owns, and the time when it last changed them."""

    fields: Fields
    time: str


ManagedFieldsByManager = dict[Manager, ManagedFields]


def decode_managed_fields(obj: Object) -> ManagedFieldsByManager:
    """Return the managedFields of an object by manager."""
    managed: ManagedFieldsByManager = {}
    for entry in list_in(obj["metadata"], "managedFields"):
        if entry.get("manager"):
            manager = Manager(entry["manager"], entry["operation"], entry["apiVersion"], entry.get("subresource", ""))
            managed[manager] = ManagedFields(from_tree(entry["fieldsV1"]), entry["time"])
    return managed


def encode_managed_fields(owners: ManagedFieldsByManager) -> list[Object]:
    """Return managedFields sorted by appliers first, then by time and name."""
    order = sorted(owners, key=lambda writer: (writer.operation, owners[writer].time, writer.name, writer.subresource))
    return [_entry(manager, owners[manager]) for manager in order]


def _entry(manager: Manager, owned: ManagedFields) -> Object:
    entry: Object = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": owned.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_tree(owned.fields),
    }
    return {**entry, "subresource": manager.subresource} if manager.subresource else entry


def update(
    old: Object, new: Object, shape: Shape, manager: Manager, now: str, foreign: tuple[Path, ...]
) -> list[Object]:
    """Return managedFields after a write other than an apply: the writer becomes the owner of the changed fields.

    `old` is empty at creation. `foreign` are the fields that this write cannot change, such as the status.
    """
    owners = decode_managed_fields(old) if old else {}
    try:
        changes = _owned_changes(old, new, shape, foreign)
    except ShapeError:  # a list with a duplicate item: built-in kinds allow it, apply does not
        return encode_managed_fields(owners)
    added = {path for path in changes.added if not shape.is_always_set(path[-1][2:])}
    touched = changes.modified | added
    owners = _transferred(owners, manager, touched, changes.removed)
    before = owners.get(manager, ManagedFields(NO_FIELDS, now))
    fields = (before.fields - changes.removed) | touched
    owners[manager] = ManagedFields(fields, before.time if fields == before.fields else now)
    return encode_managed_fields({owner: owned for owner, owned in owners.items() if owned.fields})


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

    Raises ShapeError, and StatusError (409) if other managers own fields that would change and `force` is false.
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
        _check_conflicts(owners, manager, touched)
    owners = _transferred(owners, manager, touched, changes.removed)
    return merged, encode_managed_fields({owner: owned for owner, owned in owners.items() if owned.fields})


def _owned_changes(old: Object, new: Object, shape: Shape, foreign: tuple[Path, ...]) -> Changes:
    changes = compare(_without_managed(old), _without_managed(new), shape)
    return Changes(*(_ownable(fields, foreign) for fields in changes))


def _without_managed(obj: Object) -> Object:
    if "managedFields" not in obj.get("metadata", {}):
        return obj
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def _ownable(fields: Fields, foreign: tuple[Path, ...]) -> Fields:
    ownable = fields - fields_below(fields, (*_NEVER_OWNED, *foreign))
    return ownable - {(), ("f:metadata",)}


def _transferred(
    owners: ManagedFieldsByManager, manager: Manager, touched: Fields, removed: Fields
) -> ManagedFieldsByManager:
    """Return the owners after a writer has taken over the fields that it changed from all other managers."""
    changed = touched | removed
    return {
        owner: owned if owner == manager else owned._replace(fields=owned.fields - changed)
        for owner, owned in owners.items()
    }


def _check_conflicts(owners: ManagedFieldsByManager, manager: Manager, touched: Fields) -> None:
    conflicts: list[tuple[str, str]] = []
    for owner in sorted(owners, key=lambda owner: owner.name):
        if owner != manager:
            owned = owners[owner]
            conflicts.extend((_describe(owner, owned), path_text(path)) for path in sorted(owned.fields & touched))
    if conflicts:
        raise apply_conflict(conflicts)


def _describe(manager: Manager, owned: ManagedFields) -> str:
    """Return a manager's description for conflicts (conflict.go, printManager)."""
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version} at {owned.time}" if owned.time else f" using {manager.api_version}"
    return text


def _pruned(merged: Object, owners: ManagedFieldsByManager, last: Fields, shape: Shape) -> Object:
    """Return the object without fields that the manager's last apply set, this one omits and no other manager owns."""
    last = with_declared(last, shape)
    present = with_declared(to_field_set(merged, shape), shape)
    pruned = remove_fields(merged, last, shape)
    remaining = with_declared(to_field_set(pruned, shape), shape)
    managed = with_declared(frozenset[Path]().union(*(owned.fields for owned in owners.values())), shape)
    pruned = remove_fields(merged, present - (remaining | managed), shape)
    remaining = with_declared(to_field_set(pruned, shape), shape)
    return remove_fields(merged, (present - remaining) & last, shape)

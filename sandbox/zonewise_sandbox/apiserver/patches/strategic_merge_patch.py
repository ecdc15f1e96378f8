"""Strategic merge patch: a merge patch that merges lists by key.

The rules are those of k8s.io/apimachinery/pkg/util/strategicpatch:

- Items of a list with a key are merged one by one.
- `$patch: replace` and `$patch: delete` replace or delete the object or item that contains them.
- `$deleteFromPrimitiveList/x` removes values from a list of scalars.
- `$retainKeys` drops all other keys.
- `$setElementOrder/x` sets the order of items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import is_list, is_object, list_in
from zonewise_sandbox.apiserver.patches.merge_rules import merge_rule

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value

_DELETE = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


class StrategicPatchError(ValueError):
    """An invalid patch: an item without its key, an unknown directive."""


def strategic_merge_patch(kind: str, target: Object, patch: Object) -> Object:
    """Return the target with the patch applied; neither argument is changed. Raises StrategicPatchError."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in {None, "merge"}:
        raise StrategicPatchError(f"unknown patch type {directive!r}")
    merged = _retained(target, patch)
    for name, value in patch.items():
        if not name.startswith("$"):
            _merge_field(kind, merged, name, value)
    for name, values in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            merged[field] = [value for value in list_in(merged, field) if value not in values]
        elif name.startswith(_ORDER) and isinstance(merged.get(name.removeprefix(_ORDER)), list):
            field = name.removeprefix(_ORDER)
            merged[field] = _ordered(merged[field], values, merge_rule(kind, field).patch_key)
    return merged


def _retained(target: Object, patch: Object) -> Object:
    retained_keys = patch.get("$retainKeys")
    return {name: value for name, value in target.items() if retained_keys is None or name in retained_keys}


def _merge_field(kind: str, merged: Object, name: str, value: Value) -> None:
    if value is None:
        merged.pop(name, None)
    elif is_object(value):
        before = merged.get(name)
        merged[name] = strategic_merge_patch(kind, before if is_object(before) else {}, value)
    elif is_list(value):
        merged[name] = _merged_list(kind, name, list_in(merged, name), value)
    else:
        merged[name] = value


def _merged_list(kind: str, field: str, before: list[Value], patch: list[Value]) -> list[Value]:
    rule = merge_rule(kind, field)
    if rule.set:
        return before + [value for value in patch if value not in before]
    if not rule.patch_key:
        return patch
    if any(is_object(item) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    items = list(before)
    for change in patch:
        _merge_item(kind, items, change, rule.patch_key)
    return items


def _merge_item(kind: str, items: list[Value], change: Value, key: str) -> None:
    if not is_object(change) or key not in change:
        raise StrategicPatchError(f"map: {change} does not contain declared merge key: {key}")
    index = next((number for number, item in enumerate(items) if item.get(key) == change[key]), None)
    if change.get("$patch") == "delete":
        items[:] = [item for item in items if item.get(key) != change[key]]
    elif index is None:
        items.append(strategic_merge_patch(kind, {}, change))
    else:
        items[index] = strategic_merge_patch(kind, items[index], change)


def _ordered(items: list[Value], order: list[Value], key: str) -> list[Value]:
    """Return the items with those in `order` sorted by it; each of the others keeps its position."""
    ordered_keys = [entry.get(key) if key else entry for entry in order]
    listed = [item for item in items if (item.get(key) if key else item) in ordered_keys]
    listed.sort(key=lambda item: ordered_keys.index(item.get(key) if key else item))
    sorted_items = iter(listed)
    return [next(sorted_items) if (item.get(key) if key else item) in ordered_keys else item for item in items]

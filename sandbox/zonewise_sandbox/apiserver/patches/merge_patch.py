"""JSON Merge Patch (RFC 7386): objects are merged, null deletes, any other value replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import is_object

if TYPE_CHECKING:
    from zonewise_sandbox.apiserver.json_values import Object, Value


def merge_patch(target: Value, patch: Value) -> Value:
    """Return the target with the patch applied; neither argument is changed."""
    if not is_object(patch):
        return patch
    merged: Object = dict(target) if is_object(target) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value)
    return merged

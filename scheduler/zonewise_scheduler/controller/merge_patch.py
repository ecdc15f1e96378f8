"""JSON merge patches (RFC 7386): created from the current and the desired object, or combined from several patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return the patch that changes the first object into the second; empty if they are equal.

    A null field counts as absent, as in the API server. So does an empty list, and an object without other fields,
    because the API server drops most of them. A list is replaced as a whole.
    """
    patch: Json = {}
    for name in before.keys() | after.keys():
        change = _change(before.get(name), after.get(name))
        if change is not _SAME:
            patch[name] = change
    return patch


def combine_patches(*patches: Mapping[str, Any]) -> Json:
    """Return a patch with the combined effect of several. If two of them change the same field, the last one counts."""
    combined: Json = {}
    for patch in patches:
        for name, value in patch.items():
            both_nest = isinstance(value, dict) and isinstance(combined.get(name), dict)
            combined[name] = combine_patches(combined[name], cast("Json", value)) if both_nest else value
    return combined


_SAME = object()


def _change(before: object, after: object) -> object:
    if before == after or (_is_absent(before) and _is_absent(after)):
        return _SAME
    if _is_absent(after):
        return None
    if isinstance(after, dict) and (isinstance(before, dict) or before is None):
        return merge_patch(cast("Json", before or {}), cast("Json", after)) or _SAME
    return cast("object", after)


def _is_absent(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_absent, cast("Json", value).values()))
    return value is None or value == []

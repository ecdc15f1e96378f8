"""JSON merge patches (RFC 7386): made from an object as it is, and as it shall be; several combined into one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """Return the patch that turns one object into the other; an empty one where they are equal.

    A field that is null counts as absent, as for the API server. So does an empty list, and an object without other
    fields: the API server drops most of them. A list is replaced whole.
    """
    patch: Json = {}
    for name in before.keys() | after.keys():
        change = _change(before.get(name), after.get(name))
        if change is not _SAME:
            patch[name] = change
    return patch


def combine_patches(*patches: Mapping[str, Any]) -> Json:
    """Return the patch that does what several do that change different fields; of one field the last value counts."""
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

"""The smallest JSON patch (RFC 6902) that transforms one document into another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Operation = dict[str, Any]


def json_patch(before: object, after: object) -> list[Operation]:
    """Return the operations in the order in which they apply; none if the documents are equal.

    Lists of equal length are compared element by element; lists of different lengths are replaced whole. The agent's
    lists are in canonical order and change their length only with the hardware.
    """
    return list(_operations(before, after, ""))


def _operations(before: object, after: object, path: str) -> Iterator[Operation]:
    kinds = type(before), type(after)
    if kinds == (dict, dict):
        yield from _field_operations(cast("Mapping[str, object]", before), cast("Mapping[str, object]", after), path)
        return
    if kinds == (list, list):
        old, new = cast("Sequence[object]", before), cast("Sequence[object]", after)
        if len(old) == len(new):
            yield from _item_operations(old, new, path)
            return
    if kinds[0] is not kinds[1] or before != after:  # compares types as well, since 1 == True
        yield {"op": "replace", "path": path, "value": after}


def _field_operations(before: Mapping[str, object], after: Mapping[str, object], path: str) -> Iterator[Operation]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in after.items():
        field_path = f"{path}/{_escaped(name)}"
        if name in before:
            yield from _operations(before[name], value, field_path)
        else:
            yield {"op": "add", "path": field_path, "value": value}


def _item_operations(before: Sequence[object], after: Sequence[object], path: str) -> Iterator[Operation]:
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        yield from _operations(old, new, f"{path}/{number}")


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")

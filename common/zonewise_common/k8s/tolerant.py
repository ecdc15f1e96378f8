"""Tolerant reading of parts of JSON values: valid parts are returned, and each other part is reported as a problem.

Problems name a field by its whole path, such as "zones[0].resources". An absent part counts as empty, not as a problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def sound_object(value: object, field: str, problems: list[str]) -> Json:
    """Return a value if it is an object, otherwise an empty object."""
    if isinstance(value, dict):
        return cast("Json", value)
    if value is not None:
        problems.append(f"{field}: not an object: {abbreviated(value)}")
    return {}


def sound_list(value: object, field: str, problems: list[str]) -> list[object]:
    """Return a value if it is a list, otherwise an empty list."""
    if isinstance(value, list):
        return cast("list[object]", value)
    if value is not None:
        problems.append(f"{field}: not a list: {abbreviated(value)}")
    return []


def sound_objects(value: object, field: str, problems: list[str]) -> Iterator[tuple[int, Json]]:
    """Yield the objects of a list with their indices."""
    for index, item in enumerate(sound_list(value, field, problems)):
        if isinstance(item, dict):
            yield index, cast("Json", item)
        else:
            problems.append(f"{field}[{index}]: not an object: {abbreviated(item)}")


def shortened(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text[:80]


def abbreviated(value: object) -> str:
    """Return the beginning of a value, for messages."""
    try:
        return shortened(repr(value))
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists nested a thousand deep
        return f"too large a value of type {type(value).__name__}"

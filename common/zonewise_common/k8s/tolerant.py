"""Parts of JSON values of any type: the sound ones are returned, and each of the others is a problem.

A field is named by its whole path: "zones[0].resources". An absent part is empty, and no problem.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def sound_object(value: object, field: str, problems: list[str]) -> Json:
    """Return a value that is an object, or an empty one."""
    if isinstance(value, dict):
        return cast("Json", value)
    if value is not None:
        problems.append(f"{field}: not an object: {abbreviated(value)}")
    return {}


def sound_list(value: object, field: str, problems: list[str]) -> list[object]:
    """Return a value that is a list, or an empty one."""
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
    except (ValueError, RecursionError):  # an integer of thousands of digits, or lists a thousand deep
        return f"too large a value of type {type(value).__name__}"

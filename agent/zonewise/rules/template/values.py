"""Values in a template: texts, 64-bit whole numbers, truth values, nil, lists and maps, with Go's semantics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from zonewise.rules.types import RuleError

Value = object
"""str, int, bool, None, a list of values, or a mapping of texts to values."""

MAX_TEXT = 64 * 1024
"""Maximum characters of a text that a function makes."""


def as_list(value: Value) -> Sequence[Value] | None:
    """Return a list; None for another value."""
    return cast("Sequence[Value]", value) if isinstance(value, list | tuple) else None


def as_map(value: Value) -> Mapping[str, Value] | None:
    """Return a map; None for another value."""
    return cast("Mapping[str, Value]", value) if isinstance(value, Mapping) else None


def kind(value: Value) -> str:
    """Return the name of a value's kind, for messages."""
    if value is None:
        return "nil"
    for a_type, name in ((str, "text"), (bool, "truth value"), (int, "number"), (Mapping, "map")):
        if isinstance(value, a_type):
            return name
    return "list"


def is_true(value: Value) -> bool:
    """Return whether a condition holds: it does for every value except false, 0, nil and empty values."""
    return bool(value)


def printed(value: Value) -> str:
    """Return a value as Go's fmt.Print writes it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if (items := as_list(value)) is not None:
        return limited(f"[{' '.join(map(_printed_item, items))}]")
    if (entries := as_map(value)) is not None:
        pairs = (f"{key}:{_printed_item(entry)}" for key, entry in sorted(entries.items()))
        return limited(f"map[{' '.join(pairs)}]")
    return str(value)


def limited(text: str) -> str:
    """Return a text. Raises RuleError if it is too long."""
    if len(text) > MAX_TEXT:
        raise RuleError(f"a string of a template has more than {MAX_TEXT} characters")
    return text


def wrapped(number: int) -> int:
    """Return a number wrapped to 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _printed_item(value: Value) -> str:
    return "<nil>" if value is None else printed(value)

"""JSON values as Python values, and type checks for them."""

from typing import Any, TypeGuard

Value = Any
"""Any JSON value."""
Object = dict[str, Any]
"""A JSON object: a resource, or a part of one."""


def is_object(value: Value) -> TypeGuard[Object]:
    """Return whether a value is a JSON object."""
    return isinstance(value, dict)


def is_list(value: Value) -> TypeGuard[list[Value]]:
    """Return whether a value is a JSON array."""
    return isinstance(value, list)


def object_in(obj: Object, name: str) -> Object:
    """Return an object within an object; an empty one if it is absent or null."""
    return obj.get(name) or {}


def list_in(obj: Object, name: str) -> list[Value]:
    """Return a list within an object; an empty one if it is absent or null."""
    return obj.get(name) or []

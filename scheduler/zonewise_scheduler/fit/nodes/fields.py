"""Fields of the objects of the Kubernetes API, as parsed from JSON, with errors that name them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from zonewise.topology.quantity import parse_milli

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

_thousandths = lru_cache(1 << 14)(parse_milli)


class FieldError(ValueError):
    """A field of a node or a pod that no API server would have taken."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def part(owner: Mapping[str, Any], name: str, at: str) -> Json:
    """Return an object within another; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldError(f"{at}{name}", f"not an object: {short(value)}")
    return cast("Json", value)


def parts(owner: Mapping[str, Any], name: str, at: str) -> list[Json]:
    """Return a list of objects within another; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise FieldError(f"{at}{name}", f"not a list: {short(value)}")
    for place, one in enumerate(cast("list[object]", value)):
        if not isinstance(one, dict):
            raise FieldError(f"{at}{name}[{place}]", f"not an object: {short(one)}")
    return cast("list[Json]", value)


def text(owner: Mapping[str, Any], name: str, at: str) -> str:
    """Return a string within an object; "" where it is absent."""
    value = owner.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FieldError(f"{at}{name}", f"not a string: {short(value)}")
    return value


def texts(owner: Mapping[str, Any], name: str, at: str) -> tuple[str, ...]:
    """Return a list of strings within an object; an empty one where it is absent."""
    value = owner.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise FieldError(f"{at}{name}", f"not a list: {short(value)}")
    for place, one in enumerate(cast("list[object]", value)):
        if not isinstance(one, str):
            raise FieldError(f"{at}{name}[{place}]", f"not a string: {short(one)}")
    return tuple(cast("list[str]", value))


def pairs(owner: Mapping[str, Any], name: str, at: str) -> tuple[tuple[str, str], ...]:
    """Return the strings by key within an object, sorted by key."""
    found = part(owner, name, at)
    return tuple((key, text(found, key, f"{at}{name}.")) for key in sorted(found))


def amounts(owner: Mapping[str, Any], name: str, at: str) -> dict[str, int]:
    """Return quantities by resource in thousandths of their unit: what the API server rounds them up to.

    pkg/apis/core/v1/defaults.go SetDefaults_ResourceList.
    """
    found: dict[str, int] = {}
    for resource, value in part(owner, name, at).items():
        field = f"{at}{name}.{resource}"
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise FieldError(field, f"not a quantity: {short(value)}")
        try:
            found[resource] = _thousandths(str(value))
        except ValueError as error:
            raise FieldError(field, str(error)) from None
    return found


def short(value: object) -> str:
    """Return the beginning of a value, for messages."""
    return repr(value)[:80]

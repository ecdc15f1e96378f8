"""Looking into the API's objects, which come as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]


class InputError(ValueError):
    """An object is not of its kind; the text names field and value."""


def items(of: Mapping[str, Any], field: str, place: str) -> list[Json]:
    """Return a list of objects, empty where it is absent; raise InputError where it is another thing."""
    return _list(of, field, place, dict, "objects")


def texts(of: Mapping[str, Any], field: str, place: str) -> list[str]:
    """Return a list of texts, empty where it is absent; raise InputError where it is another thing."""
    return _list(of, field, place, str, "texts")


def fields(of: Mapping[str, Any], field: str, place: str) -> Json:
    """Return an object, empty where it is absent; raise InputError where it is another thing."""
    found: object = of.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError(f"{place}{field}: not an object: {str(of[field])[:80]!r}")
    return cast("Json", found)


def _list(of: Mapping[str, Any], field: str, place: str, kind: type, kinds: str) -> list[Any]:
    found: object = of.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in cast("list[object]", found)):
        raise InputError(f"{place}{field}: not a list of {kinds}: {str(of[field])[:80]!r}")
    return cast("list[Any]", found)

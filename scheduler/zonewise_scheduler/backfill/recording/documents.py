"""Explanations and forecasts as JSON: objects with camelCase keys, and null for infinite numbers."""

from __future__ import annotations

import re
from functools import cache
from math import isfinite
from typing import cast

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


def json_document(value: object) -> Json:
    """Return the JSON form of nested NamedTuples, tuples, strings and numbers."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, tuple):
        parts = cast("tuple[object, ...]", value)
        names = cast("tuple[str, ...] | None", getattr(parts, "_fields", None))
        if names is None:
            return [json_document(part) for part in parts]
        return {_camel_case(name): json_document(part) for name, part in zip(names, parts, strict=True)}
    return cast("Json", value)


@cache
def _camel_case(name: str) -> str:
    return re.sub("_([a-z0-9])", lambda match: match[1].upper(), name)

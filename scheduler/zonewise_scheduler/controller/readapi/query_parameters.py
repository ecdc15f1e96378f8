"""The parameters of a request to the read API."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_DIGITS = 9


def read_parameters(query: str, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each parameter; of repeated ones, the last. Raises ValueError for an unknown parameter."""
    try:
        parsed = parse_qs(query, strict_parsing=bool(query), keep_blank_values=True, max_num_fields=len(defaults))
    except ValueError as error:
        raise ValueError(f"query: {query[:80]!r}: {error}") from error
    unknown = sorted(parsed.keys() - defaults.keys())
    if unknown:
        names = ", ".join(sorted(defaults))
        raise ValueError(f"query: unknown parameter {unknown[0][:80]!r}; the parameters are {names}")
    return {name: parsed.get(name, [default])[-1] for name, default in defaults.items()}


def read_number(parameters: Mapping[str, str], name: str) -> int:
    """Return the value of a parameter that is a number with up to nine digits. Raises ValueError."""
    text = parameters[name]
    if not (text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS):
        raise ValueError(f"{name}: {text[:80]!r} is not a non-negative number")
    return int(text)

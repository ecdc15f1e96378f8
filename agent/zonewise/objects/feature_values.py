"""The values of raw features: texts by name, as Node Feature Discovery writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Attributes = dict[str, str]
Values = dict[str, object]
"""By name; None is unknown."""


def known_attributes(values: Mapping[str, object]) -> Attributes:
    """Return the values that are known as texts, as Go's %v prints them, sorted by name."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in sorted(values.items())
        if value is not None
    }

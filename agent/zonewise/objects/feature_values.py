"""The values of raw features, as texts by name in Node Feature Discovery's notation."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Attributes = dict[str, str]
Values = dict[str, object]
"""Values by name; None means unknown."""


def known_attributes(values: Mapping[str, object]) -> Attributes:
    """Return the known values as texts, as Go's %v prints them, sorted by name."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in sorted(values.items())
        if value is not None
    }

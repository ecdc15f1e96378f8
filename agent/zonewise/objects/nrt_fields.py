"""What all parts of a NodeResourceTopology object have in common: names of zones, attributes, and what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.zone import Zone
    from zonewise.usage.types import Amount

MAX_NODE_ZONES = 64
"""Ids from here on overflow the table of scheduler-plugins (pkg/noderesourcetopology/pluginhelpers.go)."""

Object = dict[str, Any]


def is_node_zone(zone: Zone) -> bool:
    """Tell whether consumers may take a NUMA node for one that pods are aligned to."""
    return zone.kind == "cpu" and zone.id < MAX_NODE_ZONES


def zone_name(zone: Zone) -> str:
    """Return the name under which a NUMA node is published."""
    return f"{'node' if is_node_zone(zone) else zone.kind}-{zone.id}"


def format_amount(amount: Amount) -> str:
    """Return a quantity as one text, where the API has no place for three numbers."""
    return f"{amount.capacity}/{amount.allocatable}/{amount.available}"


def attributes(pairs: Iterable[tuple[str, object]]) -> list[Object]:
    """Return attributes by name; one that is None, for unknown, is left out."""
    known = {name: str(value) for name, value in pairs if value is not None}
    return [{"name": name, "value": known[name]} for name in sorted(known)]


def omit_empty(fields: Object) -> Object:
    """Return an object without the fields that say nothing."""
    return {name: value for name, value in fields.items() if value is not None and value != []}

"""NUMA nodes as zones of a NodeResourceTopology object: their types and names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.nrt import zones

if TYPE_CHECKING:
    from zonewise.machine.model.zone import Zone

Object = dict[str, Any]

_MEMORY_ZONE_TYPES = {"memory": zones.MEMORY_ONLY, "device": zones.DEVICE_MEMORY}


def is_node_zone(zone: Zone) -> bool:
    """Return whether consumers may align pods to a NUMA node."""
    return zone.kind == "cpu" and zone.id < zones.MAX_NODE_ZONES


def numa_zone_type(zone: Zone) -> str:
    """Return the type under which a NUMA node is published."""
    return zones.NODE if is_node_zone(zone) else _MEMORY_ZONE_TYPES.get(zone.kind, zones.NODE_BEYOND_LIMIT)


def numa_zone_name(zone: Zone) -> str:
    """Return the name under which a NUMA node is published."""
    return zones.zone_name(numa_zone_type(zone), zone.id)


def omit_empty(fields: Object) -> Object:
    """Return an object without its None and [] fields."""
    return {name: value for name, value in fields.items() if value is not None and value != []}

"""Writing and reading the zones of a NodeResourceTopology object: types and names, resources, costs.

The naming rules are those of the API's helpers (pkg/apis/topology/v1alpha2/helper) and of scheduler-plugins
(pkg/noderesourcetopology/pluginhelpers.go createNUMANodeList): a NUMA node is a zone of type Node named "node-<id>".
The other types are ours, and other consumers ignore them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.quantity import quantity_value
from zonewise_common.k8s.tolerant import abbreviated, sound_objects
from zonewise_common.nrt.attributes import MAX_NUMA_NODES, ResourceInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]

MAX_NODE_ZONES = 64
"""Ids from here on overflow the table of scheduler-plugins (pkg/noderesourcetopology/pluginhelpers.go)."""

NODE = "Node"
MEMORY_ONLY = "MemoryOnly"
DEVICE_MEMORY = "DeviceMemory"
NODE_BEYOND_LIMIT = "NodeBeyondLimit"
"""Type of a NUMA node with CPUs whose id is at least MAX_NODE_ZONES."""
PACKAGE = "Package"
L3 = "L3"
GPU = "GPU"
NIC = "NIC"

PREFIXES = {
    NODE: "node-",
    MEMORY_ONLY: "memory-",
    DEVICE_MEMORY: "device-",
    NODE_BEYOND_LIMIT: "cpu-",
    PACKAGE: "package-",
    L3: "l3-",
    GPU: "gpu-",
    NIC: "nic-",
}
"""Prefixes of zone names by type; an id or a device's PCI address follows."""
NUMA_TYPES = (NODE, MEMORY_ONLY, DEVICE_MEMORY, NODE_BEYOND_LIMIT)
"""The types of NUMA nodes."""
_MAX_DIGITS = 5
_MAX_NAME_LENGTH = max(map(len, PREFIXES.values())) + _MAX_DIGITS


def zone_name(zone_type: str, identity: int | str) -> str:
    """Return the name of a zone of a type."""
    return f"{PREFIXES[zone_type]}{identity}"


def zone_id(name: object, zone_type: str) -> int | None:
    """Return the id in the name of a zone of a type; None for other names, and for ids of MAX_NUMA_NODES or more."""
    if not isinstance(name, str) or len(name) > _MAX_NAME_LENGTH:
        return None
    return _zone_id(name, zone_type)


@lru_cache(maxsize=4096)
def _zone_id(name: str, zone_type: str) -> int | None:
    """Implement zone_id(), cached: each report repeats the names once for each pair of zones."""
    prefix = PREFIXES[zone_type]
    digits = name.removeprefix(prefix)
    if len(digits) == len(name) or not (digits.isascii() and digits.isdecimal()) or len(digits) > _MAX_DIGITS:
        return None
    number = int(digits)
    return number if number < MAX_NUMA_NODES else None


# --- resources


def write_resources(amounts: Mapping[str, tuple[int, int, int]]) -> list[Object]:
    """Return a list of resources, each with its capacity, allocatable and available amount.

    Quantities are strings, as the API machinery writes them: JSON numbers lose precision above 2^53.
    """
    return [
        {"name": name, "capacity": str(capacity), "allocatable": str(allocatable), "available": str(available)}
        for name, (capacity, allocatable, available) in amounts.items()
    ]


def read_resources(zone: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, ResourceInfo]:
    """Return the resources of a zone by name. Of equal names the first counts; damaged ones become problems."""
    field = f"{path}.resources"
    resources: dict[str, ResourceInfo] = {}
    for index, item in sound_objects(zone.get("resources"), field, problems):
        name = item.get("name")
        if not isinstance(name, str) or not name:
            problems.append(f"{field}[{index}].name: not a name: {abbreviated(name)}")
        elif name in resources:
            problems.append(f"{field}[{index}].name: {name!r} exists already: the first one is used")
        else:
            try:
                resources[name] = ResourceInfo(
                    quantity_value(item.get("capacity")),
                    quantity_value(item.get("allocatable")),
                    quantity_value(item.get("available")),
                )
            except ValueError as error:
                problems.append(f"{field}[{index}] ({name}): {error}")
    return resources


# --- costs


def write_costs(costs: Iterable[tuple[str, int]]) -> list[Object]:
    """Return a list of costs by zone name."""
    return [{"name": name, "value": cost} for name, cost in costs]


def read_costs(zone: Mapping[str, Any], path: str, problems: list[str]) -> dict[int, int]:
    """Return the distances from a zone to Node zones by id; damaged ones are reported as problems."""
    field = f"{path}.costs"
    costs: dict[int, int] = {}
    for index, item in sound_objects(zone.get("costs"), field, problems):
        number, cost = zone_id(item.get("name"), NODE), item.get("value")
        if number is None or type(cost) is not int or cost < 0:
            problems.append(f"{field}[{index}]: not a zone and its distance: {abbreviated(item)}")
        else:
            costs[number] = cost
    return costs

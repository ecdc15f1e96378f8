"""NodeResourceTopology objects as the plugin reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError, milli_quantity, objects_in, strings_in
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_common.nrt.names import TOPOLOGY_MANAGER_MAX_NUMA_NODES, TOPOLOGY_MANAGER_POLICY, TOPOLOGY_MANAGER_SCOPE
from zonewise_scheduler.nodes.noderesourcetopology.status import PanicError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts

SINGLE_NUMA_NODE = "single-numa-node"
_POLICIES = {"none", "best-effort", "restricted", SINGLE_NUMA_NODE}
_SCOPES = {"container", "pod"}
_MAX_ZONES = 1024
_HIGHEST_ID = 64
"""The highest zone id that the plugin does not skip; its table ends before this id."""
_ZONE_NAME = re.compile(r"node-([+-]?[0-9]{1,18})", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class TopologyManagerConfig(NamedTuple):
    """The Topology Manager configuration in a node's report (nodeconfig/topologymanager.go)."""

    policy: str = "none"
    scope: str = "container"
    max_zones: int = 8


_DEPRECATED = {
    "SingleNUMANodePodLevel": TopologyManagerConfig(SINGLE_NUMA_NODE, "pod"),
    "SingleNUMANodeContainerLevel": TopologyManagerConfig(SINGLE_NUMA_NODE, "container"),
    "RestrictedPodLevel": TopologyManagerConfig("restricted", "pod"),
    "RestrictedContainerLevel": TopologyManagerConfig("restricted", "container"),
    "BestEffortPodLevel": TopologyManagerConfig("best-effort", "pod"),
    "BestEffortContainerLevel": TopologyManagerConfig("best-effort", "container"),
}
"""Values of topologyPolicies, which is deprecated since v1alpha2 but still read."""


class NUMANode(NamedTuple):
    """A zone of type Node."""

    id: int
    available: Amounts
    """Available amounts; filters and scores read nothing else of a resource."""
    costs: dict[int, int]
    """Costs by zone."""


def read_topology_manager(nrt: Mapping[str, Any]) -> TopologyManagerConfig:
    """Return the attributes, or else the first of topologyPolicies, or else the defaults; ignore invalid values."""
    manager = TopologyManagerConfig()
    for deprecated_policy in strings_in(nrt, "topologyPolicies", "")[:1]:
        manager = _DEPRECATED.get(deprecated_policy, manager)
    for attribute in objects_in(nrt, "attributes", ""):
        name, value = attribute.get("name"), str(attribute.get("value"))
        if name == TOPOLOGY_MANAGER_POLICY and value in _POLICIES:
            manager = manager._replace(policy=value)
        elif name == TOPOLOGY_MANAGER_SCOPE and value in _SCOPES:
            manager = manager._replace(scope=value)
        elif name == TOPOLOGY_MANAGER_MAX_NUMA_NODES and _NUMBER.fullmatch(value) and int(value) > 1:
            manager = manager._replace(max_zones=min(int(value), _MAX_ZONES))
    return manager


def create_numa_node_list(nrt: Mapping[str, Any]) -> list[NUMANode]:
    """Return the zones in the object's order (pluginhelpers.go createNUMANodeList).

    Zones of other types, with names other than node-N, or with too high an N are left out. Raises FieldError, which
    names field and value, and PanicError for node-64, which the plugin does not skip.
    """
    available_by_id: list[tuple[int, Amounts]] = []
    costs: dict[int, dict[int, int]] = {}
    for index, zone in enumerate(objects_in(nrt, "zones", "")):
        path = f"zones[{index}]."
        zone_id = _zone_id(zone.get("name"))
        if zone.get("type") != "Node" or zone_id is None:
            continue
        if zone_id == _HIGHEST_ID:
            raise PanicError.index_panic(zone_id, _HIGHEST_ID)
        available_by_id.append((zone_id, _read_available(zone, path)))
        costs[zone_id] = _read_costs(zone, path)
    return [NUMANode(zone_id, available, costs[zone_id]) for zone_id, available in available_by_id]


def _zone_id(name: object) -> int | None:
    match = _ZONE_NAME.fullmatch(str(name))
    return int(match[1]) if match and 0 <= int(match[1]) <= _HIGHEST_ID else None


def _read_available(zone: Json, path: str) -> Amounts:
    return {
        str(resource.get("name")): milli_quantity(resource.get("available", 0), f"{path}resources[{index}].available")
        for index, resource in enumerate(objects_in(zone, "resources", path))
    }


def _read_costs(zone: Json, path: str) -> dict[int, int]:
    costs: dict[int, int] = {}
    for index, cost in enumerate(objects_in(zone, "costs", path)):
        value = cost.get("value")
        if not isinstance(value, int):
            raise FieldError(f"{path}costs[{index}].value", f"not a whole number: {abbreviated(value)}")
        zone_id = _zone_id(cost.get("name"))
        if zone_id is not None:
            costs[zone_id] = value
    return costs

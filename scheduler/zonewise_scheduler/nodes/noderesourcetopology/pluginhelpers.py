"""NodeResourceTopology objects as the plugin reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError, abbreviated, milli_quantity, objects_in, strings_in
from zonewise_common.nrt.names import TOPOLOGY_MANAGER_MAX_NUMA_NODES, TOPOLOGY_MANAGER_POLICY, TOPOLOGY_MANAGER_SCOPE
from zonewise_scheduler.nodes.noderesourcetopology.status import PanicError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_common.k8s.fields import Json
    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts

SINGLE_NUMA_NODE = "single-numa-node"
_POLICIES = {"none", "best-effort", "restricted", SINGLE_NUMA_NODE}
_SCOPES = {"container", "pod"}
_MOST_ZONES = 1024
_HIGHEST_ID = 64
"""Of a zone that is not skipped; the table that is looked into ends before it."""
_ZONE_NAME = re.compile(r"node-([+-]?[0-9]{1,18})", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class TopologyManagerConfig(NamedTuple):
    """The Topology Manager of a node, as its report has it (nodeconfig/topologymanager.go)."""

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
"""Values of topologyPolicies, which has been deprecated since v1alpha2 but is still read."""


class NUMANode(NamedTuple):
    """A zone of type Node."""

    id: int
    available: Amounts
    """Filters and scores read nothing else of a resource."""
    costs: dict[int, int]
    """By zone."""


def read_topology_manager(nrt: Mapping[str, Any]) -> TopologyManagerConfig:
    """Return what attributes say, else the first of topologyPolicies, else the defaults; bad values are passed over."""
    manager = TopologyManagerConfig()
    for named in strings_in(nrt, "topologyPolicies", "")[:1]:
        manager = _DEPRECATED.get(named, manager)
    for attribute in objects_in(nrt, "attributes", ""):
        name, value = attribute.get("name"), str(attribute.get("value"))
        if name == TOPOLOGY_MANAGER_POLICY and value in _POLICIES:
            manager = manager._replace(policy=value)
        elif name == TOPOLOGY_MANAGER_SCOPE and value in _SCOPES:
            manager = manager._replace(scope=value)
        elif name == TOPOLOGY_MANAGER_MAX_NUMA_NODES and _NUMBER.fullmatch(value) and int(value) > 1:
            manager = manager._replace(max_zones=min(int(value), _MOST_ZONES))
    return manager


def create_numa_node_list(nrt: Mapping[str, Any]) -> list[NUMANode]:
    """Return the zones in the object's order (pluginhelpers.go createNUMANodeList).

    Zones of other types, of other names than node-N, and of too high an N are left out. Raises FieldError, naming field
    and value, and PanicError for node-64, which is just not too high.
    """
    found: list[tuple[int, Amounts]] = []
    costs: dict[int, dict[int, int]] = {}
    for number, zone in enumerate(objects_in(nrt, "zones", "")):
        place = f"zones[{number}]."
        identity = _zone_id(zone.get("name"))
        if zone.get("type") != "Node" or identity is None:
            continue
        if identity == _HIGHEST_ID:
            raise PanicError.index_out_of_range(identity, _HIGHEST_ID)
        found.append((identity, _available(zone, place)))
        costs[identity] = _costs(zone, place)
    return [NUMANode(identity, available, costs[identity]) for identity, available in found]


def _zone_id(name: object) -> int | None:
    match = _ZONE_NAME.fullmatch(str(name))
    return int(match[1]) if match and 0 <= int(match[1]) <= _HIGHEST_ID else None


def _available(zone: Json, place: str) -> Amounts:
    return {
        str(resource.get("name")): milli_quantity(resource.get("available", 0), f"{place}resources[{number}].available")
        for number, resource in enumerate(objects_in(zone, "resources", place))
    }


def _costs(zone: Json, place: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, cost in enumerate(objects_in(zone, "costs", place)):
        value = cost.get("value")
        if not isinstance(value, int):
            raise FieldError(f"{place}costs[{number}].value", f"not a whole number: {abbreviated(value)}")
        identity = _zone_id(cost.get("name"))
        if identity is not None:
            found[identity] = value
    return found

"""NodeResourceTopology objects as the plugin reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.topology.names import MAX_ZONES, POLICY, SCOPE
from zonewise_scheduler.fit.model.fields import FieldError, amount, parts, short, texts
from zonewise_scheduler.fit.upstream.answers import PanicError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_scheduler.fit.model.fields import Json
    from zonewise_scheduler.fit.upstream.resources import Amounts

SINGLE_NUMA_NODE = "single-numa-node"
_POLICIES = {"none", "best-effort", "restricted", SINGLE_NUMA_NODE}
_SCOPES = {"container", "pod"}
_MOST_ZONES = 1024
_HIGHEST_ID = 64
"""Of a zone that is not skipped; the table that is looked into ends before it."""
_ZONE_NAME = re.compile(r"node-([+-]?[0-9]{1,18})", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class Manager(NamedTuple):
    """The Topology Manager of a node, as its report has it (nodeconfig/topologymanager.go)."""

    policy: str = "none"
    scope: str = "container"
    max_zones: int = 8


_DEPRECATED = {
    "SingleNUMANodePodLevel": Manager(SINGLE_NUMA_NODE, "pod"),
    "SingleNUMANodeContainerLevel": Manager(SINGLE_NUMA_NODE, "container"),
    "RestrictedPodLevel": Manager("restricted", "pod"),
    "RestrictedContainerLevel": Manager("restricted", "container"),
    "BestEffortPodLevel": Manager("best-effort", "pod"),
    "BestEffortContainerLevel": Manager("best-effort", "container"),
}
"""Values of topologyPolicies, which has been deprecated since v1alpha2 but is still read."""


class Zone(NamedTuple):
    """A zone of type Node."""

    id: int
    available: Amounts
    """Filters and scores read nothing else of a resource."""
    costs: dict[int, int]
    """By zone."""


def read_manager(nrt: Mapping[str, Any]) -> Manager:
    """Return what attributes say, else the first of topologyPolicies, else the defaults; bad values are passed over."""
    manager = Manager()
    for named in texts(nrt, "topologyPolicies", "")[:1]:
        manager = _DEPRECATED.get(named, manager)
    for attribute in parts(nrt, "attributes", ""):
        name, value = attribute.get("name"), str(attribute.get("value"))
        if name == POLICY and value in _POLICIES:
            manager = manager._replace(policy=value)
        elif name == SCOPE and value in _SCOPES:
            manager = manager._replace(scope=value)
        elif name == MAX_ZONES and _NUMBER.fullmatch(value) and int(value) > 1:
            manager = manager._replace(max_zones=min(int(value), _MOST_ZONES))
    return manager


def read_zones(nrt: Mapping[str, Any]) -> list[Zone]:
    """Return the zones in the object's order (pluginhelpers.go createNUMANodeList).

    Zones of other types, of other names than node-N, and of too high an N are left out. Raises FieldError, naming field
    and value, and PanicError for node-64, which is just not too high.
    """
    found: list[tuple[int, Amounts]] = []
    costs: dict[int, dict[int, int]] = {}
    for number, zone in enumerate(parts(nrt, "zones", "")):
        place = f"zones[{number}]."
        identity = _zone_id(zone.get("name"))
        if zone.get("type") != "Node" or identity is None:
            continue
        if identity == _HIGHEST_ID:
            raise PanicError.of_index(identity, _HIGHEST_ID)
        found.append((identity, _available(zone, place)))
        costs[identity] = _costs(zone, place)
    return [Zone(identity, available, costs[identity]) for identity, available in found]


def _zone_id(name: object) -> int | None:
    match = _ZONE_NAME.fullmatch(str(name))
    return int(match[1]) if match and 0 <= int(match[1]) <= _HIGHEST_ID else None


def _available(zone: Json, place: str) -> Amounts:
    return {
        str(resource.get("name")): amount(resource.get("available", 0), f"{place}resources[{number}].available")
        for number, resource in enumerate(parts(zone, "resources", place))
    }


def _costs(zone: Json, place: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for number, cost in enumerate(parts(zone, "costs", place)):
        value = cost.get("value")
        if not isinstance(value, int):
            raise FieldError(f"{place}costs[{number}].value", f"not a whole number: {short(value)}")
        identity = _zone_id(cost.get("name"))
        if identity is not None:
            found[identity] = value
    return found

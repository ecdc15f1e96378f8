"""A NodeResourceTopology object, read field by field: damaged fields become problems, and all others are used.

Names follow the rules of the API's helpers (pkg/apis/topology/v1alpha2/helper): zones of type Node are named
"node-<id>". If an attribute occurs several times, the first one counts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.k8s.tolerant import abbreviated, shortened, sound_list, sound_object, sound_objects
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import MAX_NUMA_NODES, ResourceInfo, read_amounts, read_attributes
from zonewise_common.nrt.zones import L3, NODE, NUMA_TYPES, PACKAGE, PREFIXES, read_costs, read_resources, zone_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.tolerant import Json

MAX_READ_ZONES = 128
"""Maximum number of NUMA nodes in an object; the kubelet's masks have 64 bits (topologymanager/bitmask/bitmask.go)."""
_MAX_PROBLEMS = 256
_PLAIN_NUMA_TYPES = (NODE,)


class NrtZone(NamedTuple):
    """A NUMA node."""

    id: int
    attributes: dict[str, str]
    costs: dict[int, int]
    """Distance to each zone."""
    resources: dict[str, ResourceInfo]


class NrtObject(NamedTuple):
    """The fields of an object."""

    node: str
    version: str
    annotations: Json
    attributes: dict[str, str]
    policies: tuple[str, ...]
    """The deprecated topologyPolicies."""
    zones: tuple[NrtZone, ...]
    """Zones in ascending order of id."""
    packages: tuple[tuple[int, str], ...]
    """Ids and CPU lists of packages, ascending; `l3` has the same form."""
    l3: tuple[tuple[int, str], ...]
    problems: list[str]

    @property
    def from_agent(self) -> bool:
        """Return whether our agent wrote the object."""
        return names.USAGE in self.attributes


def read_nrt_object(nrt: Mapping[str, Any]) -> NrtObject:
    """Return the fields of an object; damage in the object raises no error."""
    problems: list[str] = []
    metadata = sound_object(nrt.get("metadata"), "metadata", problems)
    node = metadata.get("name")
    if not isinstance(node, str) or not node:
        problems.append(f"metadata.name: not a name: {abbreviated(node)}")
        node = ""
    attributes = read_attributes(nrt, "", problems)
    numa_types = NUMA_TYPES if names.USAGE in attributes else _PLAIN_NUMA_TYPES
    zones: dict[int, NrtZone] = {}
    packages: dict[int, str] = {}
    l3: dict[int, str] = {}
    for index, zone in sound_objects(nrt.get("zones"), "zones", problems):
        zone_type, path = zone.get("type"), f"zones[{index}]"
        if zone_type == PACKAGE:
            _add_cpus(packages, zone, PACKAGE, path, problems)
        elif zone_type == L3:
            _add_cpus(l3, zone, L3, path, problems)
        elif isinstance(zone_type, str) and zone_type in numa_types:
            _add_zone(zones, zone, zone_type, path, problems)
        if len(zones) > MAX_READ_ZONES or len(problems) > _MAX_PROBLEMS:
            zones.clear()
            problems.append(f"zones: more than {MAX_READ_ZONES} NUMA nodes or {_MAX_PROBLEMS} problems: none is read")
            break
    return NrtObject(
        node,
        str(metadata.get("resourceVersion") or ""),
        sound_object(metadata.get("annotations"), "metadata.annotations", problems),
        attributes,
        tuple(
            policy
            for policy in sound_list(nrt.get("topologyPolicies"), "topologyPolicies", problems)
            if isinstance(policy, str)
        ),
        tuple(zones[number] for number in sorted(zones)),
        tuple(sorted(packages.items())),
        tuple(sorted(l3.items())),
        problems,
    )


@lru_cache(1 << 12)
def cpu_bits(text: str) -> int:
    """Return the CPUs of a CPU list as bits; raise ValueError for any other text."""
    return CpuSet.parse_list(text).bits


def zone_set_attribute(nrt: NrtObject, name: str) -> int:
    """Return the zones listed in an attribute of the node, as bits; 0 if the attribute is absent or damaged."""
    text = nrt.attributes.get(name)
    if not text:
        return 0
    try:
        bits = cpu_bits(text)
    except ValueError as error:
        nrt.problems.append(f"{name}: {error}")
        return 0
    if bits >> MAX_NUMA_NODES:
        nrt.problems.append(f"{name}: a zone above {MAX_NUMA_NODES - 1}: {shortened(text)!r}")
        return 0
    return bits


# --- zones


def _add_cpus(cpus_by_id: dict[int, str], zone: Json, zone_type: str, path: str, problems: list[str]) -> None:
    number = zone_id(zone.get("name"), zone_type)
    cpus = read_attributes(zone, path, problems).get(names.CPUS)
    if number is not None and cpus is not None:
        cpus_by_id.setdefault(number, cpus)


def _add_zone(zones: dict[int, NrtZone], zone: Json, zone_type: str, path: str, problems: list[str]) -> None:
    number = zone_id(zone.get("name"), zone_type)
    if number is None:
        name = abbreviated(zone.get("name"))
        problems.append(f'{path}.name: not "{PREFIXES[zone_type]}" and the id of a NUMA node: {name}')
        return
    if number in zones:
        problems.append(f"{path}.name: {abbreviated(zone['name'])} exists already: the first one is used")
        return
    attributes = read_attributes(zone, path, problems)
    counts = read_resources(zone, path, problems)
    if names.AMOUNTS in attributes:
        counts |= dict(read_amounts(attributes[names.AMOUNTS], f"{path} {names.AMOUNTS}", problems))
    zones[number] = NrtZone(number, attributes, read_costs(zone, path, problems), counts)

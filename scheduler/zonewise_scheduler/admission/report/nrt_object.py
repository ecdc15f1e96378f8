"""A NodeResourceTopology object, field by field: what is damaged is told and left out, and the rest is read.

The rules of names are those of the API's helpers (pkg/apis/topology/v1alpha2/helper): zones of type Node named
"node-<id>", and of equal attributes the first.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.k8s.quantity import quantity_value
from zonewise_common.nrt import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]

MAX_NUMA_NODES = 1024
"""Ids from here on are damage: the kernel's MAX_NUMNODES is at most 1 << 10."""

NODE = "Node"
_PREFIXES = {NODE: "node-", "MemoryOnly": "memory-", "DeviceMemory": "device-", "NodeBeyondLimit": "cpu-"}
"""Of the names of NUMA nodes, by type; all but the first are ours only."""


class ResourceInfo(NamedTuple):
    """How much there is of one resource: CPUs, bytes or devices."""

    capacity: int
    allocatable: int
    available: int


class NrtZone(NamedTuple):
    """A NUMA node."""

    id: int
    attributes: dict[str, str]
    costs: dict[int, int]
    """Distances by zone."""
    counts: dict[str, ResourceInfo]


class NrtObject(NamedTuple):
    """What was read of an object."""

    node: str
    version: str
    annotations: Json
    attributes: dict[str, str]
    policies: tuple[str, ...]
    """The deprecated topologyPolicies."""
    zones: tuple[NrtZone, ...]
    """Ascending."""
    packages: tuple[tuple[int, str], ...]
    """Numbers and CPU lists, ascending; as l3."""
    l3: tuple[tuple[int, str], ...]
    problems: list[str]

    @property
    def from_agent(self) -> bool:
        """Tell whether our agent wrote it."""
        return names.USAGE in self.attributes


def read_nrt_object(nrt: Mapping[str, Any]) -> NrtObject:
    """Read an object; whatever it is, nothing is raised."""
    problems: list[str] = []
    metadata = _object(nrt.get("metadata"), "metadata", problems)
    node = metadata.get("name")
    if not isinstance(node, str) or not node:
        problems.append(f"metadata.name: not a name: {_short(node)}")
        node = ""
    attributes = _attributes(nrt, "", problems)
    prefixes = _PREFIXES if names.USAGE in attributes else {NODE: _PREFIXES[NODE]}
    zones: dict[int, NrtZone] = {}
    packages: dict[int, str] = {}
    l3: dict[int, str] = {}
    for place, one in _items(nrt.get("zones"), "zones", problems):
        kind, at = one.get("type"), f"zones[{place}]"
        if kind == "Package":
            _add_cpus(packages, one, "package-", at, problems)
        elif kind == "L3":
            _add_cpus(l3, one, "l3-", at, problems)
        elif isinstance(kind, str) and kind in prefixes:
            _add_zone(zones, one, prefixes[kind], at, problems)
    return NrtObject(
        node,
        str(metadata.get("resourceVersion") or ""),
        _object(metadata.get("annotations"), "metadata.annotations", problems),
        attributes,
        tuple(one for one in _list(nrt.get("topologyPolicies"), "topologyPolicies", problems) if isinstance(one, str)),
        tuple(zones[number] for number in sorted(zones)),
        tuple(sorted(packages.items())),
        tuple(sorted(l3.items())),
        problems,
    )


@lru_cache(1 << 12)
def cpu_bits(text: str) -> int:
    """Return the CPUs of a list as bits; raise ValueError for what is none."""
    return CpuSet.parse_list(text).bits


def zone_set_attribute(nrt: NrtObject, name: str) -> int:
    """Return the zones that an attribute of the node lists, as bits; 0 where it is absent or damaged."""
    text = nrt.attributes.get(name)
    if not text:
        return 0
    try:
        bits = cpu_bits(text)
    except ValueError as error:
        nrt.problems.append(f"{name}: {error}")
        return 0
    if bits >> MAX_NUMA_NODES:
        nrt.problems.append(f"{name}: a zone above {MAX_NUMA_NODES - 1}: {text[:80]!r}")
        return 0
    return bits


def parse_resource_info(text: str) -> ResourceInfo:
    """Return what the agent wrote as "capacity/allocatable/available"; raise ValueError for what is no such text."""
    parts = text.split("/")
    if len(parts) != len(ResourceInfo._fields):
        raise ValueError(f"not three quantities: {text[:80]!r}")
    return ResourceInfo(*map(quantity_value, parts))


# --- zones


def _add_cpus(found: dict[int, str], one: Json, prefix: str, at: str, problems: list[str]) -> None:
    number = _number(one.get("name"), prefix)
    cpus = _attributes(one, at, problems).get(names.CPUS)
    if number is not None and cpus is not None:
        found.setdefault(number, cpus)


def _add_zone(zones: dict[int, NrtZone], one: Json, prefix: str, at: str, problems: list[str]) -> None:
    number = _number(one.get("name"), prefix)
    if number is None:
        problems.append(f'{at}.name: not "{prefix}" and the id of a NUMA node: {_short(one.get("name"))}')
        return
    if number in zones:
        problems.append(f"{at}.name: {_short(one['name'])} is there already: the first is taken")
        return
    attributes = _attributes(one, at, problems)
    counts = _counts(one, at, problems)
    if names.AMOUNTS in attributes:
        counts |= dict(resource_infos(attributes[names.AMOUNTS], f"{at} {names.AMOUNTS}", problems))
    zones[number] = NrtZone(number, attributes, _costs(one, at, problems), counts)


def _number(name: object, prefix: str) -> int | None:
    if not isinstance(name, str) or not name.startswith(prefix):
        return None
    digits = name[len(prefix) :]
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 5:
        return None
    number = int(digits)
    return number if number < MAX_NUMA_NODES else None


def _counts(zone: Json, at: str, problems: list[str]) -> dict[str, ResourceInfo]:
    found: dict[str, ResourceInfo] = {}
    for place, one in _items(zone.get("resources"), f"{at}.resources", problems):
        name = one.get("name")
        if not isinstance(name, str) or not name:
            problems.append(f"{at}.resources[{place}].name: not a name: {_short(name)}")
        elif name in found:
            problems.append(f"{at}.resources[{place}].name: {name!r} is there already: the first is taken")
        else:
            try:
                count = ResourceInfo(
                    quantity_value(one.get("capacity")),
                    quantity_value(one.get("allocatable")),
                    quantity_value(one.get("available")),
                )
            except ValueError as error:
                problems.append(f"{at}.resources[{place}] ({name}): {error}")
            else:
                found[name] = count
    return found


def _costs(zone: Json, at: str, problems: list[str]) -> dict[int, int]:
    found: dict[int, int] = {}
    for place, one in _items(zone.get("costs"), f"{at}.costs", problems):
        number, value = _number(one.get("name"), _PREFIXES[NODE]), one.get("value")
        if number is None or type(value) is not int or value < 0:
            problems.append(f"{at}.costs[{place}]: not a zone and its distance: {_short(one)}")
        else:
            found[number] = value
    return found


def resource_infos(text: str, at: str, problems: list[str]) -> Iterator[tuple[str, ResourceInfo]]:
    """Yield the pairs of an attribute such as names.UNZONED."""
    try:
        pairs = names.read_pairs(text)
    except ValueError as error:
        problems.append(f"{at}: {error}")
        return
    for name, value in pairs.items():
        try:
            yield name, parse_resource_info(value)
        except ValueError as error:
            problems.append(f"{at} ({name}): {error}")


# --- any JSON

_TEXT = {str}


def _attributes(owner: Mapping[str, Any], at: str, problems: list[str]) -> dict[str, str]:
    """Return values by names; what is whole is read at a stroke, since every report of every node passes here."""
    given = owner.get("attributes")
    try:
        found: dict[str, str] = {one["name"]: one["value"] for one in given or ()}
    except (TypeError, KeyError):
        return _sound_attributes(given, at, problems)
    if len(found) == len(given or ()) and {*map(type, found), *map(type, found.values())} <= _TEXT:
        return found
    return _sound_attributes(given, at, problems)


def _sound_attributes(given: object, at: str, problems: list[str]) -> dict[str, str]:
    here = f"{at}.attributes" if at else "attributes"
    found: dict[str, str] = {}
    for place, one in _items(given, here, problems):
        name, value = one.get("name"), one.get("value")
        if isinstance(name, str) and isinstance(value, str):
            found.setdefault(name, value)
        else:
            problems.append(f"{here}[{place}]: not a name and its value: {_short(one)}")
    return found


def _items(value: object, at: str, problems: list[str]) -> Iterator[tuple[int, Json]]:
    for place, one in enumerate(_list(value, at, problems)):
        if isinstance(one, dict):
            yield place, cast("Json", one)
        else:
            problems.append(f"{at}[{place}]: not an object: {_short(one)}")


def _list(value: object, at: str, problems: list[str]) -> list[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if value is not None:
        problems.append(f"{at}: not a list: {_short(value)}")
    return []


def _object(value: object, at: str, problems: list[str]) -> Json:
    if isinstance(value, dict):
        return cast("Json", value)
    if value is not None:
        problems.append(f"{at}: not an object: {_short(value)}")
    return {}


def _short(value: object) -> str:
    return repr(value)[:80]

"""Writing and reading the attributes of a NodeResourceTopology object: the list, and the notations of values.

    pairs     "name=value", by name, separated by commas
    amounts   pairs with the value "capacity/allocatable/available"
    zones     ids separated by "," or "+"; a device of several zones is "resource@0+1"

Lists of CPUs and of zones use the kernel's list notation (k8s.cpuset).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.quantity import quantity_value
from zonewise_common.k8s.tolerant import abbreviated, sound_objects

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Object = dict[str, Any]

MAX_NUMA_NODES = 1024
"""Upper bound of NUMA node ids. Ids from here on are errors: the kernel's MAX_NUMNODES is at most 1 << 10."""

_STRINGS = {str}


class ResourceInfo(NamedTuple):
    """A quantity of one resource: CPUs, bytes or devices (pkg/apis/topology/v1alpha2/types.go)."""

    capacity: int
    allocatable: int
    available: int


# --- pairs


def write_pairs(pairs: Mapping[str, object]) -> str:
    """Return the text of pairs."""
    return ",".join(f"{name}={pairs[name]}" for name in sorted(pairs))


def read_pairs(text: str) -> dict[str, str]:
    """Return the pairs of a text; raise ValueError, naming the part, if a part is not a pair."""
    pairs: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, separator, value = part.partition("=")
        if not separator:
            raise ValueError(f"not name=value: {part[:80]!r}")
        pairs[name] = value
    return pairs


# --- amounts


def write_amounts(amounts: Mapping[str, tuple[int, int, int]]) -> str:
    """Return the text of amounts, each written as capacity/allocatable/available."""
    return write_pairs({name: "/".join(map(str, amount)) for name, amount in amounts.items()})


def read_amounts(text: str, field: str, problems: list[str]) -> Iterator[tuple[str, ResourceInfo]]:
    """Yield the amounts of a text by name; damaged ones are reported as problems of the field."""
    try:
        pairs = read_pairs(text)
    except ValueError as error:
        problems.append(f"{field}: {error}")
        return
    for name, value in pairs.items():
        try:
            yield name, _read_amount(value)
        except ValueError as error:
            problems.append(f"{field} ({name}): {error}")


def _read_amount(text: str) -> ResourceInfo:
    sizes = text.split("/")
    if len(sizes) != len(ResourceInfo._fields):
        raise ValueError(f"not three quantities: {text[:80]!r}")
    return ResourceInfo(*map(quantity_value, sizes))


# --- zones


def write_zones(zones: Iterable[int]) -> str:
    """Return the text of zones in the notation of MEMORY_GROUP."""
    return ",".join(map(str, zones))


@lru_cache(1 << 10)
def read_zones(text: str, separator: str = ",") -> int:
    """Return the zones of a text as bits; raise ValueError for other texts, and for ids of MAX_NUMA_NODES or more."""
    bits = 0
    for part in text.split(separator):
        if not (part.isascii() and part.isdecimal()) or len(part) > 4 or int(part) >= MAX_NUMA_NODES:
            raise ValueError(f"not zones: {text[:80]!r}")
        bits |= 1 << int(part)
    return bits


def write_shared_resource(resource: str, zones: Iterable[int]) -> str:
    """Return the name of a resource of some zones, as SHARED_DEVICES and EXCLUDED write it."""
    return f"{resource}@{'+'.join(map(str, zones))}"


def read_shared_resource(name: str) -> tuple[str, int]:
    """Return the resource and its zones as bits, 0 if the text names no zones; raise ValueError for other texts."""
    resource, separator, zones = name.rpartition("@")
    return resource, read_zones(zones, "+") if zones or not separator else 0


# --- the list of attributes


def write_attributes(pairs: Iterable[tuple[str, object]]) -> list[Object]:
    """Return a list of attributes sorted by name; values of None are unknown and omitted."""
    known = {name: str(value) for name, value in pairs if value is not None}
    return [{"name": name, "value": known[name]} for name in sorted(known)]


def read_attributes(owner: Mapping[str, Any], path: str, problems: list[str]) -> dict[str, str]:
    """Return the attributes of an object or a zone by name.

    Of equal names the first counts; damaged ones are reported as problems.

    Every report of every node passes through this function, so a valid list is read in one comprehension.
    """
    items = owner.get("attributes")
    try:
        attributes: dict[str, str] = {item["name"]: item["value"] for item in items or ()}
    except (TypeError, KeyError):
        return _read_damaged(items, path, problems)
    if len(attributes) == len(items or ()) and {*map(type, attributes), *map(type, attributes.values())} <= _STRINGS:
        return attributes
    return _read_damaged(items, path, problems)


def _read_damaged(items: object, path: str, problems: list[str]) -> dict[str, str]:
    field = f"{path}.attributes" if path else "attributes"
    attributes: dict[str, str] = {}
    for index, item in sound_objects(items, field, problems):
        name, value = item.get("name"), item.get("value")
        if isinstance(name, str) and isinstance(value, str):
            attributes.setdefault(name, value)
        else:
            problems.append(f"{field}[{index}]: not a name and its value: {abbreviated(item)}")
    return attributes

"""Reads the API's TopologyAssignment, whose slices encode domains with common values together.

apis/kueue/v1beta2/workload_types.go TopologyAssignment; pkg/util/tas/tas_assignment.go InternalFrom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.quota.topology.assignment_writer import MAX_DOMAINS
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def read_topology_assignment(assignment: Mapping[str, Any]) -> TopologyAssignment:
    """Return the decoded assignment; raise FieldError, naming field and value, for an invalid one."""
    if assignment.get("slices") is None:
        raise FieldError("slices", "missing")
    levels = _read_list(assignment, "levels", "", str)
    domains: list[TopologyDomainAssignment] = []
    for i, assignment_slice in enumerate(objects_in(assignment, "slices", "")):
        domains += _read_slice(assignment_slice, f"slices[{i}].", len(levels))
    return TopologyAssignment(tuple(levels), tuple(domains))


def _read_slice(assignment_slice: Mapping[str, Any], path: str, level_count: int) -> list[TopologyDomainAssignment]:
    domain_count: object = assignment_slice.get("domainCount")
    if not isinstance(domain_count, int) or isinstance(domain_count, bool) or not 1 <= domain_count <= MAX_DOMAINS:
        raise FieldError(f"{path}domainCount", f"not between 1 and {MAX_DOMAINS} domains: {abbreviated(domain_count)}")
    values_per_level = [
        _read_level_values(level_values, f"{path}valuesPerLevel[{i}].", domain_count)
        for i, level_values in enumerate(objects_in(assignment_slice, "valuesPerLevel", path))
    ]
    if len(values_per_level) != level_count:
        raise FieldError(f"{path}valuesPerLevel", f"not of {level_count} levels, but of {len(values_per_level)}")
    pod_counts = object_in(assignment_slice, "podCounts", path)
    universal: object = pod_counts.get("universal")
    counts = (
        [universal] * domain_count
        if isinstance(universal, int)
        else _read_list(pod_counts, "individual", f"{path}podCounts.", int, domain_count)
    )
    return [
        TopologyDomainAssignment(values, pods)
        for values, pods in zip(zip(*values_per_level, strict=True), counts, strict=True)
    ]


def _read_level_values(level_values: Mapping[str, Any], path: str, domain_count: int) -> list[str]:
    """Return the values of a slice's domains at one level."""
    if level_values.get("universal") is not None:
        return [string_in(level_values, "universal", path)] * domain_count
    individual, path = object_in(level_values, "individual", path), f"{path}individual."
    prefix, suffix = string_in(individual, "prefix", path), string_in(individual, "suffix", path)
    return [f"{prefix}{root}{suffix}" for root in _read_list(individual, "roots", path, str, domain_count)]


def _read_list(owner: Mapping[str, Any], name: str, path: str, kind: type[T], length: int | None = None) -> list[T]:
    """Return a list whose items are all of one type; it must have this length, unless `length` is None."""
    value: object = owner.get(name)
    items = cast("list[object]", value) if isinstance(value, list) else None
    if items is None or length not in {None, len(items)} or not all(isinstance(item, kind) for item in items):
        raise FieldError(
            f"{path}{name}", f"not a list of {length or 'valid'} values: {abbreviated(cast('object', value))}"
        )
    return cast("list[T]", items)

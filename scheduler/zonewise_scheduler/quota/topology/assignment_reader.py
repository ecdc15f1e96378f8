"""Topology assignments as the API of Kueue has them: domains that have much in common are written together.

apis/kueue/v1beta2/workload_types.go TopologyAssignment; pkg/util/tas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from zonewise_common.k8s.fields import FieldError, abbreviated, object_in, objects_in, string_in
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def read_topology_assignment(assignment: Mapping[str, Any]) -> TopologyAssignment:
    """Return a TopologyAssignment; raise FieldError, naming field and value, for what is none."""
    if assignment.get("slices") is None:
        raise FieldError("slices", "nothing is known of the domains")
    levels = _list(assignment, "levels", "", str)
    domains: list[TopologyDomainAssignment] = []
    for place, one in enumerate(objects_in(assignment, "slices", "")):
        domains += _domains(one, f"slices[{place}].", len(levels))
    return TopologyAssignment(tuple(levels), tuple(domains))


def _domains(one: Mapping[str, Any], at: str, levels: int) -> list[TopologyDomainAssignment]:
    """Return the domains of a slice."""
    count: object = one.get("domainCount")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise FieldError(f"{at}domainCount", f"not a number of domains: {abbreviated(count)}")
    columns = [
        _values(each, f"{at}valuesPerLevel[{place}].", count)
        for place, each in enumerate(objects_in(one, "valuesPerLevel", at))
    ]
    if len(columns) != levels:
        raise FieldError(f"{at}valuesPerLevel", f"not of {levels} levels, but of {len(columns)}")
    pods = object_in(one, "podCounts", at)
    each: object = pods.get("universal")
    counts = [each] * count if isinstance(each, int) else _list(pods, "individual", f"{at}podCounts.", int, count)
    return [
        TopologyDomainAssignment(values, pods) for values, pods in zip(zip(*columns, strict=True), counts, strict=True)
    ]


def _values(one: Mapping[str, Any], at: str, count: int) -> list[str]:
    """Return the values of the domains of a slice at one level."""
    if one.get("universal") is not None:
        return [string_in(one, "universal", at)] * count
    own = object_in(one, "individual", at)
    prefix, suffix = string_in(own, "prefix", f"{at}individual."), string_in(own, "suffix", f"{at}individual.")
    return [f"{prefix}{root}{suffix}" for root in _list(own, "roots", f"{at}individual.", str, count)]


def _list(owner: Mapping[str, Any], name: str, at: str, kind: type[T], length: int | None = None) -> list[T]:
    """Return a list of values of one kind, of that length where it is given."""
    value: object = owner.get(name)
    found = cast("list[object]", value) if isinstance(value, list) else None
    if found is None or length not in {None, len(found)} or not all(isinstance(one, kind) for one in found):
        raise FieldError(
            f"{at}{name}", f"not a list of {length or 'such'} values: {abbreviated(cast('object', value))}"
        )
    return cast("list[T]", found)

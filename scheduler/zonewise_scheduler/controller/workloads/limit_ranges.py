"""The LimitRanges of a namespace together: what containers get by default, and the bounds of containers and pods.

Of several values the first default counts, the smallest maximum and the largest minimum (Kueue's
pkg/util/limitrange/limitrange.go Summarize, ValidatePodSpec).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, quantities_in
from zonewise_common.k8s.podspec import containers
from zonewise_scheduler.nodes.node.pod_requests import pod_milli_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_scheduler.controller.types import Json

Quantities = dict[str, Any]
"""As objects have them, by resource."""
Amounts = dict[str, int]
"""In thousandths of the unit, by resource."""


class ContainerDefaults(NamedTuple):
    """What containers get that do not say otherwise."""

    requests: Quantities
    limits: Quantities


def container_defaults(ranges: Iterable[Json]) -> ContainerDefaults:
    """Return the defaults of some LimitRanges; raise FieldError for an invalid one."""
    requests: Quantities = {}
    limits: Quantities = {}
    for item, path in _items(ranges, "Container"):
        requests = {**object_in(item, "defaultRequest", path), **requests}
        limits = {**object_in(item, "default", path), **limits}
    return ContainerDefaults(requests, limits)


def check_pod(spec: Json, path: str, ranges: Iterable[Json]) -> None:
    """Raise FieldError for the spec of a pod, with all its defaults, that the API server would reject.

    A container requests no more than its limit, and no LimitRange is violated. `path`: of the spec.
    """
    ranges = tuple(ranges)
    smallest, largest = _bounds(ranges, "Container")
    for _, container, within in containers(spec):
        field = path + within.removeprefix("spec.").removesuffix(".")
        resources = object_in(container, "resources", f"{field}.")
        requests, limits = (quantities_in(resources, name, f"{field}.resources.") for name in ("requests", "limits"))
        _check(field, requests, limits, "requests must not exceed its limits")
        _check_bounds(field, _merged(requests, limits, min), _merged(requests, limits, max), smallest, largest)
    smallest, largest = _bounds(ranges, "Pod")
    total = pod_milli_requests({"spec": spec})
    _check_bounds(path.removesuffix("."), total, total, smallest, largest)


def _check_bounds(field: str, least: Amounts, most: Amounts, smallest: Amounts, largest: Amounts) -> None:
    _check(field, most, largest, "requests must not be above the limitRange max")
    _check(field, smallest, least, "requests must not be below the limitRange min")


def _check(field: str, amounts: Amounts, bounds: Mapping[str, int], problem: str) -> None:
    """Raise FieldError where an amount is above its bound."""
    above = sorted(name for name, amount in amounts.items() if amount > bounds.get(name, amount))
    if above:
        raise FieldError(field, f"{', '.join(above)}: {problem}")


def _bounds(ranges: Iterable[Json], kind: str) -> tuple[Amounts, Amounts]:
    smallest: Amounts = {}
    largest: Amounts = {}
    for item, path in _items(ranges, kind):
        smallest = _merged(smallest, quantities_in(item, "min", path), max)
        largest = _merged(largest, quantities_in(item, "max", path), min)
    return smallest, largest


def _merged(first: Amounts, second: Amounts, choose: Callable[[int, int], int]) -> Amounts:
    both = first.keys() & second.keys()
    return first | second | {name: choose(first[name], second[name]) for name in both}


def _items(ranges: Iterable[Json], kind: str) -> Iterable[tuple[Json, str]]:
    """Yield the limits of a kind of object, each with its path."""
    for obj in ranges:
        path = f"LimitRange {obj['metadata']['name']:.80}: spec."
        for index, item in enumerate(objects_in(object_in(obj, "spec", path), "limits", path)):
            if item.get("type") == kind:
                yield item, f"{path}limits[{index}]."

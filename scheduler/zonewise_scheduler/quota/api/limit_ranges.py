"""All LimitRanges of a namespace combined: the defaults for containers, and the bounds of containers and pods.

Of several values, the first default, the smallest maximum and the largest minimum count (Kueue's
pkg/util/limitrange/limitrange.go Summarize, ValidatePodSpec). A pod is checked as in the API server: with its limits
and its requests, but without overhead (plugin/pkg/admission/limitranger/admission.go podRequests, podLimits,
maxConstraint).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, quantities_in
from zonewise_common.k8s.podspec import containers
from zonewise_scheduler.nodes.node.pod_requests import pod_milli_requests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from zonewise_common.k8s.tolerant import Json

Quantities = dict[str, Any]
"""Quantities by resource, in the format of the API."""
Amounts = dict[str, int]
"""Amounts by resource, in thousandths of the unit."""


class ContainerDefaults(NamedTuple):
    """Defaults for containers that do not specify a value."""

    requests: Quantities
    limits: Quantities


class _Bounds(NamedTuple):
    """Bounds of amounts, by resource."""

    smallest: Amounts
    largest: Amounts
    ratios: Amounts
    """Maximum ratios of limits to requests, in thousandths."""


def container_defaults(ranges: Iterable[Json]) -> ContainerDefaults:
    """Return the defaults of some LimitRanges. Raises FieldError for an invalid one."""
    requests: Quantities = {}
    limits: Quantities = {}
    for item, path in _items(ranges, "Container"):
        requests = {**object_in(item, "defaultRequest", path), **requests}
        limits = {**object_in(item, "default", path), **limits}
    return ContainerDefaults(requests, limits)


def check_requests(spec: Json, path: str) -> None:
    """Raise FieldError for a pod spec that requests more than a limit, of a container or of the pod.

    The API server rejects such pods, but not the templates of custom resources. `path`: path of the spec.
    Source: pkg/workload/resources.go ValidateResources.
    """
    _check_limits(spec, path.removesuffix("."))
    for _, container, within in containers(spec):
        _check_limits(container, path + within.removeprefix("spec.").removesuffix("."))


def _check_limits(owner: Json, field: str) -> None:
    resources = object_in(owner, "resources", f"{field}.")
    if resources.get("limits") and resources.get("requests", resources["limits"]) != resources["limits"]:
        requests, limits = (quantities_in(resources, name, f"{field}.resources.") for name in ("requests", "limits"))
        _check(field, requests, limits, "requests must not exceed its limits")


def check_pod(spec: Json, path: str, ranges: Iterable[Json]) -> None:
    """Raise FieldError for a pod spec, completed with all defaults, that violates a LimitRange.

    `path`: path of the spec.
    """
    ranges = tuple(ranges)
    bounds = _bounds(ranges, "Container")
    for _, container, within in containers(spec):
        field = path + within.removeprefix("spec.").removesuffix(".")
        resources = object_in(container, "resources", f"{field}.")
        requests, limits = (quantities_in(resources, name, f"{field}.resources.") for name in ("requests", "limits"))
        _check_bounds(field, limits | requests, limits, bounds)  # by default, a limit is the request (SetDefaults_Pod)
    bounds = _bounds(ranges, "Pod")
    if not any(bounds):
        return
    field, requests, limits = path.removesuffix("."), _total_requests(spec), _total_limits(spec)
    _check_present(field, bounds.smallest, requests, "must have requests: there is a limitRange min")
    _check_present(field, bounds.largest, limits, "must have limits: there is a limitRange max")
    _check_bounds(field, requests, limits, bounds)


def _total_requests(spec: Json) -> Amounts:
    return dict(pod_milli_requests({"spec": {**spec, "overhead": None}}))


def _total_limits(spec: Json) -> Amounts:
    """Return the sum of the limits of all containers, which is computed like the sum of their requests."""
    of_containers = {
        name: [_with_limits_as_requests(container) for container in objects_in(spec, name, "spec.")]
        for name in ("initContainers", "containers")
    }
    return _total_requests({**_with_limits_as_requests(spec), **of_containers})


def _with_limits_as_requests(owner: Json) -> Json:
    resources = object_in(owner, "resources", "spec.")
    return {**owner, "resources": {"requests": object_in(resources, "limits", "spec.resources.")}}


def _check_present(field: str, bounds: Amounts, amounts: Amounts, problem: str) -> None:
    """Raise FieldError if a resource with a bound has no amount."""
    absent = sorted(bounds.keys() - amounts.keys())
    if absent:
        raise FieldError(field, f"{', '.join(absent)}: {problem}")


def _check_bounds(field: str, requests: Amounts, limits: Amounts, bounds: _Bounds) -> None:
    smallest, largest, ratios = bounds
    _check(field, _merged(requests, limits, max), largest, "requests must not be above the limitRange max")
    _check(field, smallest, _merged(requests, limits, min), "requests must not be below the limitRange min")
    most = {name: requests.get(name, 0) * ratio // 1000 for name, ratio in ratios.items()}
    problem = "limits must not be above the limitRange maxLimitRequestRatio times the requests"
    # no limit and a limit of 0 violate any ratio (limitRequestRatioConstraint)
    _check(field, {name: limits.get(name, 0) or most[name] + 1 for name in ratios}, most, problem)


def _check(field: str, amounts: Amounts, bounds: Mapping[str, int], problem: str) -> None:
    """Raise FieldError if an amount exceeds its bound."""
    above = sorted(name for name, amount in amounts.items() if amount > bounds.get(name, amount))
    if above:
        raise FieldError(field, f"{', '.join(above)}: {problem}")


def _bounds(ranges: Iterable[Json], kind: str) -> _Bounds:
    bounds = _Bounds({}, {}, {})
    for item, path in _items(ranges, kind):
        bounds = _Bounds(
            _merged(bounds.smallest, quantities_in(item, "min", path), max),
            _merged(bounds.largest, quantities_in(item, "max", path), min),
            _merged(bounds.ratios, quantities_in(item, "maxLimitRequestRatio", path), min),
        )
    return bounds


def _merged(first: Amounts, second: Amounts, choose: Callable[[int, int], int]) -> Amounts:
    both = first.keys() & second.keys()
    return first | second | {name: choose(first[name], second[name]) for name in both}


def _items(ranges: Iterable[Json], kind: str) -> Iterable[tuple[Json, str]]:
    """Yield the limits for one kind of object, each with its path."""
    for obj in ranges:
        path = f"LimitRange {obj['metadata']['name']:.80}: spec."
        for index, item in enumerate(objects_in(object_in(obj, "spec", path), "limits", path)):
            if item.get("type") == kind:
                yield item, f"{path}limits[{index}]."

"""What a pod requests of a node as a whole, as NodeResourcesFit counts it (pkg/scheduler/framework/types.go Resource).

Quantities are added in thousandths of their unit and rounded up once. Requests are defaulted as the API server does for
pods (pkg/apis/core/v1/defaults.go SetDefaults_Pod), so that a template counts as its pods will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import object_in, objects_in, quantities_in, string_in
from zonewise_common.k8s.podspec import containers
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod_requests import (
    aggregate_container_requests,
    combine_pod_requests,
    default_pod_resources,
)
from zonewise_scheduler.admission.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_compute,
    is_scalar_resource_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.fields import Json
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod_requests import Sums

NO_RESOURCES = Resource(0, 0, 0, 0)

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Resources that are a DeviceClass by name (pkg/apis/resource ResourceDeviceClassPrefix) are not the node's to give."""


def pod_requests(pod: Mapping[str, Any]) -> Resource:
    """Return what a pod, or a template of one, that is yet to be placed requests; `pods` is 1.

    Raises FieldError, naming field and value, for what is no quantity.
    """
    return _room(pod_milli_requests(pod))


def pod_milli_requests(pod: Mapping[str, Any]) -> Sums:
    """Return the same by resource in thousandths of its unit, with all that is named, though nothing of it is wanted.

    Raises FieldError, as pod_requests.
    """
    return _requests(object_in(pod, "spec", ""), {})


def bound_pod_requests(pod: Mapping[str, Any]) -> Resource:
    """Return what a pod on a node counts for: where it is resized in place, the most of what it asks for and has.

    Raises FieldError, as pod_requests. helpers.go determineEffectiveRequests; the gates InPlacePodVerticalScaling (on
    since 1.33) and InPlacePodLevelResourcesVerticalScaling (on since 1.36) are taken to be on.
    """
    return _room(_requests(object_in(pod, "spec", ""), object_in(pod, "status", "")))


def new_resource(thousandths: Sums) -> Resource:
    """Return amounts as a Resource: without what no scheduler counts."""
    sizes = {name: -(-amount // 1000) for name, amount in thousandths.items() if name != CPU}
    others = tuple(sorted((name, size) for name, size in sizes.items() if size and is_scalar_resource_name(name)))
    return Resource(
        thousandths.get(CPU, 0), sizes.get(MEMORY, 0), sizes.get(PODS, 0), sizes.get(EPHEMERAL_STORAGE, 0), others
    )


def requests_device_class(spec: Json) -> bool:
    """Tell whether any container requests a resource that is a DeviceClass by name; raise FieldError."""
    return any(name.startswith(DEVICE_CLASS) for _, requests in _containers(spec, {}) for name in requests)


def _room(thousandths: Sums) -> Resource:
    counted = {name: amount for name, amount in thousandths.items() if not name.startswith(DEVICE_CLASS)}
    return new_resource(counted)._replace(pods=1)


def _requests(spec: Json, status: Json) -> Sums:
    together = aggregate_container_requests((role, requests.items()) for role, requests in _containers(spec, status))
    own = _pod_level(spec, together)
    if own and status.get("resources") is not None:
        resources = object_in(status, "resources", "status.")
        had = (
            quantities_in(resources, "requests", "status.resources."),
            quantities_in(status, "allocatedResources", "status."),
        )
        effective = _effective(status, own, *had)
        own = {name: effective.get(name, 0) for name in own}
    return combine_pod_requests(together, own, quantities_in(spec, "overhead", "spec.").items())


def _containers(spec: Json, status: Json) -> Iterator[tuple[Role, Sums]]:
    """Yield the roles and requests of the containers; by what they have, where a status tells."""
    had = {
        string_in(one, "name", "status."): one
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in objects_in(status, kind, "status.")
    }
    for role, one, at in containers(spec):
        resources = object_in(one, "resources", at)
        limits, requests = (quantities_in(resources, name, f"{at}resources.") for name in ("limits", "requests"))
        requests = limits | requests
        found = had.get(string_in(one, "name", at))
        if found is not None and role != "init" and found.get("resources") is not None:
            actual = quantities_in(object_in(found, "resources", "status."), "requests", "status.resources.")
            requests = _effective(status, requests, actual, quantities_in(found, "allocatedResources", "status."))
        yield role, requests


def _pod_level(spec: Json, together: Sums) -> Sums:
    """Return the pod's own requests with their defaults."""
    resources = object_in(spec, "resources", "spec.")
    requests, limits = (
        {name: amount for name, amount in quantities_in(resources, kind, "spec.resources.").items() if is_compute(name)}
        for kind in ("requests", "limits")
    )
    return default_pod_resources(requests, limits, together)[0]


def _effective(status: Json, asked: Sums, actual: Sums, allocated: Sums) -> Sums:
    """Return the most of each, without what is asked for where the kubelet has said that it never can."""
    conditions = objects_in(status, "conditions", "status.")
    pending = [one.get("reason") for one in conditions if one.get("type") == "PodResizePending"]
    found = {} if pending[:1] == ["Infeasible"] else dict(asked)
    for amount_by_name in (actual, allocated):
        for name, amount in amount_by_name.items():
            found[name] = max(found.get(name, amount), amount)
    return found

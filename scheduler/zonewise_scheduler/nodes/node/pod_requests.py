"""The requests of a pod on a node, as NodeResourcesFit counts them (pkg/scheduler/framework/types.go Resource).

Quantities are added in thousandths of their unit and rounded up once. Requests include the API server's defaults for
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
from zonewise_scheduler.nodes.devices.class_resource import DEVICE_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_common.k8s.podspec import Role
    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.admission.pod_requests import Sums

NO_RESOURCES = Resource(0, 0, 0, 0)


def pod_requests(pod: Mapping[str, Any]) -> Resource:
    """Return the requests of a pod without a node, or of a template; `pods` is 1.

    Raises FieldError, which names field and value, for an invalid quantity.
    """
    return _to_resource(pod_milli_requests(pod))


def pod_milli_requests(pod: Mapping[str, Any]) -> Sums:
    """Return the requests by resource in thousandths of its unit, with every resource that the pod names, even with 0.

    Raises FieldError, as pod_requests does.
    """
    return _requests(object_in(pod, "spec", ""), {})


def bound_pod_requests(pod: Mapping[str, Any]) -> Resource:
    """Return the requests of a pod on a node; during an in-place resize, the maximum of desired, actual and allocated.

    Raises FieldError, as pod_requests does. Source: helpers.go determineEffectiveRequests. The gates
    InPlacePodVerticalScaling (on since 1.33) and InPlacePodLevelResourcesVerticalScaling (on since 1.36) are assumed to
    be on.
    """
    return _to_resource(_requests(object_in(pod, "spec", ""), object_in(pod, "status", "")))


def new_resource(thousandths: Sums) -> Resource:
    """Return amounts as a Resource (NewResource), without resources that the scheduler does not count."""
    sizes = {name: -(-amount // 1000) for name, amount in thousandths.items() if name != CPU}
    scalar_resources = tuple(
        sorted((name, size) for name, size in sizes.items() if size and is_scalar_resource_name(name))
    )
    return Resource(
        thousandths.get(CPU, 0),
        sizes.get(MEMORY, 0),
        sizes.get(PODS, 0),
        sizes.get(EPHEMERAL_STORAGE, 0),
        scalar_resources,
    )


def requests_device_class(spec: Json) -> bool:
    """Return whether any container requests a resource that names a DeviceClass. Raises FieldError."""
    return any(
        name.startswith(DEVICE_CLASS)
        for _, container, path in containers(spec)
        for kind in ("limits", "requests")
        for name in object_in(object_in(container, "resources", path), kind, f"{path}resources.")
    )


def device_class_requests(pod: Mapping[str, Any]) -> Sums:
    """Return the requests for resources that name a DeviceClass, in thousandths of a device. Raises FieldError."""
    if not requests_device_class(object_in(pod, "spec", "")):
        return {}
    return {name: amount for name, amount in pod_milli_requests(pod).items() if name.startswith(DEVICE_CLASS)}


def with_claimed_devices(thousandths: Mapping[str, int], devices: Mapping[str, int]) -> dict[str, int]:
    """Return requests in thousandths with the devices that the claims of a pod request; `devices`: by DeviceClass."""
    requests = dict(thousandths)
    for device_class, count in devices.items():
        name = f"{DEVICE_CLASS}{device_class}"
        requests[name] = requests.get(name, 0) + 1000 * count
    return requests


def _to_resource(thousandths: Sums) -> Resource:
    counted = {name: amount for name, amount in thousandths.items() if not name.startswith(DEVICE_CLASS)}
    return new_resource(counted)._replace(pods=1)


def _requests(spec: Json, status: Json) -> Sums:
    container_requests = aggregate_container_requests(
        (role, requests.items()) for role, requests in _containers(spec, status)
    )
    pod_level = _pod_level_requests(spec, container_requests)
    if pod_level and status.get("resources") is not None:
        resources = object_in(status, "resources", "status.")
        actual_and_allocated = (
            quantities_in(resources, "requests", "status.resources."),
            quantities_in(status, "allocatedResources", "status."),
        )
        effective = _effective_requests(status, pod_level, *actual_and_allocated)
        pod_level = {name: effective.get(name, 0) for name in pod_level}
    return combine_pod_requests(container_requests, pod_level, quantities_in(spec, "overhead", "spec.").items())


def _containers(spec: Json, status: Json) -> Iterator[tuple[Role, Sums]]:
    """Yield the roles and requests of the containers, according to their status if there is one."""
    statuses = {
        string_in(entry, "name", "status."): entry
        for kind in ("containerStatuses", "initContainerStatuses")
        for entry in objects_in(status, kind, "status.")
    }
    for role, container, path in containers(spec):
        resources = object_in(container, "resources", path)
        limits, requests = (quantities_in(resources, name, f"{path}resources.") for name in ("limits", "requests"))
        requests = limits | requests
        container_status = statuses.get(string_in(container, "name", path))
        if container_status is not None and role != "init" and container_status.get("resources") is not None:
            actual = quantities_in(object_in(container_status, "resources", "status."), "requests", "status.resources.")
            requests = _effective_requests(
                status, requests, actual, quantities_in(container_status, "allocatedResources", "status.")
            )
        yield role, requests


def _pod_level_requests(spec: Json, container_requests: Sums) -> Sums:
    """Return the pod-level requests with their defaults."""
    resources = object_in(spec, "resources", "spec.")
    requests, limits = (
        {name: amount for name, amount in quantities_in(resources, kind, "spec.resources.").items() if is_compute(name)}
        for kind in ("requests", "limits")
    )
    return default_pod_resources(requests, limits, container_requests)[0]


def _effective_requests(status: Json, requested: Sums, actual: Sums, allocated: Sums) -> Sums:
    """Return the maximum for each resource, without desired amounts if the kubelet reports the resize infeasible."""
    conditions = objects_in(status, "conditions", "status.")
    pending = [condition.get("reason") for condition in conditions if condition.get("type") == "PodResizePending"]
    effective = {} if pending[:1] == ["Infeasible"] else dict(requested)
    for amounts in (actual, allocated):
        for name, amount in amounts.items():
            effective[name] = max(effective.get(name, amount), amount)
    return effective

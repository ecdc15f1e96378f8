"""What a pod requests of a node as a whole, as NodeResourcesFit counts it (pkg/scheduler/framework/types.go Resource).

Quantities are added in thousandths of their unit and rounded up once. Requests are defaulted as the API server does for
pods (pkg/apis/core/v1/defaults.go SetDefaults_Pod), so that a template counts as its pods will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_scheduler.fit.model.fields import amounts, containers, part, parts, text
from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.model.requests import defaulted, peak, whole
from zonewise_scheduler.fit.model.resources import CPU, MEMORY, PODS, STORAGE, is_compute, is_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.fit.model.fields import Json
    from zonewise_scheduler.fit.model.pod import Role
    from zonewise_scheduler.fit.model.requests import Sums

NOTHING = Room(0, 0, 0, 0)

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Resources that are a DeviceClass by name (pkg/apis/resource ResourceDeviceClassPrefix) are not the node's to give."""


def pod_requests(pod: Mapping[str, Any]) -> Room:
    """Return what a pod, or a template of one, that is yet to be placed requests; `pods` is 1.

    Raises FieldError, naming field and value, for what is no quantity.
    """
    return _room(pod_sums(pod))


def pod_sums(pod: Mapping[str, Any]) -> Sums:
    """Return the same by resource in thousandths of its unit, with all that is named, though nothing of it is wanted.

    Raises FieldError, as pod_requests.
    """
    return _requests(part(pod, "spec", ""), {})


def held_requests(pod: Mapping[str, Any]) -> Room:
    """Return what a pod on a node counts for: where it is resized in place, the most of what it asks for and has.

    Raises FieldError, as pod_requests. helpers.go determineEffectiveRequests; the gates InPlacePodVerticalScaling (on
    since 1.33) and InPlacePodLevelResourcesVerticalScaling (on since 1.36) are taken to be on.
    """
    return _room(_requests(part(pod, "spec", ""), part(pod, "status", "")))


def room_of(thousandths: Sums) -> Room:
    """Return amounts as a Resource: without what no scheduler counts."""
    sizes = {name: -(-amount // 1000) for name, amount in thousandths.items() if name != CPU}
    others = tuple(sorted((name, size) for name, size in sizes.items() if size and is_scalar(name)))
    return Room(thousandths.get(CPU, 0), sizes.get(MEMORY, 0), sizes.get(PODS, 0), sizes.get(STORAGE, 0), others)


def names_device_class(spec: Json) -> bool:
    """Tell whether any container requests a resource that is a DeviceClass by name; raise FieldError."""
    return any(name.startswith(DEVICE_CLASS) for _, requests in _containers(spec, {}) for name in requests)


def _room(thousandths: Sums) -> Room:
    counted = {name: amount for name, amount in thousandths.items() if not name.startswith(DEVICE_CLASS)}
    return room_of(counted)._replace(pods=1)


def _requests(spec: Json, status: Json) -> Sums:
    together = peak((role, requests.items()) for role, requests in _containers(spec, status))
    own = _pod_level(spec, together)
    if own and status.get("resources") is not None:
        resources = part(status, "resources", "status.")
        had = (amounts(resources, "requests", "status.resources."), amounts(status, "allocatedResources", "status."))
        effective = _effective(status, own, *had)
        own = {name: effective.get(name, 0) for name in own}
    return whole(together, own, amounts(spec, "overhead", "spec.").items())


def _containers(spec: Json, status: Json) -> Iterator[tuple[Role, Sums]]:
    """Yield the roles and requests of the containers; by what they have, where a status tells."""
    had = {
        text(one, "name", "status."): one
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in parts(status, kind, "status.")
    }
    for role, one, at in containers(spec):
        resources = part(one, "resources", at)
        limits, requests = (amounts(resources, name, f"{at}resources.") for name in ("limits", "requests"))
        requests = limits | requests
        found = had.get(text(one, "name", at))
        if found is not None and role != "init" and found.get("resources") is not None:
            actual = amounts(part(found, "resources", "status."), "requests", "status.resources.")
            requests = _effective(status, requests, actual, amounts(found, "allocatedResources", "status."))
        yield role, requests


def _pod_level(spec: Json, together: Sums) -> Sums:
    """Return the pod's own requests with their defaults."""
    resources = part(spec, "resources", "spec.")
    requests, limits = (
        {name: amount for name, amount in amounts(resources, kind, "spec.resources.").items() if is_compute(name)}
        for kind in ("requests", "limits")
    )
    return defaulted(requests, limits, together)[0]


def _effective(status: Json, asked: Sums, actual: Sums, allocated: Sums) -> Sums:
    """Return the most of each, without what is asked for where the kubelet has said that it never can."""
    conditions = parts(status, "conditions", "status.")
    pending = [one.get("reason") for one in conditions if one.get("type") == "PodResizePending"]
    found = {} if pending[:1] == ["Infeasible"] else dict(asked)
    for amount_by_name in (actual, allocated):
        for name, amount in amount_by_name.items():
            found[name] = max(found.get(name, amount), amount)
    return found

"""The devices that the pods of a Workload request through ResourceClaimTemplates, by DeviceClass (KEP-2941).

Only the number of devices counts. A ResourceClaim that pods share counts nothing, nor does one with admin access.
Nothing counts where templates cannot be read: before Kubernetes 1.34, or without the permission to list them.
Source: pkg/dra/claims.go GetResourceRequestsForResourceClaimTemplates, countDevicesPerClass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError, FieldReader, object_in, objects_in, string_in
from zonewise_scheduler.nodes.node.pod_requests import requests_device_class
from zonewise_scheduler.quota.api.pod_set_manifest import pod_set_objects, with_pod_sets
from zonewise_scheduler.quota.api.workload_reader import DEVICE_REQUESTS, PLACED_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_common.k8s.tolerant import Json


def with_device_requests(workload: Json, templates: Mapping[str, Json] | None, *, placed: bool = False) -> Json:
    """Return a Workload with the devices of its pods; the same Workload if they request none. Raises FieldError.

    `templates`: the ResourceClaimTemplates of its namespace by name; None: they cannot be read. A claim that cannot be
    counted counts nothing. `placed`: placements count the devices too, as well as requests that name a DeviceClass.
    """
    return with_pod_sets(workload, lambda pod_set, path: _with_devices(pod_set, path, templates or {}, placed=placed))


def _with_devices(pod_set: Json, path: str, templates: Mapping[str, Json], *, placed: bool) -> Json:
    devices = _sum(devices for _, _, devices in _claims(pod_set, path, templates))
    spec = object_in(object_in(pod_set, "template", path), "spec", f"{path}template.")
    if not devices and not (placed and requests_device_class(spec)):
        return pod_set
    return {**pod_set, DEVICE_REQUESTS: devices, PLACED_DEVICES: placed}


def check_device_requests(workload: Json, templates: Mapping[str, Json] | None) -> None:
    """Raise FieldError for a claim of a Workload's pods that cannot be counted, unless no template can be read."""
    if templates is None:
        return
    for pod_set, path in pod_set_objects(workload):
        for field, problem, _ in _claims(pod_set, path, templates):
            if problem:
                raise FieldError(field, problem)


def claimed_devices(names: Iterable[str], templates: Mapping[str, Json]) -> Mapping[str, int]:
    """Return the number of devices by DeviceClass of claims that are made from these ResourceClaimTemplates.

    A claim that cannot be counted counts nothing.
    """
    return _sum(_count(name, templates)[1] for name in names)


def _claims(pod_set: Json, path: str, templates: Mapping[str, Json]) -> Iterator[tuple[str, str, Mapping[str, int]]]:
    """Yield the field, the problem and the devices of each claim of a pod set that is made from a template."""
    path += "template.spec."
    spec = object_in(object_in(pod_set, "template", path), "spec", path)
    for i, claim in enumerate(objects_in(spec, "resourceClaims", path)):
        field = f"{path}resourceClaims[{i}].resourceClaimTemplateName"
        name = string_in(claim, "resourceClaimTemplateName", f"{path}resourceClaims[{i}].")
        if name:
            yield field, *_count(name, templates)


def _count(name: str, templates: Mapping[str, Json]) -> tuple[str, Mapping[str, int]]:
    """Return the problem and the devices of a claim that is made from a template."""
    if name not in templates:
        return f"ResourceClaimTemplate {name!r:.80} does not exist", {}
    problems: list[str] = []
    devices = _devices(FieldReader(templates[name], "spec.", problems).child("spec").child("devices"))
    return (f"ResourceClaimTemplate {name!r:.80}: {problems[0]}", {}) if problems else ("", devices)


def _devices(reader: FieldReader) -> Mapping[str, int]:
    """Return the number of devices by DeviceClass; report requests whose number of devices is not fixed."""
    devices: list[Mapping[str, int]] = []
    for request in reader.children("requests"):
        if not request.has("exactly"):
            request.report("firstAvailable", "a request for one of several kinds of devices cannot be counted")
            continue
        exactly = request.child("exactly")
        if exactly.flag("adminAccess", default=False):
            continue
        if exactly.text("allocationMode", "ExactCount") != "ExactCount":
            exactly.report("allocationMode", "only ExactCount can be counted")
        devices.append({exactly.text("deviceClassName"): exactly.count("count", 1) or 0})
    return _sum(devices)


def _sum(devices: Iterable[Mapping[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for each in devices:
        for device_class, count in each.items():
            sums[device_class] = sums.get(device_class, 0) + count
    return sums

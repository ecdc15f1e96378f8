"""Reads the objects that add requests to the pods of jobs, or devices to nodes, as the live queue does.

RuntimeClasses, LimitRanges and ResourceClaimTemplates add requests. DeviceClasses and ResourceSlices add devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.nodes.devices.provided_devices import ProvidedDevices, device_resources
from zonewise_scheduler.nodes.devices.resource_slices import decode_slice
from zonewise_scheduler.quota.api.pod_defaults import PodDefaults, build_pod_defaults
from zonewise_scheduler.simulator.inputs.job_objects import DEFAULT_NAMESPACE, object_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.simulator.inputs.documents import Document, Json

GROUPS = {
    "DeviceClass": "resource.k8s.io",
    "LimitRange": "",
    "ResourceClaimTemplate": "resource.k8s.io",
    "ResourceSlice": "resource.k8s.io",
    "RuntimeClass": "node.k8s.io",
}
"""The API group of each kind."""


def read_pod_defaults(documents: Sequence[Document], problems: list[str], *, places_devices: bool) -> PodDefaults:
    """Return what objects add to the requests of pods.

    Claims count only if there are ResourceClaimTemplates. `places_devices`: whether the devices of nodes are known.
    """
    templates = _by_key(documents, "ResourceClaimTemplate", problems)
    runtime_classes = [_runtime_class(obj, problems) for obj in _by_key(documents, "RuntimeClass", problems)]
    limit_ranges = _by_key(documents, "LimitRange", problems)
    return build_pod_defaults(runtime_classes, limit_ranges, templates or None, places_devices=places_devices)


def read_devices(documents: Sequence[Document], problems: list[str]) -> ProvidedDevices | None:
    """Return the devices of ResourceSlices and their classes; None if there are no slices."""
    devices = ProvidedDevices()
    known = False
    for document in documents:
        if document.kind == "ResourceSlice" and _is_served(document):
            known = True
            try:
                read = decode_slice(msgspec.json.encode(document.content))
            except (msgspec.MsgspecError, ValueError) as error:  # ValueError: text that is not Unicode
                problems.append(f"{object_label(document)}: {error}")
            else:
                devices.observe_slice(read.name, read)
    if not known:
        return None
    devices.set_resources(device_resources(_device_class(obj) for obj in _by_key(documents, "DeviceClass", problems)))
    devices.end_listing()
    return devices


def _is_served(document: Document) -> bool:
    """Return whether an object has the group and the version whose fields are read."""
    return document.content.get("apiVersion") == "/".join(filter(None, (GROUPS[document.kind], "v1")))


def _by_key(documents: Sequence[Document], kind: str, problems: list[str]) -> list[Json]:
    """Return the objects of a kind that have a name, each with a namespace; the last of several with one name."""
    objects: dict[tuple[str, str], Json] = {}
    for document in documents:
        if document.kind != kind or not _is_served(document):
            continue
        own: list[str] = []
        reader = FieldReader(document.content, "", own)
        metadata = reader.child("metadata")
        name, namespace = metadata.required_name(), metadata.text("namespace") or DEFAULT_NAMESPACE
        created = metadata.text("creationTimestamp")
        reader.child("spec")
        problems += [f"{object_label(document)}: {problem}" for problem in own]
        if not own:
            identity = {"name": name, "namespace": namespace, "creationTimestamp": created}
            objects[namespace, name] = {**document.content, "metadata": identity}
    return list(objects.values())


def _runtime_class(obj: Json, problems: list[str]) -> Json:
    """Return a RuntimeClass without fields of another type than expected."""
    own: list[str] = []
    reader = FieldReader(obj, "", own)
    scheduling = reader.child("scheduling")
    read = {
        "metadata": obj["metadata"],
        "overhead": {"podFixed": reader.child("overhead").child("podFixed").obj},
        "scheduling": {
            "nodeSelector": scheduling.pairs("nodeSelector"),
            "tolerations": [toleration.obj for toleration in scheduling.children("tolerations")],
        },
    }
    problems += [f"RuntimeClass {obj['metadata']['name']}: {problem}" for problem in own]
    return read


def _device_class(obj: Json) -> Json:
    """Return a DeviceClass without fields of another type than expected: they require nothing of a device."""
    spec = FieldReader(obj, "", []).child("spec")
    selectors = [{"cel": {"expression": each.child("cel").text("expression")}} for each in spec.children("selectors")]
    return {
        "metadata": obj["metadata"],
        "spec": {"extendedResourceName": spec.text("extendedResourceName"), "selectors": selectors},
    }

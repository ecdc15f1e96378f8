"""Objects that add requests to pods, or devices to nodes."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.simulator.inputs.added_requests import GROUPS, read_devices, read_pod_defaults
from zonewise_scheduler.simulator.inputs.documents import Document

Json = dict[str, Any]

OWN = "deviceclass.resource.kubernetes.io/gpus"


def document(kind: str, name: object, namespace: str = "", **fields: Any) -> Document:
    version = "/".join(filter(None, (GROUPS[kind], "v1")))
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return Document("f.yaml", {"apiVersion": version, "kind": kind, "metadata": metadata, **fields})


def device_slice(name: str, devices: int, **spec: Any) -> Document:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": f"d{i}"} for i in range(devices)]
    return document(
        "ResourceSlice", name, spec={"driver": "a.io", "nodeName": "n", "pool": pool, "devices": listed, **spec}
    )


def test_objects_without_a_namespace_are_in_the_default_one() -> None:
    problems: list[str] = []
    documents = [
        document("LimitRange", "a", spec={"limits": []}),
        document("LimitRange", "b", "ns", spec={"limits": []}),
        document("ResourceClaimTemplate", "t", spec={"spec": {}}),
        document("RuntimeClass", "kata", overhead={"podFixed": {"cpu": "1"}}, handler="kata"),
    ]
    defaults = read_pod_defaults(documents, problems, places_devices=True)
    assert {name: len(ranges) for name, ranges in defaults.limit_ranges.items()} == {"default": 1, "ns": 1}
    assert defaults.claim_templates == {"default": {"t": {"spec": {}}}}
    assert defaults.runtime_classes["kata"].overhead == {"cpu": "1"}
    assert defaults.places_devices
    assert problems == []


def test_claims_count_only_if_there_are_templates() -> None:
    assert read_pod_defaults([], [], places_devices=False).claim_templates is None


def test_the_last_of_several_objects_with_a_name_counts() -> None:
    ranges = [document("LimitRange", "a", spec={"limits": [{"type": kind}]}) for kind in ("Pod", "Container")]
    [read] = read_pod_defaults(ranges, [], places_devices=False).limit_ranges["default"]
    assert read["spec"]["limits"] == [{"type": "Container"}]


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (document("RuntimeClass", 4), "RuntimeClass 4: metadata.name: not a string: 4"),
        (document("LimitRange", "a", spec=[]), "LimitRange a: spec: not an object: []"),
        (document("ResourceClaimTemplate", ""), "ResourceClaimTemplate : metadata.name: not a name: ''"),
    ],
)
def test_an_object_that_cannot_be_read_does_not_count(damaged: Document, problem: str) -> None:
    problems: list[str] = []
    defaults = read_pod_defaults([damaged], problems, places_devices=False)
    assert (defaults.limit_ranges, defaults.runtime_classes) == ({}, {})
    assert problems == [f"f.yaml: {problem}"]


def test_damaged_fields_of_a_runtime_class_do_not_count() -> None:
    problems: list[str] = []
    damaged = document("RuntimeClass", "kata", overhead={"podFixed": 3}, scheduling={"tolerations": {}})
    defaults = read_pod_defaults([damaged], problems, places_devices=False)
    assert not any(defaults.runtime_classes["kata"])
    assert problems == [
        "RuntimeClass kata: overhead.podFixed: not an object: 3",
        "RuntimeClass kata: scheduling.tolerations: not a list: {}",
    ]


def test_slices_and_classes_determine_the_devices_of_nodes() -> None:
    problems: list[str] = []
    classes = [
        document("DeviceClass", "gpus", spec={"extendedResourceName": "a.io/gpu"}),
        document("DeviceClass", "none", spec={"selectors": [{"cel": {"expression": 'device.driver == "b.io"'}}]}),
        document("DeviceClass", "any", spec={"selectors": [{"cel": {"expression": 7}}], "extendedResourceName": 4}),
    ]
    devices = read_devices([device_slice("s", 2), *classes], problems)
    assert devices is not None
    counts = devices.counts("n", {})
    assert {counts["a.io/gpu"], counts[OWN], counts[OWN.replace("gpus", "any")]} == {2}
    assert counts[OWN.replace("gpus", "none")] == 0
    assert problems == []


def test_devices_are_unknown_without_slices() -> None:
    assert read_devices([document("DeviceClass", "gpus")], []) is None
    older = device_slice("s", 2)
    older.content["apiVersion"] = "resource.k8s.io/v1beta1"
    assert read_devices([older], []) is None


def test_a_slice_that_cannot_be_read_is_reported() -> None:
    problems: list[str] = []
    devices = read_devices(
        [device_slice("s", 1, driver=3), device_slice("t", 1), document("DeviceClass", "gpus")], problems
    )
    assert devices is not None
    assert devices.counts("n", {}) == {OWN: 1}
    assert problems == ["f.yaml: ResourceSlice s: Expected `str`, got `int` - at `$.spec.driver`"]

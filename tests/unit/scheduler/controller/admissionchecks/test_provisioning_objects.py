"""Objects that are created for Workloads: each maps to its Workload, even once it has been deleted."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.controller.admissionchecks.provisioning_objects import ProvisioningObjects
from zonewise_scheduler.controller.admissionchecks.provisioning_request import POD_TEMPLATES, PROVISIONING_REQUESTS
from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]

REQUEST = ObjectKey(PROVISIONING_REQUESTS, "ns", "r")
TEMPLATE = ObjectKey(POD_TEMPLATES, "ns", "t")


def owned(kind: str, name: str, uid: str) -> Json:
    return {"metadata": {"ownerReferences": [{"kind": kind, "name": name, "uid": uid, "controller": True}]}}


def test_a_template_maps_to_its_workload_before_and_after_the_request() -> None:
    objects = ProvisioningObjects()
    assert objects.set(TEMPLATE, owned("Workload", "w", "u")) == "ns/w"
    assert objects.set(REQUEST, owned("Workload", "w", "u")) == "ns/w"
    assert objects.set(TEMPLATE, owned("ProvisioningRequest", "r", "u-r")) == "ns/w"
    assert objects.set(REQUEST, None) == "ns/w"
    assert objects.set(TEMPLATE, None) == "ns/w"
    assert objects.workload_of(TEMPLATE) == ""
    assert not objects.knows(REQUEST)
    assert not objects.pod_templates("ns")


def test_requests_belong_to_the_workload_that_owns_them() -> None:
    objects = ProvisioningObjects()
    objects.set(REQUEST, owned("Workload", "w", "old"))
    assert list(objects.requests_of("old")) == ["r"]
    objects.set(REQUEST, owned("Workload", "w", "new"))
    assert not objects.requests_of("old")
    assert list(objects.requests_of("new")) == ["r"]


def test_objects_of_other_owners_map_to_no_workload() -> None:
    objects = ProvisioningObjects()
    assert objects.set(TEMPLATE, {"metadata": {}}) == ""
    assert objects.set(REQUEST, owned("Deployment", "w", "u")) == ""
    assert objects.knows(TEMPLATE)
    assert list(objects.pod_templates("ns")) == ["t"]

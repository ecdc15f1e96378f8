"""Devices that pods request through ResourceClaimTemplates."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.device_requests import check_device_requests, with_device_requests
from zonewise_scheduler.quota.api.workload_reader import read_workload

Json = dict[str, Any]


def exactly(device_class: str, count: int | None = None, **fields: Any) -> Json:
    number = {} if count is None else {"count": count}
    return {"name": "r", "exactly": {"deviceClassName": device_class, **number, **fields}}


def template(*requests: Json) -> Json:
    return {"spec": {"devices": {"requests": list(requests)}}}


def workload(*claims: Json) -> Json:
    spec = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "c", **claim} for claim in claims]}
    return {"metadata": {"namespace": "ns", "name": "w"},
            "spec": {"podSets": [{"name": "main", "count": 2, "template": {"spec": spec}}]}}  # fmt: skip


def of_template(name: str) -> Json:
    return {"resourceClaimTemplateName": name}


def devices(obj: Json, templates: Json) -> dict[str, int] | None:
    return with_device_requests(obj, templates)["spec"]["podSets"][0].get("deviceRequests")


def test_the_devices_of_all_claims_add_up_by_class() -> None:
    templates = {"a": template(exactly("gpu", 2), exactly("nic")), "b": template(exactly("gpu", 1))}
    obj = workload(of_template("a"), of_template("b"), of_template("a"))
    check_device_requests(obj, templates)
    assert devices(obj, templates) == {"gpu": 5, "nic": 2}


def test_shared_claims_and_admin_access_count_nothing() -> None:
    templates = {"admin": template(exactly("gpu", 2, adminAccess=True))}
    obj = workload({"resourceClaimName": "shared"}, of_template("admin"))
    check_device_requests(obj, templates)
    assert with_device_requests(obj, templates) is obj


@pytest.mark.parametrize("placed", [True, False])
def test_placements_count_a_resource_that_names_a_class(*, placed: bool) -> None:
    """Also if no template can be read."""
    resource = "deviceclass.resource.kubernetes.io/gpu"
    obj = workload(of_template("t"))
    obj["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {"limits": {resource: "2"}}
    for templates, claimed in ((None, 0), ({"t": template(exactly("gpu", 3))}, 3)):
        read = read_workload(with_device_requests(obj, templates, placed=placed)).workload
        assert read is not None
        assert read.pod_sets[0].requests[resource] == 2 + claimed
        assert read.pod_sets[0].requests_on_node.get(resource, 0) == (2 + claimed if placed else 0)


@pytest.mark.parametrize("placed", [True, False])
def test_placements_count_the_devices_once_those_of_nodes_are_known(*, placed: bool) -> None:
    obj = with_device_requests(workload(of_template("t")), {"t": template(exactly("gpu", 2))}, placed=placed)
    read = read_workload(obj).workload
    assert read is not None
    name = "deviceclass.resource.kubernetes.io/gpu"
    [pod_set] = read.pod_sets
    assert pod_set.requests[name] == 2
    assert pod_set.requests_on_node.get(name) == (2 if placed else None)


def test_nothing_counts_while_templates_cannot_be_read() -> None:
    """So jobs start as they did before the controller counted devices, for example with the role of that version."""
    obj = workload(of_template("t"))
    check_device_requests(obj, None)
    assert with_device_requests(obj, None) is obj


IN_REQUEST = "ResourceClaimTemplate 't': spec.spec.devices.requests[0]"
INVALID: list[tuple[Json, str]] = [
    ({}, "ResourceClaimTemplate 't' does not exist"),
    ({"t": template({"name": "r", "firstAvailable": [{}]})},
     f"{IN_REQUEST}.firstAvailable: a request for one of several kinds of devices cannot be counted: [{{}}]"),
    ({"t": template(exactly("gpu", allocationMode="All"))},
     f"{IN_REQUEST}.exactly.allocationMode: only ExactCount can be counted: 'All'"),
    ({"t": template(exactly("gpu", -1))},
     f"{IN_REQUEST}.exactly.count: negative: -1"),
]  # fmt: skip


@pytest.mark.parametrize(("templates", "problem"), INVALID)
def test_a_claim_that_cannot_be_counted_is_an_error_but_counts_nothing(templates: Json, problem: str) -> None:
    """So a running Workload keeps its quota if a template is deleted."""
    obj = workload(of_template("t"))
    with pytest.raises(FieldError) as error:
        check_device_requests(obj, templates)
    field = "spec.podSets[0].template.spec.resourceClaims[0].resourceClaimTemplateName"
    assert str(error.value) == f"{field}: {problem}"
    assert with_device_requests(obj, templates) is obj


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), max_size=3), max_size=4))
def test_no_device_is_lost_or_counted_twice(claims: list[list[tuple[str, int]]]) -> None:
    templates = {f"t{i}": template(*(exactly(name, count) for name, count in claim)) for i, claim in enumerate(claims)}
    total = Counter[str]()
    for claim in claims:
        for name, count in claim:
            total[name] += count
    assert Counter(devices(workload(*map(of_template, templates)), templates)) == total

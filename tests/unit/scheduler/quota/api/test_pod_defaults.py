"""Workloads are completed with what the API server adds to their pods."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.pod_defaults import (
    NO_POD_DEFAULTS,
    PodDefaults,
    changed_namespaces,
    check_pods,
    runtime_class_defaults,
    with_pod_defaults,
)

Json = dict[str, Any]

OVERHEAD: Json = {"cpu": "250m", "memory": "120Mi"}
SCHEDULING: Json = {"nodeSelector": {"kata": "true"}, "tolerations": [{"key": "kata", "operator": "Exists"}]}
KATA = PodDefaults(
    {"kata": runtime_class_defaults({"overhead": {"podFixed": OVERHEAD}, "scheduling": SCHEDULING})},
)
RANGE: Json = {
    "metadata": {"namespace": "ns", "name": "a"},
    "spec": {
        "limits": [
            {"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"}, "max": {"cpu": "2"}},
        ]
    },
}


def workload(*, resources: Json | None = None, namespace: str = "ns", **spec: Any) -> Json:
    containers = [{"name": "c", **({} if resources is None else {"resources": resources})}]
    pod_set = {"name": "main", "count": 2, "template": {"spec": {"containers": containers, **spec}}}
    return {"metadata": {"namespace": namespace, "name": "w"}, "spec": {"queueName": "l", "podSets": [pod_set]}}


def completed_spec(obj: Json, defaults: PodDefaults) -> Json:
    """Return the completed spec of the pods; the Workload itself is not changed."""
    before = copy.deepcopy(obj)
    completed = with_pod_defaults(obj, defaults)
    assert obj == before
    spec: Json = completed["spec"]["podSets"][0]["template"]["spec"]
    return spec


def test_pods_have_the_overhead_of_their_runtime_class() -> None:
    assert completed_spec(workload(runtimeClassName="kata"), KATA)["overhead"] == OVERHEAD
    own = workload(runtimeClassName="kata", overhead={"cpu": "1"})
    assert completed_spec(own, KATA)["overhead"] == {"cpu": "1"}


def test_pods_have_the_scheduling_constraints_of_their_runtime_class() -> None:
    spec = completed_spec(workload(runtimeClassName="kata"), KATA)
    assert {name: spec[name] for name in SCHEDULING} == SCHEDULING
    own: Json = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "t"}, *SCHEDULING["tolerations"]]}
    spec = completed_spec(workload(runtimeClassName="kata", **own), KATA)
    assert spec["nodeSelector"] == {"a": "b", "kata": "true"}
    assert spec["tolerations"] == own["tolerations"]


def test_a_node_selector_that_contradicts_the_runtime_class_is_rejected() -> None:
    completed = with_pod_defaults(workload(runtimeClassName="kata", nodeSelector={"kata": "false"}), KATA)
    with pytest.raises(
        FieldError, match=r"template\.spec\.nodeSelector: RuntimeClass kata has another value of 'kata'"
    ):
        check_pods(completed, KATA)
    check_pods(with_pod_defaults(workload(runtimeClassName="kata"), KATA), KATA)


@pytest.mark.parametrize("spec", [{}, {"runtimeClassName": "unknown"}, {"runtimeClassName": ""}])
def test_other_pods_have_no_overhead(spec: Json) -> None:
    """An unknown class may exist by the time the pods are created. As in Kueue, the Workload does not wait for it."""
    obj = workload(**spec)
    assert with_pod_defaults(obj, KATA) is obj


@pytest.mark.parametrize(
    ("resources", "requests", "limits"),
    [
        (None, {"cpu": "1"}, {"cpu": "2"}),
        ({"requests": {"cpu": "500m"}}, {"cpu": "500m"}, {"cpu": "2"}),
        ({"limits": {"cpu": "1500m"}}, {"cpu": "1500m"}, {"cpu": "1500m"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "1", "memory": "1Gi"}, {"cpu": "2"}),
    ],
)
def test_containers_have_the_defaults_of_their_namespace(resources: Json | None, requests: Json, limits: Json) -> None:
    defaults = PodDefaults(limit_ranges={"ns": [RANGE]})
    obj = workload(resources=resources, initContainers=[{"name": "i"}])
    spec = completed_spec(obj, defaults)
    assert spec["containers"][0]["resources"] == {"requests": requests, "limits": limits}
    assert spec["initContainers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}


def test_a_workload_without_additions_is_returned_unchanged() -> None:
    whole = workload(resources={"requests": {"cpu": "1"}, "limits": {"cpu": "1"}})
    elsewhere = workload(namespace="other")
    defaults = PodDefaults(limit_ranges={"ns": [RANGE]})
    assert with_pod_defaults(whole, defaults) is whole
    assert with_pod_defaults(elsewhere, defaults) is elsewhere
    assert with_pod_defaults(elsewhere, NO_POD_DEFAULTS) is elsewhere


def test_the_limits_of_another_namespace_do_not_count() -> None:
    defaults = PodDefaults(limit_ranges={"ns": [RANGE]})
    check_pods(workload(resources={"requests": {"cpu": "9"}}, namespace="other"), defaults)
    with pytest.raises(FieldError, match=r"spec\.podSets\[0\]\.template\.spec\.containers\[0\]: cpu: .* max"):
        check_pods(workload(resources={"requests": {"cpu": "9"}}), defaults)


def test_a_request_above_its_limit_is_rejected_without_limit_ranges() -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    with pytest.raises(FieldError, match="requests must not exceed its limits"):
        check_pods(workload(resources=resources), NO_POD_DEFAULTS)
    with pytest.raises(FieldError, match=r"template\.spec: cpu: requests must not exceed its limits"):
        check_pods({**workload(), **_pod_level(resources)}, NO_POD_DEFAULTS)


def _pod_level(resources: Json) -> Json:
    """Return the spec of a Workload whose pods have resources as a whole."""
    pods = {"containers": [{"name": "c"}], "resources": resources}
    return {"spec": {"queueName": "l", "podSets": [{"name": "main", "count": 1, "template": {"spec": pods}}]}}


def test_a_change_concerns_the_namespaces_of_its_limit_ranges_or_all() -> None:
    before = PodDefaults(limit_ranges={"ns": [RANGE]})
    same, more = PodDefaults(limit_ranges={"ns": [RANGE]}), PodDefaults(limit_ranges={"ns": [RANGE], "other": [RANGE]})
    namespaces = ("ns", "other", "third")
    assert not any(map(changed_namespaces(before, same), namespaces))
    assert list(filter(changed_namespaces(before, more), namespaces)) == ["other"]
    assert list(filter(changed_namespaces(before, NO_POD_DEFAULTS), namespaces)) == ["ns"]
    assert all(map(changed_namespaces(before, before._replace(runtime_classes=KATA.runtime_classes)), namespaces))


def test_a_change_concerns_the_namespaces_of_its_claim_templates_or_all_once_they_can_be_read() -> None:
    unread, none = NO_POD_DEFAULTS, PodDefaults(claim_templates={})
    one = PodDefaults(claim_templates={"ns": {"gpus": {}}})
    namespaces = ("ns", "other")
    assert all(map(changed_namespaces(unread, none), namespaces))
    assert list(filter(changed_namespaces(none, one), namespaces)) == ["ns"]
    assert not any(map(changed_namespaces(one, one), namespaces))

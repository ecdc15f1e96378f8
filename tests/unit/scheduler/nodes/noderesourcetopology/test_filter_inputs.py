"""Inputs of filter and score: pods without a QoS class, and invalid objects."""

from __future__ import annotations

from typing import Any

import pytest

from support.nrt_objects import ALLOCATABLE, container, guaranteed, nrt, pod, zone
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.nodes.noderesourcetopology import filter_node, score_node

Json = dict[str, Any]

ZONES = [zone(0, {"cpu": 4, "memory": "8Gi"})]
REQUESTS = {"cpu": "8", "memory": "1Gi"}


def is_guaranteed(pod_object: Json) -> bool:
    """Return whether a pod is rejected: only CPUs of Guaranteed pods are checked, and these pods request too many."""
    return not filter_node(nrt(ZONES, scope="pod"), pod_object, ALLOCATABLE).passes


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": REQUESTS, "limits": REQUESTS}, True),
        ({"requests": REQUESTS}, False),
        ({"requests": REQUESTS, "limits": {"cpu": "8"}}, False),
        ({"requests": REQUESTS, "limits": REQUESTS | {"cpu": "9"}}, False),
        ({"requests": REQUESTS, "limits": REQUESTS | {"memory": "0"}}, False),
        ({"requests": REQUESTS | {"pods": "1"}, "limits": REQUESTS}, True),
    ],
)
def test_computed_qos_class(resources: Json, expected: bool) -> None:
    """A pod is Guaranteed if limits equal requests for CPUs and memory of every container."""
    assert is_guaranteed(pod({"resources": resources})) is expected
    pod_object = pod({"resources": {"requests": REQUESTS}}, resources=resources)
    assert is_guaranteed(pod_object) is expected


def test_qos_class_of_several_containers() -> None:
    assert is_guaranteed(pod(guaranteed(8), init=(guaranteed(1),)))
    assert not is_guaranteed(pod(guaranteed(8), init=(container(),)))


def test_qos_class_of_the_status() -> None:
    assert not is_guaranteed(pod(guaranteed(8)) | {"status": {"qosClass": "Burstable"}})
    assert is_guaranteed(pod({"resources": {"requests": REQUESTS}}) | {"status": {"qosClass": "Guaranteed"}})


def test_qos_class_of_empty_pod_level_resources() -> None:
    assert not is_guaranteed(pod(guaranteed(8), resources={}))


@pytest.mark.parametrize(
    ("pod_object", "problem"),
    [
        ({"spec": []}, "spec: not an object: []"),
        ({"spec": {"containers": {}}}, "spec.containers: not a list: {}"),
        ({"spec": {"containers": [1]}}, "spec.containers[0]: not an object: 1"),
        (pod({"resources": 7}), "spec.containers[0].resources: not an object: 7"),
        (
            pod({"resources": {"requests": {"cpu": "lots"}}}),
            "spec.containers[0].resources.requests.cpu: not a quantity: 'lots'",
        ),
        (pod(guaranteed(1), overhead={"cpu": ""}), "spec.overhead.cpu: not a quantity: ''"),
        (
            pod() | {"status": {"qosClass": "Best"}},
            "status.qosClass: none of Guaranteed, Burstable, BestEffort: 'Best'",
        ),
    ],
)
def test_invalid_pods(pod_object: Json, problem: str) -> None:
    """The error names the field and the value."""
    with pytest.raises(FieldError) as raised:
        filter_node(nrt(ZONES), pod_object, ALLOCATABLE)
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        ({"topologyPolicies": "None"}, "topologyPolicies: not a list: 'None'"),
        (nrt([]) | {"zones": 3}, "zones: not a list: 3"),
        (nrt([zone(0, {"cpu": "?"})]), "zones[0].resources[0].available: not a quantity: '?'"),
        (
            nrt([ZONES[0] | {"costs": [{"name": "node-0", "value": "10"}]}]),
            "zones[0].costs[0].value: not a whole number: '10'",
        ),
    ],
)
def test_invalid_reports(report: Json, problem: str) -> None:
    """The error names the field and the value."""
    with pytest.raises(FieldError) as raised:
        filter_node(report, pod(guaranteed(1)), ALLOCATABLE)
    assert str(raised.value) == problem
    with pytest.raises(FieldError):
        score_node(report, pod(guaranteed(1)), "LeastNUMANodes")


def test_inputs_are_not_changed() -> None:
    """Objects may be shared and passed again."""
    report, pod_object = nrt(ZONES), pod(guaranteed(3), guaranteed(1))
    for _ in range(2):
        assert filter_node(report, pod_object, ALLOCATABLE).passes
        assert score_node(report, pod_object, "LeastNUMANodes").score == 94
    assert report == nrt([zone(0, {"cpu": 4, "memory": "8Gi"})])

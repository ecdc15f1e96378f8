"""Objects as they come: pods without a class, and damage."""

from __future__ import annotations

from typing import Any

import pytest

from support.nrt_objects import ALLOCATABLE, container, guaranteed, nrt, pod, zone
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.nodes.noderesourcetopology import filter_node, score_node

Json = dict[str, Any]

ZONES = [zone(0, {"cpu": 4, "memory": "8Gi"})]
REQUESTS = {"cpu": "8", "memory": "1Gi"}


def guaranteed_by(asked: Json) -> bool:
    """The plugin compares CPUs with zones for Guaranteed pods only; these pods ask for too many."""
    return not filter_node(nrt(ZONES, scope="pod"), asked, ALLOCATABLE).passes


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
def test_the_class_of_a_pod_that_has_none_yet(resources: Json, expected: bool) -> None:
    """Guaranteed: CPUs and memory of every container are limited to what is requested."""
    assert guaranteed_by(pod({"resources": resources})) is expected
    own = pod({"resources": {"requests": REQUESTS}}, resources=resources)
    assert guaranteed_by(own) is expected


def test_every_container_counts() -> None:
    assert guaranteed_by(pod(guaranteed(8), init=(guaranteed(1),)))
    assert not guaranteed_by(pod(guaranteed(8), init=(container(),)))


def test_the_class_that_is_written_counts() -> None:
    assert not guaranteed_by(pod(guaranteed(8)) | {"status": {"qosClass": "Burstable"}})
    assert guaranteed_by(pod({"resources": {"requests": REQUESTS}}) | {"status": {"qosClass": "Guaranteed"}})


def test_empty_resources_of_the_pod_itself_make_it_best_effort() -> None:
    assert not guaranteed_by(pod(guaranteed(8), resources={}))


@pytest.mark.parametrize(
    ("made", "problem"),
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
def test_pods_that_are_none(made: Json, problem: str) -> None:
    """The error names field and value."""
    with pytest.raises(FieldError) as raised:
        filter_node(nrt(ZONES), made, ALLOCATABLE)
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
def test_reports_that_are_none(report: Json, problem: str) -> None:
    """The error names field and value."""
    with pytest.raises(FieldError) as raised:
        filter_node(report, pod(guaranteed(1)), ALLOCATABLE)
    assert str(raised.value) == problem
    with pytest.raises(FieldError):
        score_node(report, pod(guaranteed(1)), "LeastNUMANodes")


def test_nothing_is_changed() -> None:
    """Objects may be shared and asked about again."""
    report, asked = nrt(ZONES), pod(guaranteed(3), guaranteed(1))
    for _ in range(2):
        assert filter_node(report, asked, ALLOCATABLE).passes
        assert score_node(report, asked, "LeastNUMANodes").score == 94
    assert report == nrt([zone(0, {"cpu": 4, "memory": "8Gi"})])

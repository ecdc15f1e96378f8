"""The requests of a pod, and the resources of which its node has too little."""

from __future__ import annotations

import pytest

from support.fit_nodes import GIB, GPU, container, pod
from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape
from zonewise_scheduler.admission.predicate import (
    InsufficientResource,
    compute_pod_resource_request,
    general_filter,
    insufficient_resources,
)

EMPTY = pod(Container("c0", "app"), qos="BestEffort")
TWO = pod(container("a", 1.5, 1), container("b", 0.5, 2, {GPU: 1}))


@pytest.mark.parametrize(
    ("shape", "request_"),
    [
        (PodShape((), "BestEffort"), Resource(0, 0, 1, 0, ())),
        (EMPTY, Resource(0, 0, 1, 0, ())),
        (pod(container(cpus=2)), Resource(2000, 0, 1, 0, ())),
        (TWO, Resource(2000, 3 * GIB, 1, 0, ((GPU, 1),))),
    ],
)
def test_the_requests_of_a_pod(shape: PodShape, request_: Resource) -> None:
    """The requests of all containers are added; a resource without requests is 0, and every pod counts as one pod."""
    assert compute_pod_resource_request(shape) == request_


def test_pod_level_requests_replace_those_of_containers() -> None:
    """The overhead of the runtime class is added."""
    shape = pod(container("c0", 2, 1, {GPU: 1}, pages=1), container("c1", 1, 1)._replace(storage=5))
    scalars = (("hugepages-1Gi", GIB), (GPU, 1))
    assert compute_pod_resource_request(shape) == Resource(3000, 2 * GIB, 1, 5, scalars)
    level = PodLevelResources(4000, (("memory", 3 * GIB),))
    whole = shape._replace(pod_level=level, overhead=(("cpu", 100),))
    assert compute_pod_resource_request(whole) == Resource(4100, 3 * GIB, 1, 5, scalars)


@pytest.mark.parametrize(
    ("available", "short"),
    [
        (Resource(2000, 3 * GIB, 1, 0, ((GPU, 1),)), []),
        (Resource(1999, 3 * GIB, 1, 0, ((GPU, 1),)), [("cpu", 2000, 1999)]),
        (Resource(2000, 3 * GIB - 1, 1, 0, ((GPU, 1),)), [("memory", 3 * GIB, 3 * GIB - 1)]),
        (Resource(2000, 3 * GIB, 0, 0, ((GPU, 1),)), [("pods", 1, 0)]),
        (Resource(2000, 3 * GIB, 1, 0, ()), [(GPU, 1, 0)]),
    ],
)
def test_insufficient_resources(available: Resource, short: list[tuple[str, int, int]]) -> None:
    assert insufficient_resources(TWO, available) == tuple(InsufficientResource(*each) for each in short)
    if not short:
        general_filter(TWO, available)
        return
    with pytest.raises(AdmissionError) as raised:
        general_filter(TWO, available)
    assert raised.value.reason == f"OutOf{short[0][0]}"


def test_a_pod_that_requests_nothing_fits_an_overcommitted_node() -> None:
    """FitsRequest compares only requested resources."""
    shape = pod(container(devices={GPU: 0}), qos="BestEffort")
    assert insufficient_resources(shape, Resource(-1, -1, 1, -1, ((GPU, -1),))) == ()

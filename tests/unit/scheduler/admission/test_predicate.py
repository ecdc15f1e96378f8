"""What a pod requests from a node as a whole."""

from __future__ import annotations

from support.fit_nodes import GIB, GPU, container, pod
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import PodLevelResources
from zonewise_scheduler.admission.predicate import compute_pod_resource_request


def test_a_pod_without_requests_counts_as_a_pod() -> None:
    assert compute_pod_resource_request(pod(container())) == Resource(0, 0, pods=1, ephemeral_storage=0)


def test_requests_of_all_containers() -> None:
    """Pod-level requests replace those of the containers, and the overhead of the runtime class is added."""
    shape = pod(container("c0", 2, 1, {GPU: 1}, pages=1), container("c1", 1, 1)._replace(storage=5))
    scalars = (("hugepages-1Gi", GIB), (GPU, 1))
    assert compute_pod_resource_request(shape) == Resource(3000, 2 * GIB, 1, 5, scalars)
    level = PodLevelResources(4000, (("memory", 3 * GIB),))
    whole = shape._replace(pod_level=level, overhead=(("cpu", 100),))
    assert compute_pod_resource_request(whole) == Resource(4100, 3 * GIB, 1, 5, scalars)

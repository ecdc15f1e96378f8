"""What a pod requests of a node as a whole, and whether it is there.

The kubelet's second question, after the Topology Manager's (pkg/kubelet/lifecycle/predicate.go generalFilter), and the
scheduler's (pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.errors import AdmissionError
from zonewise_scheduler.admission.node import Resource, amounts_by_resource
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests, combine_pod_requests
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import Amounts, Container, PodShape


class InsufficientResource(NamedTuple):
    """A resource of which a node has not enough left."""

    resource: str
    requested: int
    """CPUs in milli-CPU, memory and storage in bytes."""
    available: int


@lru_cache(maxsize=1 << 12)
def compute_pod_resource_request(pod: PodShape) -> Resource:
    """Return what a pod requests, the overhead of the runtime class included; `pods` is 1."""
    own = {} if pod.pod_level is None else dict(pod.pod_level.memory)
    if pod.pod_level is not None and pod.pod_level.milli_cpus is not None:
        own[CPU] = pod.pod_level.milli_cpus
    found = combine_pod_requests(
        aggregate_container_requests((one.role, _requests(one)) for one in pod.containers), own, pod.overhead
    )
    others = tuple(
        sorted((name, size) for name, size in found.items() if name not in {CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
    )
    return Resource(found.get(CPU, 0), found.get(MEMORY, 0), 1, found.get(EPHEMERAL_STORAGE, 0), others)


def _requests(container: Container) -> Amounts:
    own = ((CPU, container.milli_cpus), (EPHEMERAL_STORAGE, container.storage))
    return (*own, *container.memory, *container.devices)


def insufficient_resources(pod: PodShape, available: Resource) -> tuple[InsufficientResource, ...]:
    """Return all that a node has not enough of, in the kubelet's order.

    An extended resource that a node has never had is lacking, as it is to the scheduler. The kubelet alone would pass
    it over (removeMissingExtendedResources), and run the pod without.
    """
    left = dict(amounts_by_resource(available))
    asked = (
        (name, size, left.get(name, 0))
        for name, size in amounts_by_resource(compute_pod_resource_request(pod))
        if size > 0
    )
    return tuple(InsufficientResource(name, size, there) for name, size, there in asked if size > there)


def general_filter(pod: PodShape, available: Resource) -> None:
    """Raise Refusal for the first of what is lacking (predicateAdmitHandler.Admit)."""
    for lack in insufficient_resources(pod, available):
        message = f"Node didn't have enough resource: {lack.resource}, requested: {lack.requested}"
        raise AdmissionError(f"OutOf{lack.resource}", message, lack.resource)

"""The check of whether a node as a whole has the resources that a pod requests.

The kubelet checks this after the Topology Manager (pkg/kubelet/lifecycle/predicate.go generalFilter). The scheduler
checks it too (pkg/scheduler/framework/plugins/noderesources/fit.go fitsRequest).
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
    """A resource with too little available on a node."""

    resource: str
    requested: int
    """CPU in milli-CPU, memory and storage in bytes."""
    available: int


@lru_cache(maxsize=1 << 12)
def compute_pod_resource_request(pod: PodShape) -> Resource:
    """Return the requests of a pod, including the overhead of its runtime class; `pods` is 1."""
    pod_level = {} if pod.pod_level is None else dict(pod.pod_level.memory)
    if pod.pod_level is not None and pod.pod_level.milli_cpus is not None:
        pod_level[CPU] = pod.pod_level.milli_cpus
    totals = combine_pod_requests(
        aggregate_container_requests((container.role, _requests(container)) for container in pod.containers),
        pod_level,
        pod.overhead,
    )
    scalar_resources = tuple(
        sorted((name, size) for name, size in totals.items() if name not in {CPU, MEMORY, EPHEMERAL_STORAGE, PODS})
    )
    return Resource(totals.get(CPU, 0), totals.get(MEMORY, 0), 1, totals.get(EPHEMERAL_STORAGE, 0), scalar_resources)


def _requests(container: Container) -> Amounts:
    compute = ((CPU, container.milli_cpus), (EPHEMERAL_STORAGE, container.storage))
    return (*compute, *container.memory, *container.devices)


def insufficient_resources(pod: PodShape, available: Resource) -> tuple[InsufficientResource, ...]:
    """Return every resource that is insufficient on a node, in the kubelet's order.

    An extended resource that the node never had counts as insufficient, as in the scheduler. Only the kubelet drops
    such a request (removeMissingExtendedResources) and runs the pod without the resource.
    """
    amounts = dict(amounts_by_resource(available))
    requests = (
        (name, size, amounts.get(name, 0))
        for name, size in amounts_by_resource(compute_pod_resource_request(pod))
        if size
    )
    return tuple(InsufficientResource(name, size, free) for name, size, free in requests if size > free)


def general_filter(pod: PodShape, available: Resource) -> None:
    """Raise AdmissionError for the first insufficient resource (predicateAdmitHandler.Admit)."""
    for insufficient in insufficient_resources(pod, available):
        message = f"Node didn't have enough resource: {insufficient.resource}, requested: {insufficient.requested}"
        raise AdmissionError(f"OutOf{insufficient.resource}", message, insufficient.resource)

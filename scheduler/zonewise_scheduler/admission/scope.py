"""The Topology Manager's scopes applied to a pod (pkg/kubelet/cm/topologymanager/scope_*.go).

- Scope container aligns and allocates container by container. Each container sees the resources that the previous ones
  left.
- Scope pod aligns once, then allocates container by container from the same zones.
- Policy none allocates without alignment.

Init containers come first. Within a container the order is devices, CPUs, memory. This module imports the managers and
calls them directly; upstream registers them as hint providers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.aligned_requests import container_aligned_request, pod_aligned_request
from zonewise_scheduler.admission.cpumanager import generate_cpu_topology_hints, uses_pod_level_managers
from zonewise_scheduler.admission.cpumanager.policy_static import allocate_container_cpus
from zonewise_scheduler.admission.devicemanager.manager import allocate_container_devices
from zonewise_scheduler.admission.devicemanager.topology_hints import (
    generate_device_topology_hints,
    has_topology_alignment,
    note_doubts,
)
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR, AdmissionError
from zonewise_scheduler.admission.memorymanager.memory_allocation import allocate_container_memory
from zonewise_scheduler.admission.memorymanager.memory_hints import calculate_memory_hints
from zonewise_scheduler.admission.memorymanager.memory_requests import pins_memory
from zonewise_scheduler.admission.pod_level_managers import allocate_pod, empty_shared_pools
from zonewise_scheduler.admission.resource_names import CPU, MEMORY
from zonewise_scheduler.admission.topologymanager.hints import NO_AFFINITY, Hints, TopologyHint
from zonewise_scheduler.admission.topologymanager.numa_info import check_distances, may_panic
from zonewise_scheduler.admission.topologymanager.policy import merge_best_effort, merge_preferred, preferred_affinity
from zonewise_scheduler.admission.wide_affinity import calculate_wide_affinity, is_wide

if TYPE_CHECKING:
    from collections.abc import Collection

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.pod import Container

MISALIGNED = "Resources cannot be allocated with Topology locality"
MISALIGNED_CONTAINER = "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
MISALIGNED_POD = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


class ResourceHints(NamedTuple):
    """The hints that a hint provider returns for one resource of a container."""

    resource: str
    amount: int
    """Number of CPUs, bytes or devices."""
    hints: Hints


def admit_containers(context: AdmissionContext) -> None:
    """Allocate resources to all containers of a pod as policy and scope require; raise AdmissionError if that fails."""
    kind = context.state.kind
    policies = kind.policies
    if policies.topology == "none":
        for container in context.pod.containers:
            aligned = container_aligned_request(context.pod, container, kind)
            _allocate_aligned_resources(context, container, aligned, NO_AFFINITY)
        return
    if policies.scope == "pod":
        _admit_pod(context)
        return
    misaligned = MISALIGNED_CONTAINER if uses_pod_level_managers(context.pod, policies) else MISALIGNED
    for container in context.pod.containers:
        context.container_name = container.name
        aligned = container_aligned_request(context.pod, container, kind)
        _allocate_aligned_resources(context, container, aligned, calculate_affinity(context, aligned, misaligned))


def _admit_pod(context: AdmissionContext) -> None:
    kind = context.state.kind
    aligned = pod_aligned_request(context.pod, kind)
    pod_level = uses_pod_level_managers(context.pod, kind.policies)
    if pod_level:
        empty = empty_shared_pools(context.pod, kind.policies)
        allocate_pod(context, aligned, calculate_affinity(context, aligned, MISALIGNED_POD, empty), empty)
        return
    alignment = calculate_affinity(context, aligned, MISALIGNED)
    for container in context.pod.containers:
        _allocate_aligned_resources(
            context, container, container_aligned_request(context.pod, container, kind), alignment
        )


def calculate_affinity(
    context: AdmissionContext, aligned: AlignedRequest, misaligned: str, empty: Collection[str] = ()
) -> TopologyHint:
    """Return the hint to which the policy aligns a request.

    Raises AdmissionError, with the message `misaligned`, if the policy rejects the request.
    """
    kind = context.state.kind
    policy = kind.policies.topology
    if is_wide(kind, aligned):
        return calculate_wide_affinity(context, aligned, misaligned, empty)
    if may_panic(kind.policies, kind.zones):
        hints = [each.hints for each in resource_hints(context, aligned, empty, include_not_preferred=True)]
        check_distances(kind, hints)
    preferred = resource_hints(context, aligned, empty, include_not_preferred=False)
    zones = merge_preferred(kind, [resource.hints for resource in preferred])
    if zones is not None:
        return preferred_affinity(kind, zones)
    if policy != "best-effort":
        raise AdmissionError(TOPOLOGY_AFFINITY_ERROR, misaligned)
    possible = resource_hints(context, aligned, empty, include_not_preferred=True)
    return TopologyHint(merge_best_effort(kind, [resource.hints for resource in possible]), preferred=False)


def resource_hints(
    context: AdmissionContext, aligned: AlignedRequest, empty: Collection[str] = (), *, include_not_preferred: bool
) -> list[ResourceHints]:
    """Return the hints of each resource that depends on zones: devices, CPUs and each type of memory.

    A resource in `empty` has an empty list of hints, which means that nothing satisfies the request.
    """
    state = context.state
    all_hints: list[ResourceHints] = []
    for resource, count in aligned.devices:
        if has_topology_alignment(state.kind, resource):
            note_doubts(context, resource, count)
            hints = generate_device_topology_hints(
                state, resource, count, context.reusable_devices, include_not_preferred=include_not_preferred
            )
            all_hints.append(ResourceHints(resource, count, hints))
    if aligned.cpus:
        hints = (
            Hints(())
            if CPU in empty
            else generate_cpu_topology_hints(
                state, aligned.cpus, context.reusable_cpus, include_not_preferred=include_not_preferred
            )
        )
        if hints is not None:
            all_hints.append(ResourceHints(CPU, aligned.cpus, hints))
    if aligned.memory:
        hints = (
            Hints(())
            if MEMORY in empty
            else calculate_memory_hints(
                state, aligned.memory, context.reusable_memory, include_not_preferred=include_not_preferred
            )
        )
        if hints is not None:
            all_hints += [ResourceHints(name, size, hints) for name, size in aligned.memory]
    return all_hints


def _allocate_aligned_resources(
    context: AdmissionContext, container: Container, aligned: AlignedRequest, alignment: TopologyHint
) -> None:
    """Allocate resources to one container (scope.go allocateAlignedResources)."""
    context.container_name, context.affinity = container.name, alignment.zones
    if container.devices:
        allocate_container_devices(context, container, alignment.zones)
    if aligned.cpus:
        allocate_container_cpus(context, container, aligned.cpus, alignment.zones)
    if aligned.memory or _fails_without_memory(context):
        allocate_container_memory(context, container, aligned.memory, alignment)


def _fails_without_memory(context: AdmissionContext) -> bool:
    """Return whether the Memory Manager tries to allocate for a container without a memory request; 1.37 skips it.

    Only a pod whose resources are allocated as a whole can have such a container (policy_static.go Allocate).
    """
    policies = context.state.kind.policies
    return (
        policies.release < (1, 37)
        and uses_pod_level_managers(context.pod, policies)
        and pins_memory(context.pod, policies)
    )

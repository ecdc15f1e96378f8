"""The Topology Manager's two scopes, and its absence (pkg/kubelet/cm/topologymanager/scope_*.go).

Scope container aligns and gives container by container, each on what the one before it has left. Scope pod aligns once,
then gives container by container from the same zones. Policy none gives without any alignment. All three go through the
init containers first, and within one container give devices, then CPUs, then memory.
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
)
from zonewise_scheduler.admission.errors import TOPOLOGY_AFFINITY_ERROR, AdmissionError
from zonewise_scheduler.admission.memorymanager.memory_allocation import allocate_container_memory
from zonewise_scheduler.admission.memorymanager.memory_hints import calculate_memory_hints
from zonewise_scheduler.admission.memorymanager.memory_requests import pins_memory
from zonewise_scheduler.admission.pod_level_managers import allocate_pod, empty_shared_pools
from zonewise_scheduler.admission.resource_names import CPU, MEMORY
from zonewise_scheduler.admission.topologymanager.bitmask import all_zones
from zonewise_scheduler.admission.topologymanager.hints import NO_AFFINITY, Hints, TopologyHint
from zonewise_scheduler.admission.topologymanager.policy import merge_best_effort, merge_preferred

if TYPE_CHECKING:
    from collections.abc import Collection

    from zonewise_scheduler.admission.aligned_requests import AlignedRequest
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.pod import Container

MISALIGNED = "Resources cannot be allocated with Topology locality"
MISALIGNED_CONTAINER = "Pod Scope pod with pod-level resources failed admission with a container-level topology manager"
MISALIGNED_POD = "Pod Scope pod with pod-level resources failed admission under pod-scope topology manager"


class ResourceHints(NamedTuple):
    """What one resource says of the zones."""

    resource: str
    amount: int
    """CPUs, bytes or devices."""
    hints: Hints


def admit_containers(context: AdmissionContext) -> None:
    """Give all containers of a pod what they ask for, as policy and scope say; raise Refusal where it cannot be."""
    kind = context.state.kind
    policies = kind.policies
    if policies.topology == "none":
        for container in context.pod.containers:
            _give(context, container, NO_AFFINITY)
        return
    if policies.scope == "pod":
        _admit_pod(context)
        return
    misaligned = MISALIGNED_CONTAINER if uses_pod_level_managers(context.pod, policies) else MISALIGNED
    for container in context.pod.containers:
        context.container_name = container.name
        _give(
            context,
            container,
            calculate_affinity(context, container_aligned_request(context.pod, container, kind), misaligned),
        )


def _admit_pod(books: AdmissionContext) -> None:
    kind = books.state.kind
    ask = pod_aligned_request(books.pod, kind)
    whole = uses_pod_level_managers(books.pod, kind.policies)
    if whole:
        empty = empty_shared_pools(books.pod, kind.policies)
        allocate_pod(books, ask, calculate_affinity(books, ask, MISALIGNED_POD, empty), empty)
        return
    alignment = calculate_affinity(books, ask, MISALIGNED)
    for container in books.pod.containers:
        _give(books, container, alignment)


def calculate_affinity(
    context: AdmissionContext, aligned: AlignedRequest, misaligned: str, empty: Collection[str] = ()
) -> TopologyHint:
    """Return where the policy puts what is asked for; raise Refusal, with the message, where that is nowhere."""
    kind = context.state.kind
    policy = kind.policies.topology
    zones = merge_preferred(
        kind, [one.hints for one in resource_hints(context, aligned, empty, include_not_preferred=False)]
    )
    if zones is not None:
        # policy_single_numa_node.go: all zones of the machine mean no preference
        return TopologyHint(
            None if policy == "single-numa-node" and zones == all_zones(kind) else zones, preferred=True
        )
    if policy != "best-effort":
        raise AdmissionError(TOPOLOGY_AFFINITY_ERROR, misaligned)
    return TopologyHint(
        merge_best_effort(
            kind, [one.hints for one in resource_hints(context, aligned, empty, include_not_preferred=True)]
        ),
        preferred=False,
    )


def resource_hints(
    context: AdmissionContext, aligned: AlignedRequest, empty: Collection[str] = (), *, include_not_preferred: bool
) -> list[ResourceHints]:
    """Return what each resource that cares for zones says of them: devices, CPUs, each type of memory.

    Those in empty say that nothing satisfies them.
    """
    state = context.state
    found: list[ResourceHints] = []
    for resource, count in aligned.devices:
        if has_topology_alignment(state.kind, resource):
            context.note_random_pick(resource)
            hints = generate_device_topology_hints(
                state, resource, count, context.reusable_devices, include_not_preferred=include_not_preferred
            )
            found.append(ResourceHints(resource, count, hints))
    if aligned.cpus:
        hints = (
            Hints(())
            if CPU in empty
            else generate_cpu_topology_hints(
                state, aligned.cpus, context.reusable_cpus, include_not_preferred=include_not_preferred
            )
        )
        if hints is not None:
            found.append(ResourceHints(CPU, aligned.cpus, hints))
    if aligned.memory:
        hints = (
            Hints(())
            if MEMORY in empty
            else calculate_memory_hints(
                state, aligned.memory, context.reusable_memory, include_not_preferred=include_not_preferred
            )
        )
        if hints is not None:
            found += [ResourceHints(name, size, hints) for name, size in aligned.memory]
    return found


def _give(books: AdmissionContext, container: Container, alignment: TopologyHint) -> None:
    """Allocate one container (scope.go allocateAlignedResources)."""
    books.container_name, books.affinity = container.name, alignment.zones
    policies = books.state.kind.policies
    ask = container_aligned_request(books.pod, container, books.state.kind)
    if container.devices:
        allocate_container_devices(books, container, alignment.zones)
    if ask.cpus:
        allocate_container_cpus(books, container, ask.cpus, alignment.zones)
    if ask.memory or _fails_without_memory(books, policies.release):
        allocate_container_memory(books, container, ask.memory, alignment)


def _fails_without_memory(books: AdmissionContext, release: tuple[int, int]) -> bool:
    """Tell whether the Memory Manager allocates for a container that asks for none; 1.37 passes it over.

    Only a pod that is given whole can have one (policy_static.go Allocate).
    """
    policies = books.state.kind.policies
    return release < (1, 37) and uses_pod_level_managers(books.pod, policies) and pins_memory(books.pod, policies)

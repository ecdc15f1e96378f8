"""Allocation of exclusive CPUs (pkg/kubelet/cm/cpumanager/policy_static.go Allocate, allocateCPUs, AllocatePod).

NodeState.free_cpus replaces the kubelet's state file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAllocationError
from zonewise_scheduler.admission.cpumanager.guaranteed_cpus import guaranteed_cpus
from zonewise_scheduler.admission.cpumanager.numa_distributed import take_by_topology_numa_distributed
from zonewise_scheduler.admission.cpumanager.numa_packed import take_by_topology_numa_packed
from zonewise_scheduler.admission.errors import SMT_ALIGNMENT_ERROR, AdmissionError, unexpected_admission_error
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.pod import Container, PodShape


_REPORTS_NO_FREE_CORE = (1, 32)
"""The first release with a message for the lack of free cores; older ones blame the request instead."""


def allocate_container_cpus(context: AdmissionContext, container: Container, count: int, zones: int | None) -> None:
    """Allocate exclusive CPUs to a container, first from `zones` if that is not None; raise AdmissionError on failure.

    CPUs of ended init containers may be reused. CPUs of sidecars may not (updateCPUsToReuse).
    """
    enforce_smt_alignment(context.state, count)
    try:
        cpus = allocate_cpus(context.state, count, zones, context.reusable_cpus)
    except CpuAllocationError as error:
        raise unexpected_admission_error(str(error), CPU) from None
    context.cpus[container.name] = cpus
    context.state = context.state._replace(free_cpus=context.state.free_cpus & ~cpus)
    context.reusable_cpus = context.reusable_cpus | cpus if container.role == "init" else context.reusable_cpus & ~cpus


def enforce_smt_alignment(state: NodeState, count: int) -> None:
    """Raise AdmissionError if full-pcpus-only rejects a request (enforceSMTAlignment)."""
    message = smt_alignment_error(state, count)
    if message is not None:
        raise AdmissionError(SMT_ALIGNMENT_ERROR, message, CPU)


def smt_alignment_error(state: NodeState, count: int) -> str | None:
    """Return the message of the SMTAlignmentError with which full-pcpus-only rejects a request; otherwise None.

    The request must be a multiple of the CPUs per core. It must not exceed the number of free CPUs, not counting
    siblings of reserved CPUs. Reusable CPUs of init containers do not count as free. The free CPUs need not form whole
    cores.
    """
    policies, topology = state.kind.policies, state.kind.cpus
    threads = topology.cpus_per_core
    if not (policies.full_cores and policies.cpu == "static" and threads):
        return None
    available = (state.free_cpus & ~topology.reserved_cores).bit_count()
    if count <= available and not count % threads:
        return None
    if count % threads or (not available and policies.release < _REPORTS_NO_FREE_CORE):
        return f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
    return (
        "SMT Alignment Error: not enough free physical CPUs: "
        f"available physical CPUs = {available}, requested CPUs = {count}, CPUs per core = {threads}"
    )


def allocate_cpus(state: NodeState, count: int, affinity: int | None, reusable: int) -> int:
    """Return the bits of `count` CPUs: first those near the zones of `affinity`, then any others.

    Reusable CPUs, which belong to ordinary init containers of the same pod, count as free. An affinity of None means
    any zone. On machines with unequal packages or cores the kubelet may assign CPUs that are not free; so does this
    function. Raises CpuAllocationError, with the kubelet's message, if there are not enough.
    """
    available = state.free_cpus | reusable
    cpus = 0
    if affinity is not None:
        aligned = available & _aligned_cpus(state.kind, affinity)
        cpus = _take_by_topology(state.kind, aligned, min(count, aligned.bit_count()))
    return cpus | _take_by_topology(state.kind, available & ~cpus, count - cpus.bit_count())


def divide_pod_cpus(kind: NodeKind, pod: PodShape, pod_cpus: int) -> tuple[int, ...]:
    """Return the bits of the CPUs of each container of a pod whose CPUs are allocated as a whole (AllocatePod).

    Ordinary init containers may use all CPUs except those of earlier sidecars. Containers without a guaranteed request
    share the rest. Raises CpuAllocationError if a container's share cannot be allocated.
    """
    remaining = pod_cpus  # without the CPUs of earlier sidecars and, later, of earlier app containers
    exclusive: list[int | None] = []
    for container in pod.containers:
        count = guaranteed_cpus(pod, container, kind.policies)
        cpus = _take_by_topology(kind, remaining, count) if count else None
        if container.role == "init":
            cpus = remaining if cpus is None else cpus
        elif cpus is not None:
            remaining &= ~cpus
        exclusive.append(cpus)
    return tuple(remaining if cpus is None else cpus for cpus in exclusive)


def _take_by_topology(kind: NodeKind, free: int, count: int) -> int:
    take_by_topology = (
        take_by_topology_numa_distributed if kind.policies.distribute_across_zones else take_by_topology_numa_packed
    )
    return take_by_topology(kind.cpus, free, count, kind.policies)


def _aligned_cpus(kind: NodeKind, zones: int) -> int:
    """Return the CPUs of zones; with align-by-socket, the CPUs of all packages that the zones span (getAlignedCPUs)."""
    cpus = kind.cpus.cpus_in_numa_nodes(zones)
    if not kind.policies.align_by_package:
        return cpus
    return sum(package for _, package in kind.cpus.packages if package & cpus)

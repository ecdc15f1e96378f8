"""Which CPUs a container is given (policy_static.go allocateCPUs, takeByTopology)."""

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


_TELLS_OF_NONE = (1, 32)
"""The first release that says that no core is available; an older one then blames the request."""


def allocate_container_cpus(context: AdmissionContext, container: Container, count: int, zones: int | None) -> None:
    """Give a container a count of exclusive CPUs, from zones first where they are said; raise Refusal.

    Those of ended init containers may be among them; those of a sidecar stay its own (updateCPUsToReuse).
    """
    enforce_smt_alignment(context.state, count)
    try:
        cpus = allocate_cpus(context.state, count, zones, context.reusable_cpus)
    except CpuAllocationError as shortage:
        raise unexpected_admission_error(str(shortage), CPU) from None
    context.cpus[container.name] = cpus
    context.state = context.state._replace(free_cpus=context.state.free_cpus & ~cpus)
    context.reusable_cpus = context.reusable_cpus | cpus if container.role == "init" else context.reusable_cpus & ~cpus


def enforce_smt_alignment(state: NodeState, count: int) -> None:
    """Raise Refusal where whole cores are wanted and there are not enough (enforceSMTAlignment)."""
    message = smt_alignment_error(state, count)
    if message is not None:
        raise AdmissionError(SMT_ALIGNMENT_ERROR, message, CPU)


def smt_alignment_error(state: NodeState, count: int) -> str | None:
    """Return the kubelet's message of an SMTAlignmentError where a request is refused by full-pcpus-only; else None.

    The request must be a multiple of the CPUs per core, and no more than what is free without the siblings of reserved
    CPUs. CPUs that could be reused of init containers do not count as free, nor need the free ones be whole cores.
    """
    policies, topology = state.kind.policies, state.kind.cpus
    threads = topology.cpus_per_core
    if not (policies.full_cores and policies.cpu == "static" and threads):
        return None
    available = (state.free_cpus & ~topology.reserved_cores).bit_count()
    if count % threads or (count > available == 0 and policies.release < _TELLS_OF_NONE):
        return f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
    if count > available:
        return (
            "SMT Alignment Error: not enough free physical CPUs: "
            f"available physical CPUs = {available}, requested CPUs = {count}, CPUs per core = {threads}"
        )
    return None


def allocate_cpus(state: NodeState, count: int, affinity: int | None, reusable: int) -> int:
    """Return the bits of so many CPUs: first of those near the zones of the affinity, the rest of anywhere.

    The free ones are joined by the reusable ones, those of ordinary init containers of the same pod. Without an
    affinity (None) all are of anywhere. On machines with unequal packages or cores the kubelet may give CPUs that are
    not free; so they are given here. Raises CpuShortage, with the kubelet's message, where there are not enough.
    """
    available = state.free_cpus | reusable
    taken = 0
    if affinity is not None:
        aligned = available & _near(state.kind, affinity)
        taken = _take(state.kind, aligned, min(count, aligned.bit_count()))
    return taken | _take(state.kind, available & ~taken, count - taken.bit_count())


def divide_pod_cpus(kind: NodeKind, pod: PodShape, pod_cpus: int) -> tuple[int, ...]:
    """Return the bits of the CPUs of each container of a pod that was given them whole (AllocatePod).

    Ordinary init containers may have all but what sidecars before them hold; containers that ask for none exclusively
    share what is left. Raises CpuShortage.
    """
    kept = pod_cpus  # what no sidecar before has, then what no container before has
    found: list[int | None] = []
    for container in pod.containers:
        count = guaranteed_cpus(pod, container, kind.policies)
        cpus = _take(kind, kept, count) if count else None
        if container.role == "init":
            cpus = kept if cpus is None else cpus
        elif cpus is not None:
            kept &= ~cpus
        found.append(cpus)
    return tuple(kept if cpus is None else cpus for cpus in found)


def _take(kind: NodeKind, free: int, count: int) -> int:
    take = take_by_topology_numa_distributed if kind.policies.distribute_across_zones else take_by_topology_numa_packed
    return take(kind.cpus, free, count, kind.policies)


def _near(kind: NodeKind, zones: int) -> int:
    """Return the CPUs of zones, with align-by-socket those of all packages that they reach into (getAlignedCPUs)."""
    near = kind.cpus.cpus_in_numa_nodes(zones)
    if not kind.policies.align_by_package:
        return near
    return sum(package for _, package in kind.cpus.packages if package & near)

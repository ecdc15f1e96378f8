"""The CPU Manager's allocation to one container (pkg/kubelet/cm/cpumanager/policy_static.go Allocate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.cpumanager import CpuAllocationError, allocate_cpus, smt_alignment_error
from zonewise_scheduler.admission.errors import SMT_ALIGNMENT_ERROR, AdmissionError, unexpected_admission_error
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from zonewise_scheduler.admission.context import AdmissionContext
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Container


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

"""What a pod is foretold to get and what a node has left, as people read it: for logs, annotations, /debug/state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import ContainerAssignment, Verdict

VERDICT_ANNOTATION = "zonewise.dev/foretold"


def format_verdict(verdict: Verdict) -> str:
    """Return by container its zones and CPUs: "main zones=0 cpus=1-8,65-72"; several are separated by "; "."""
    return "; ".join(_format_assignment(assignment) for assignment in verdict.assignments) or "nothing exclusive"


def describe_state(state: NodeState) -> dict[str, object]:
    """Return what a node has left, in words and numbers: CPUs as lists, memory in bytes, devices by their zones."""
    kind = state.kind
    return {
        "topologyManager": f"{kind.policies.topology}, scope {kind.policies.scope}",
        "freeCpus": {f"zone {zone}": str(CpuSet.from_bits(state.free_cpus & cpus)) for zone, cpus in kind.cpus.zones},
        "freeMemory": {
            f"zone {zone}": dict(zip(kind.memory_types, free, strict=True))
            for zone, free in zip(kind.zones, state.memory_free, strict=False)
        },
        "freeDevices": {
            f"{device.resource}@{CpuSet.from_bits(device.zones)}": free
            for device, free in zip(kind.devices, state.device_free, strict=True)
        },
        "unknown": list(kind.unknown),
    }


def _format_assignment(assignment: ContainerAssignment) -> str:
    zones = 0
    for share in (*assignment.memory, *assignment.devices):
        zones |= share.zones
    told = [assignment.container]
    if zones:
        told.append(f"zones={CpuSet.from_bits(zones)}")
    if assignment.cpus:
        told.append(f"cpus={CpuSet.from_bits(assignment.cpus)}")
    return " ".join(told)

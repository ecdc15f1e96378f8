"""Formats predicted verdicts and node states as text and JSON, for logs, annotations and /debug/state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.cpuset import CpuSet
from zonewise_scheduler.admission.assignment_text import format_assignments

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.verdict import Verdict

OLD_VERDICT_ANNOTATION = "zonewise.dev/foretold"
"""Deprecated in 0.1.0, dropped in the next minor version."""


def format_verdict(verdict: Verdict) -> str:
    """Return the zones and CPUs of each container (format_assignments)."""
    return format_assignments(verdict.assignments)


def describe_state(state: NodeState) -> dict[str, object]:
    """Return the available resources of a node: CPUs as lists, memory in bytes, devices by their zones."""
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

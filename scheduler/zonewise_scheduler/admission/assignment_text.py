"""The resources that a kubelet assigns to a pod, as text for logs and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.verdict import ContainerAssignment


def format_assignments(assignments: Iterable[ContainerAssignment]) -> str:
    """Return the zones and CPUs of each container, separated by "; ": "main zones=0 cpus=1-8,65-72"."""
    return "; ".join(map(_format_assignment, assignments)) or "nothing exclusive"


def _format_assignment(assignment: ContainerAssignment) -> str:
    zones = 0
    for share in (*assignment.memory, *assignment.devices):
        zones |= share.zones
    parts = [assignment.container]
    if zones:
        parts.append(f"zones={CpuSet.from_bits(zones)}")
    if assignment.cpus:
        parts.append(f"cpus={CpuSet.from_bits(assignment.cpus)}")
    return " ".join(parts)

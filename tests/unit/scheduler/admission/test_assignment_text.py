"""The assignments of a kubelet as text."""

from __future__ import annotations

import pytest

from zonewise_scheduler.admission.assignment_text import format_assignments
from zonewise_scheduler.admission.verdict import ContainerAssignment, DeviceAllocation, MemoryBlock

CPUS = ContainerAssignment("main", cpus=0b11110)
MEMORY = ContainerAssignment("main", memory=(MemoryBlock("memory", 0b1, 1),))
BOTH = ContainerAssignment(
    "main", 0b1, (MemoryBlock("memory", 0b1, 1),), (DeviceAllocation("gpu", 0b100, 1), DeviceAllocation("nic", 0b1, 1))
)


@pytest.mark.parametrize(
    ("assignments", "text"),
    [
        ([], "nothing exclusive"),
        ([CPUS], "main cpus=1-4"),
        ([MEMORY], "main zones=0"),
        ([BOTH, ContainerAssignment("side", devices=(DeviceAllocation("gpu", 0, 1),))], "main zones=0,2 cpus=0; side"),
    ],
)
def test_zones_and_cpus_by_container(assignments: list[ContainerAssignment], text: str) -> None:
    assert format_assignments(assignments) == text

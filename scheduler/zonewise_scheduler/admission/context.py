"""One admission in progress: the node, and what the containers of the pod hold so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from zonewise_scheduler.admission.verdict import ContainerAssignment

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import DeviceAllocation, MemoryBlock


@dataclass
class AdmissionContext:
    """The node while one pod is admitted, and what later containers of the pod may reuse."""

    state: NodeState
    pod: PodShape
    container_name: str = ""
    """The container under decision; "" for the pod as a whole."""
    affinity: int | None = None
    """The set of zones that it is aligned to; None: any."""
    reusable_cpus: int = 0
    """Bits of the CPUs of ended init containers (staticPolicy.cpusToReuse)."""
    reusable_memory: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Bytes of ended init containers by set of zones and type (initContainersReusableMemory)."""
    reusable_devices: dict[int, int] = field(default_factory=dict[int, int])
    """Counts of ended init containers by the kind's devices (devicesToReuse)."""
    cpus: dict[str, int] = field(default_factory=dict[str, int])
    memory: dict[str, list[MemoryBlock]] = field(default_factory=dict[str, "list[MemoryBlock]"])
    devices: dict[str, list[DeviceAllocation]] = field(default_factory=dict[str, "list[DeviceAllocation]"])
    random_picks: dict[str, str] = field(default_factory=dict[str, str])
    """The first container for which the kubelet picked at random between zones, by resource."""
    uncertain: list[str] = field(default_factory=list[str])
    """Why the kubelet may decide otherwise."""

    def assignments(self) -> tuple[ContainerAssignment, ...]:
        """Return the exclusive resources by container; containers without any are left out."""
        assignments = (
            ContainerAssignment(
                container.name,
                self.cpus.get(container.name, 0),
                tuple(self.memory.get(container.name, ())),
                tuple(self.devices.get(container.name, ())),
            )
            for container in self.pod.containers
        )
        return tuple(each for each in assignments if each.cpus or each.memory or each.devices)

    def note(self, reason: str) -> None:
        """Note why the kubelet may decide otherwise, once."""
        if reason not in self.uncertain:
            self.uncertain.append(reason)

    def note_random_pick(self, resource: str) -> None:
        """Note that the decision depends on an earlier random pick of a resource, if there was any."""
        if container := self.random_picks.get(resource):
            self.note(f"the kubelet picks {resource} of container {container} at random from several zones")

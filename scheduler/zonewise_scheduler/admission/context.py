"""What a pod has been given so far while it is being admitted."""

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
    """The node while one pod is admitted, and what of the pod's own its later containers may take over."""

    state: NodeState
    pod: PodShape
    container_name: str = ""
    """The container that is being decided; "" for the pod as a whole."""
    affinity: int | None = None
    """What it is aligned to; None: anything."""
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
    """Resources of which the kubelet picked at random between zones, and the container for which."""
    uncertain: list[str] = field(default_factory=list[str])

    def assignments(self) -> tuple[ContainerAssignment, ...]:
        """Return what each container has been given, without those that were given nothing."""
        made = (
            ContainerAssignment(
                one.name,
                self.cpus.get(one.name, 0),
                tuple(self.memory.get(one.name, ())),
                tuple(self.devices.get(one.name, ())),
            )
            for one in self.pod.containers
        )
        return tuple(one for one in made if one.cpus or one.memory or one.devices)

    def note_random_pick(self, resource: str) -> None:
        """Note that what is decided now depends on a pick at random."""
        if container := self.random_picks.get(resource):
            doubt = f"the kubelet picks {resource} of container {container} at random from several zones"
            if doubt not in self.uncertain:
                self.uncertain.append(doubt)

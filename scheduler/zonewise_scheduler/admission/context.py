"""One admission in progress: the node, and the resources that the pod's containers hold so far."""

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
    """The state of a node while one pod is admitted, and the resources that later containers of the pod may reuse."""

    state: NodeState
    pod: PodShape
    container_name: str = ""
    """Name of the container that is being decided on; "" for the pod as a whole."""
    affinity: int | None = None
    """Set of zones to which the container or pod is aligned; None: any zones."""
    reusable_cpus: int = 0
    """CPUs that ended init containers leave for reuse, as bits (staticPolicy.cpusToReuse)."""
    reusable_memory: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])
    """Bytes that ended init containers leave for reuse, by set of zones and type (initContainersReusableMemory)."""
    reusable_devices: dict[int, int] = field(default_factory=dict[int, int])
    """Devices that ended init containers leave for reuse, by index into the kind's devices (devicesToReuse)."""
    cpus: dict[str, int] = field(default_factory=dict[str, int])
    memory: dict[str, list[MemoryBlock]] = field(default_factory=dict[str, "list[MemoryBlock]"])
    devices: dict[str, list[DeviceAllocation]] = field(default_factory=dict[str, "list[DeviceAllocation]"])
    random_picks: dict[str, str] = field(default_factory=dict[str, str])
    """Name of the first container for which the kubelet picked among zones at random, by resource."""
    uncertain: list[str] = field(default_factory=list[str])
    """Reasons why the kubelet may decide otherwise."""

    def assignments(self) -> tuple[ContainerAssignment, ...]:
        """Return the exclusive resources of each container; containers without any are left out."""
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
        """Record a reason why the kubelet may decide otherwise; repetitions are ignored."""
        if reason not in self.uncertain:
            self.uncertain.append(reason)

    def note_random_pick(self, resource: str) -> None:
        """Record that the decision depends on an earlier random pick of a resource, if there was one."""
        if container := self.random_picks.get(resource):
            self.note(f"the kubelet picks {resource} of container {container} at random from several zones")

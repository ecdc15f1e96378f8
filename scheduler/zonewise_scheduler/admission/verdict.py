"""The verdict of a kubelet on a pod, as values."""

from typing import NamedTuple

from zonewise_scheduler.admission.node import NodeState

RejectionReason = str
"""A kubelet's reason: TopologyAffinityError, SMTAlignmentError, UnexpectedAdmissionError, EmptyPodSharedPoolError,
OutOfcpu, OutOfmemory, OutOfpods, OutOf<resource>; or "" if the pod is admitted or there is no verdict of a kubelet."""


class MemoryBlock(NamedTuple):
    """Memory allocated from a set of zones as a unit (memorymanager/state Block)."""

    type: str
    zones: int
    size: int
    """Bytes from all the zones together."""


class DeviceAllocation(NamedTuple):
    """Devices of one class, allocated to a container."""

    resource: str
    zones: int
    """Zones of the class; 0: no zone is known."""
    number: int
    certain: bool = True
    """False: the kubelet picks at random among this class and others; `number` is the most likely count."""


class ContainerAssignment(NamedTuple):
    """The exclusive resources of one container."""

    container: str
    cpus: int = 0
    """Exclusive CPUs as bits; 0: the container runs on the shared CPUs."""
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[DeviceAllocation, ...] = ()


class Verdict(NamedTuple):
    """A kubelet's decision on one pod."""

    admitted: bool
    assignments: tuple[ContainerAssignment, ...] = ()
    """Assignments by container, in the pod's order; containers without exclusive resources are left out."""
    after: NodeState | None = None
    """State of the node after admission; None if the pod is rejected."""
    reason: RejectionReason = ""
    message: str = ""
    """The kubelet's message, as in the pod's status."""
    container: str = ""
    """Name of the rejected container; "" for the pod as a whole."""
    resource: str = ""
    """The insufficient resource, if there is one."""
    uncertain: tuple[str, ...] = ()
    """Reasons why the kubelet may decide otherwise; empty: the verdict is certain."""

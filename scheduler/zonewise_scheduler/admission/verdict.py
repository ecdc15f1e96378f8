"""The verdict of a kubelet on a pod, as values."""

from typing import NamedTuple

from zonewise_scheduler.admission.node import NodeState

RejectionReason = str
"""A kubelet's reason: TopologyAffinityError, SMTAlignmentError, UnexpectedAdmissionError, EmptyPodSharedPoolError,
OutOfcpu, OutOfmemory, OutOfpods, OutOf<resource>; or "" where the pod is admitted."""


class MemoryBlock(NamedTuple):
    """Memory allocated from a set of zones as one (memorymanager/state Block)."""

    type: str
    zones: int
    size: int
    """Bytes, of all the zones together."""


class DeviceAllocation(NamedTuple):
    """Devices of one class, allocated to a container."""

    resource: str
    zones: int
    """Of the class; 0: no zone is known."""
    number: int
    certain: bool = True
    """False: the kubelet picks at random between this class and others; this is the most likely count."""


class ContainerAssignment(NamedTuple):
    """The exclusive resources of one container."""

    container: str
    cpus: int = 0
    """Bits; 0: it runs on the shared CPUs."""
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[DeviceAllocation, ...] = ()


class Verdict(NamedTuple):
    """A kubelet's decision on one pod."""

    admitted: bool
    assignments: tuple[ContainerAssignment, ...] = ()
    """By container, in the pod's order; containers without exclusive resources are left out."""
    after: NodeState | None = None
    """The node with the pod on it; None if the pod is rejected."""
    reason: RejectionReason = ""
    message: str = ""
    """The kubelet's own words, as in the pod's status."""
    container: str = ""
    """The rejected container; "" for the pod as a whole."""
    resource: str = ""
    """The insufficient resource, if there is one."""
    uncertain: tuple[str, ...] = ()
    """Why the kubelet may decide otherwise; empty: the verdict is certain."""

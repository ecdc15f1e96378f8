"""What a kubelet will answer."""

from typing import NamedTuple

from zonewise_scheduler.admission.node import NodeState

RejectionReason = str
"""A kubelet's reason: TopologyAffinityError, SMTAlignmentError, UnexpectedAdmissionError, EmptyPodSharedPoolError,
OutOfcpu, OutOfmemory, OutOfpods, OutOf<resource>; or "" where the pod is admitted."""


class MemoryBlock(NamedTuple):
    """Memory given from a set of zones as one."""

    type: str
    zones: int
    size: int
    """Bytes, of all the zones together."""


class DeviceAllocation(NamedTuple):
    """Devices given of one class."""

    resource: str
    zones: int
    """Of the class; 0: no zone is known."""
    number: int
    certain: bool = True
    """False: the kubelet picks at random between this class and others; this is as good a guess as any."""


class ContainerAssignment(NamedTuple):
    """What one container is given exclusively."""

    container: str
    cpus: int = 0
    """Bits; 0: it runs on the shared CPUs."""
    memory: tuple[MemoryBlock, ...] = ()
    devices: tuple[DeviceAllocation, ...] = ()


class Verdict(NamedTuple):
    """A kubelet's answer to one pod."""

    admitted: bool
    assignments: tuple[ContainerAssignment, ...] = ()
    """By container, in the pod's order; those that are given nothing exclusively are left out."""
    after: NodeState | None = None
    """The node once the pod is there; None where it is refused."""
    reason: RejectionReason = ""
    message: str = ""
    """The kubelet's own words, as in the pod's status."""
    container: str = ""
    """The one that was refused; "" for the pod as a whole."""
    resource: str = ""
    """What was short, where it is one."""
    uncertain: tuple[str, ...] = ()
    """Why the kubelet may answer otherwise; empty: it will not."""

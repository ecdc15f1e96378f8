"""Pods: the facts that a node's verdict depends on."""

from typing import Literal, NamedTuple

from zonewise_common.k8s.podspec import Role

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]

Amounts = tuple[tuple[str, int], ...]
"""Pairs of resource and amount, sorted by name."""


class Container(NamedTuple):
    """The requests of one container."""

    name: str
    role: Role
    milli_cpus: int = 0
    """Requested CPU, in milli-CPU."""
    memory: Amounts = ()
    """Requested memory and hugepages, in bytes."""
    devices: Amounts = ()
    """Limits of extended resources, rounded up; a limit of 0 is included, since it still has hints."""
    storage: int = 0
    """Requested ephemeral storage, in bytes."""
    complete: bool = True
    """Whether requests for CPU and memory equal the limits: a pod of only this container would be Guaranteed.

    Containers of a pod that is Guaranteed because of its pod-level resources need not meet this condition
    (pkg/kubelet/cm/qos/helpers.go IsContainerEquivalentQOSGuaranteed).
    """


class PodLevelResources(NamedTuple):
    """The resources in spec.resources of the pod itself (KEP-2837)."""

    milli_cpus: int | None = None
    """None: the containers' requests apply."""
    memory: Amounts = ()


class PodShape(NamedTuple):
    """Everything that determines whether a pod fits a node; pods of one template have equal shapes and verdicts."""

    containers: tuple[Container, ...]
    """Init containers and sidecars in the order of the pod, then app containers in the order of the pod."""
    qos: Qos
    pod_level: PodLevelResources | None = None
    overhead: Amounts = ()
    """Overhead of the runtime class: "cpu" in milli-CPU, other resources in their own units."""

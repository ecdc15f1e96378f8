"""Pods, as far as a node's answer depends on them."""

from typing import Literal, NamedTuple

Role = Literal["init", "sidecar", "app"]
"""A sidecar is an init container with restartPolicy Always."""

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]

Amounts = tuple[tuple[str, int], ...]
"""By resource, sorted by name."""


class Container(NamedTuple):
    """What one container asks for."""

    name: str
    role: Role
    milli_cpus: int = 0
    """Request."""
    memory: Amounts = ()
    """Requests of memory and hugepages, bytes."""
    devices: Amounts = ()
    """Limits of extended resources, counts rounded up; one of 0 is kept, since it still chooses zones."""
    storage: int = 0
    """Request of ephemeral storage, bytes."""
    complete: bool = True
    """Its requests of CPU and memory are its limits: by itself it would be Guaranteed. In a pod with resources of its
    own, which is Guaranteed by these, it may not be (pkg/kubelet/cm/qos/helpers.go IsContainerEquivalentQOSGuaranteed).
    """


class PodLevelResources(NamedTuple):
    """spec.resources of the pod itself (KEP-2837)."""

    milli_cpus: int | None = None
    """None: the containers' count."""
    memory: Amounts = ()


class PodShape(NamedTuple):
    """All of a pod that decides about its fit to a node; pods of one template are equal, and are decided once."""

    containers: tuple[Container, ...]
    """Init containers and sidecars in their order, then the others in theirs."""
    qos: Qos
    pod_level: PodLevelResources | None = None
    overhead: Amounts = ()
    """Of the runtime class: "cpu" in milli-CPU, the others in their unit."""

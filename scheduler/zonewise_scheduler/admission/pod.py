"""Pods, as far as a node's verdict depends on them."""

from typing import Literal, NamedTuple

from zonewise_common.k8s.podspec import Role

Qos = Literal["Guaranteed", "Burstable", "BestEffort"]

Amounts = tuple[tuple[str, int], ...]
"""By resource, sorted by name."""


class Container(NamedTuple):
    """The requests of one container."""

    name: str
    role: Role
    milli_cpus: int = 0
    """Request."""
    memory: Amounts = ()
    """Requests of memory and hugepages, bytes."""
    devices: Amounts = ()
    """Limits of extended resources, counts rounded up; a limit of 0 stays, since it still has hints."""
    storage: int = 0
    """Request of ephemeral storage, bytes."""
    complete: bool = True
    """Its requests of CPU and memory equal its limits: by itself it would be Guaranteed.

    A container of a pod that is Guaranteed by its pod-level resources may not be (pkg/kubelet/cm/qos/helpers.go
    IsContainerEquivalentQOSGuaranteed).
    """


class PodLevelResources(NamedTuple):
    """spec.resources of the pod itself (KEP-2837)."""

    milli_cpus: int | None = None
    """None: the containers' requests count."""
    memory: Amounts = ()


class PodShape(NamedTuple):
    """All of a pod that decides about its fit to a node; pods of one template are equal and share a verdict."""

    containers: tuple[Container, ...]
    """Init containers and sidecars in their order, then app containers in theirs."""
    qos: Qos
    pod_level: PodLevelResources | None = None
    overhead: Amounts = ()
    """Of the runtime class: "cpu" in milli-CPU, other resources in their unit."""

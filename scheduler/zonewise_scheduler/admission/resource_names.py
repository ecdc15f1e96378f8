"""Names of resources, and of what sort each is (pkg/apis/core/v1/helper/helpers.go)."""

from __future__ import annotations

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGEPAGES_PREFIX = "hugepages-"
"""And a size."""


def is_memory(name: str) -> bool:
    """Tell whether it is memory or hugepages: counted in bytes, and given by the Memory Manager."""
    return name == MEMORY or name.startswith(HUGEPAGES_PREFIX)


def is_compute(name: str) -> bool:
    """Tell whether zones consist of it: CPUs, memory, hugepages.

    The same are what a pod may have as a whole (component-helpers' IsSupportedPodLevelResource).
    """
    return name == CPU or is_memory(name)


def is_native_resource(name: str) -> bool:
    """Tell whether Kubernetes itself defines it: no domain, or one of kubernetes.io (IsNativeResource)."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource_name(name: str) -> bool:
    """Tell whether it is an extended one, as device plugins offer (IsExtendedResourceName)."""
    return not is_native_resource(name) and not name.startswith("requests.")


def is_scalar_resource_name(name: str) -> bool:
    """Tell whether schedulers count it beside CPUs, memory, storage and pods (pkg/scheduler/util IsScalarResourceName).

    Extended ones, hugepages, those of kubernetes.io, and attachable volumes.
    """
    return (
        is_extended_resource_name(name)
        or "kubernetes.io/" in name
        or name.startswith((HUGEPAGES_PREFIX, "attachable-volumes-"))
    )

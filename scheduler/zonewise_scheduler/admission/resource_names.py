"""Names and categories of resources (pkg/apis/core/v1/helper/helpers.go)."""

from __future__ import annotations

CPU, MEMORY, EPHEMERAL_STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
HUGEPAGES_PREFIX = "hugepages-"
"""Prefix of the names of hugepages; the page size follows."""


def is_memory(name: str) -> bool:
    """Return whether a resource is memory or hugepages, which the Memory Manager allocates in bytes."""
    return name == MEMORY or name.startswith(HUGEPAGES_PREFIX)


def is_compute(name: str) -> bool:
    """Return whether a resource is part of the zones themselves: CPU, memory or hugepages.

    The same resources are allowed at the pod level (component-helpers IsSupportedPodLevelResource).
    """
    return name == CPU or is_memory(name)


def is_native_resource(name: str) -> bool:
    """Return whether Kubernetes defines a resource: no domain, or one in kubernetes.io (IsNativeResource)."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended_resource_name(name: str) -> bool:
    """Return whether a resource is extended, like those of device plugins (IsExtendedResourceName)."""
    return not is_native_resource(name) and not name.startswith("requests.")


def is_scalar_resource_name(name: str) -> bool:
    """Return whether schedulers count a resource in addition to CPU, memory, storage and pods.

    These are extended resources, hugepages, resources of kubernetes.io, and attachable volumes (pkg/scheduler/util
    IsScalarResourceName).
    """
    return (
        is_extended_resource_name(name)
        or "kubernetes.io/" in name
        or name.startswith((HUGEPAGES_PREFIX, "attachable-volumes-"))
    )

"""Amounts and classes of resources as the plugin defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    is_native_resource,
    is_scalar_resource_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

Amounts = dict[str, int]
"""Amounts by resource, in thousandths of its unit: the API server stores nothing finer for these resources."""

_ALWAYS = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})
"""Resources that each NodeInfo has, even if the node does not list them (pkg/util/resource.go ResourceList)."""


def ceil_units(amount: int) -> int:
    """Return thousandths as units, rounded up (Quantity.Value())."""
    return -(-amount // 1000)


def is_host_level_resource(name: str) -> bool:
    """Return whether zones need not list the resource: storage, and every resource that is not native."""
    return name in {EPHEMERAL_STORAGE, "storage"} or not is_native_resource(name)


def node_info_resources(allocatable: Iterable[str]) -> frozenset[str]:
    """Return the resources of a node that reach plugins (pkg/scheduler/framework/types.go Resource.Add)."""
    return _ALWAYS | {name for name in allocatable if is_scalar_resource_name(name)}

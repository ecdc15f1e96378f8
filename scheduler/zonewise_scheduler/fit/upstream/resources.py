"""Amounts and names of resources as the plugin sorts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.fit.model.resources import CPU, MEMORY, PODS, STORAGE, is_native, is_scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

Amounts = dict[str, int]
"""By resource, in thousandths of its unit: the API server keeps nothing finer of what the plugin compares."""

_ALWAYS = frozenset({CPU, MEMORY, PODS, STORAGE})
"""What a NodeInfo has, whether the node lists it or not (pkg/util/resource.go ResourceList)."""


def whole(amount: int) -> int:
    """Return thousandths as units, rounded up (Quantity.Value())."""
    return -(-amount // 1000)


def is_of_host(name: str) -> bool:
    """Tell whether no zone need have it: storage, and whatever is not native (isHostLevelResource)."""
    return name in {STORAGE, "storage"} or not is_native(name)


def known_to_node_info(allocatable: Iterable[str]) -> frozenset[str]:
    """Return the resources of a node that reach plugins (pkg/scheduler/framework/types.go Resource.Add)."""
    return _ALWAYS | {name for name in allocatable if is_scalar(name)}

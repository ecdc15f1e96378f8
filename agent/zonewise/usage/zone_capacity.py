"""The amounts of a zone without any allocation, and the canonical order of resources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.usage.types import Amount
from zonewise_common.k8s.quantity import parse_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.machine.model.zone import Zone

CPU = "cpu"
MEMORY = "memory"
_HUGEPAGES = "hugepages-"

NOTHING_RESERVED: Mapping[str, int] = {}


def idle_amounts(zone: Zone) -> dict[str, Amount]:
    """Return the CPUs and memory of a zone in which nothing is allocated exclusively and nothing is reserved."""
    cpus = len(zone.cpus)
    return ({CPU: Amount(cpus, cpus, cpus)} if cpus else {}) | shared_memory(zone)


def shared_memory(zone: Zone, reserved: Mapping[str, int] = NOTHING_RESERVED) -> dict[str, Amount]:
    """Return the memory of a zone by type in bytes, less the reserved amount of each; all of it counts as available.

    Pages in a huge page pool are no longer ordinary memory.
    """
    capacity = memory_capacity(zone)
    pools = sum(size for kind, size in capacity.items() if kind != MEMORY)
    amounts: dict[str, Amount] = {}
    for kind in canonical_order(capacity):
        free = capacity[kind] - reserved.get(kind, 0) - (pools if kind == MEMORY else 0)
        amounts[kind] = Amount(capacity[kind], max(0, free), max(0, free))
    return amounts


def memory_capacity(zone: Zone) -> dict[str, int]:
    """Return the bytes of each type of memory; without "memory" if its size could not be read."""
    sizes = {f"{_HUGEPAGES}{size}": parse_value(size) * count for size, count in zone.hugepages.items()}
    if zone.memory is not None:
        sizes[MEMORY] = zone.memory
    return sizes


def canonical_order(resources: Iterable[str]) -> list[str]:
    """Return the names of resources in canonical order: cpu, memory, hugepages by size, then devices by name."""
    return sorted(set(resources), key=_resource_order)


def _resource_order(resource: str) -> tuple[int, int, str]:
    if resource in {CPU, MEMORY}:
        return (0, 0, resource)
    if resource.startswith(_HUGEPAGES):
        try:
            return (1, parse_value(resource.removeprefix(_HUGEPAGES)), resource)
        except ValueError:
            return (2, 0, resource)  # a size that cannot be parsed keeps the kubelet's name
    return (3, 0, resource)

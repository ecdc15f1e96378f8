"""What the zones of a machine could give if nobody held anything, and the canonical order of resources."""

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
    """Return CPUs and memory of a zone as they are where nobody gives any exclusively and nothing is reserved."""
    cpus = len(zone.cpus)
    return ({CPU: Amount(cpus, cpus, cpus)} if cpus else {}) | shared_memory(zone)


def shared_memory(zone: Zone, reserved: Mapping[str, int] = NOTHING_RESERVED) -> dict[str, Amount]:
    """Return the memory of a zone by type, less what is reserved of each, in bytes; all of it counts as available.

    Pages reserved in a pool are no longer memory that a pod could get.
    """
    capacity = memory_capacity(zone)
    pools = sum(size for kind, size in capacity.items() if kind != MEMORY)
    found: dict[str, Amount] = {}
    for kind in canonical_order(capacity):
        idle = capacity[kind] - reserved.get(kind, 0) - (pools if kind == MEMORY else 0)
        found[kind] = Amount(capacity[kind], max(0, idle), max(0, idle))
    return found


def memory_capacity(zone: Zone) -> dict[str, int]:
    """Return the bytes of each type of memory; without "memory" where it could not be read."""
    found = {f"{_HUGEPAGES}{size}": parse_value(size) * pages for size, pages in zone.hugepages.items()}
    if zone.memory is not None:
        found[MEMORY] = zone.memory
    return found


def canonical_order(resources: Iterable[str]) -> list[str]:
    """Return the names of resources in canonical order: cpu, memory, hugepages by size, then devices by name."""
    return sorted(set(resources), key=_place)


def _place(resource: str) -> tuple[int, int, str]:
    if resource in {CPU, MEMORY}:
        return (0, 0, resource)
    if resource.startswith(_HUGEPAGES):
        try:
            return (1, parse_value(resource.removeprefix(_HUGEPAGES)), resource)
        except ValueError:
            return (2, 0, resource)  # no size that we know: the kubelet says so, and it is shown as it is
    return (3, 0, resource)

"""The kubelet's computation to align one container: all hints of all resources, and every combination of them.

This is a plain peer for our closed forms (pkg/kubelet/cm/topologymanager/policy.go mergeFilteredHints): resources are
counts by zone, and nothing is allocated afterwards.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


class Hint(NamedTuple):
    """TopologyHint."""

    zones: int
    preferred: bool


class Supply(NamedTuple):
    """The amount of one resource that a container needs, and the total and available amounts of each zone."""

    need: int
    total: tuple[int, ...]
    free: tuple[int, ...]


def aligned(policy: str, zones: int, supplies: Iterable[Supply]) -> bool:
    """Return whether a policy admits a container on a node with this number of zones."""
    lists = [_hints(zones, supply) for supply in supplies]
    if policy == "single-numa-node":
        lists = [[hint for hint in hints if hint.preferred and hint.zones.bit_count() == 1] for hints in lists]
    return policy == "best-effort" or _merge(lists, (1 << zones) - 1).preferred


def supplies(state: NodeState, pod: PodShape) -> list[Supply]:
    """Return the requests of the first container of a Guaranteed pod on a node."""
    kind, container = state.kind, pod.containers[0]
    cpus = [bits for _, bits in kind.cpus.zones]
    collected = [
        Supply(
            container.milli_cpus // 1000,
            tuple(bits.bit_count() for bits in cpus),
            tuple((bits & state.free_cpus).bit_count() for bits in cpus),
        )
    ]
    for type_, need in container.memory:
        place = kind.memory_types.index(type_)
        total, free = (tuple(zone[place] for zone in table) for table in (kind.allocatable, state.memory_free))
        collected.append(Supply(need, total, free))
    for resource, need in container.devices:
        places = kind.device_indices[resource]
        collected.append(
            Supply(need, tuple(kind.devices[i].total for i in places), tuple(state.device_free[i] for i in places))
        )
    return collected


def _hints(zones: int, supply: Supply) -> list[Hint]:
    widths = [mask.bit_count() for mask in range(1, 1 << zones) if _within(supply.total, mask) >= supply.need]
    narrowest = min(widths, default=zones)
    return [
        Hint(mask, mask.bit_count() == narrowest)
        for mask in range(1, 1 << zones)
        if _within(supply.free, mask) >= supply.need
    ]


def _within(amounts: Sequence[int], mask: int) -> int:
    return sum(amount for zone, amount in enumerate(amounts) if mask >> zone & 1)


def _merge(lists: Sequence[Sequence[Hint]], everywhere: int) -> Hint:
    best = Hint(everywhere, preferred=False)
    for permutation in product(*lists):
        zones = everywhere
        for hint in permutation:
            zones &= hint.zones
        preferred = all(hint.preferred and hint.zones == permutation[0].zones for hint in permutation)
        if not zones or (best.preferred and not preferred):
            continue
        if (preferred and not best.preferred) or _narrower(zones, best.zones):
            best = Hint(zones, preferred)
    return best


def _narrower(zones: int, best_zones: int) -> bool:
    return (zones.bit_count(), zones) < (best_zones.bit_count(), best_zones)

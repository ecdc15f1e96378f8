"""Hints of the CPU Manager (policy_static.go GetTopologyHints, generateCPUTopologyHints).

A set of zones is a hint if it has enough free CPUs. The hint is preferred if it has as few zones as possible when busy
and reserved CPUs count as free. With align-by-socket, hints that span as few packages as such a set can span are also
preferred.

All sets are evaluated at once. One integer holds a lane of 16 bits for each set. One multiplication adds a zone's
number of free CPUs to the lanes of all sets that contain the zone. The top bit of a lane then shows whether the sum
suffices. Evaluating the 255 sets of 8 zones takes as long as a loop over a few sets.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.admission.topologymanager.bitmask import set_sizes, subsets
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.wide_merge import wide_hints
from zonewise_scheduler.admission.topologymanager.zone_sums import check_zone_count, contain, meet, sizes, suffice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.topologymanager.wide_merge import WideHints

_TOP = 0x8000
"""The top bit of a lane, which exceeds the number of CPUs of any machine (CONFIG_NR_CPUS is at most 8192)."""


class _ZoneSets(NamedTuple):
    """Sets of zones to evaluate, in the kubelet's order: by size, then lexicographically."""

    zones: tuple[int, ...]
    lanes_by_zone: tuple[int, ...]
    """For each zone of the topology, a 1 in the lane of each set that contains the zone."""
    ones: int
    """A 1 in every lane."""
    preferred: int
    """The top bit in the lanes of the sets that are preferred if they suffice."""


def generate_cpu_topology_hints(
    state: NodeState, count: int, reusable: int, *, include_not_preferred: bool
) -> Hints | None:
    """Return the sets of zones that can provide `count` CPUs; None if the CPU Manager has no preference.

    The bits of `reusable` are CPUs of ordinary init containers of the same pod. A hint must contain the zones of all
    these CPUs. The order is the kubelet's: smaller sets first. Sets that are not preferred are included only if
    `include_not_preferred` is true.
    """
    policies, topology = state.kind.policies, state.kind.cpus
    if count < 1 or policies.cpu != "static":
        return None
    free, need = state.free_cpus, count - reusable.bit_count()
    if need > free.bit_count():
        return Hints(())
    width = cpu_min_affinity_size(topology, count)
    sets = _zone_sets(topology, width, policies.align_by_package, include_not_preferred)
    sums = sets.ones * (_TOP - need)
    for (_, cpus), lanes in zip(topology.zones, sets.lanes_by_zone, strict=True):
        sums += lanes * (free & cpus).bit_count()
    enough = sums & sets.ones * _TOP
    if reusable:
        for (_, cpus), lanes in zip(topology.zones, sets.lanes_by_zone, strict=True):
            if reusable & cpus:
                enough &= lanes * _TOP
    preferred = enough & sets.preferred
    return Hints(
        _sets_of_lanes(sets, preferred), _sets_of_lanes(sets, enough & ~preferred) if include_not_preferred else ()
    )


def generate_wide_cpu_hints(state: NodeState, count: int, reusable: int) -> WideHints | None:
    """Return the hints of generate_cpu_topology_hints for a node with too many zones to list the sets."""
    policies, topology = state.kind.policies, state.kind.cpus
    if count < 1 or policies.cpu != "static":
        return None
    zones = tuple(number for number, _ in topology.zones)
    check_zone_count(len(zones), CPU)
    enough = suffice(
        [(state.free_cpus & cpus).bit_count() for _, cpus in topology.zones], max(count - reusable.bit_count(), 0)
    )
    enough &= contain(len(zones), sum(1 << index for index, (_, cpus) in enumerate(topology.zones) if reusable & cpus))
    width = cpu_min_affinity_size(topology, count)
    preferred = sizes(len(zones)) == width
    if policies.align_by_package:
        packages = np.zeros(1 << len(zones), np.int64)
        for _, package in topology.packages:
            packages += meet(
                len(zones), sum(1 << index for index, (_, cpus) in enumerate(topology.zones) if package & cpus)
            )
        preferred |= packages == _fewest_packages(topology, width)
    return wide_hints(zones, enough, preferred)


def cpu_min_affinity_size(topology: CpuTopology, count: int) -> int:
    """Return the smallest number of zones with enough CPUs, busy and reserved ones included; all if none suffice."""
    return min(bisect_left(topology.largest_totals, count) + 1, len(topology.zones))


def _sets_of_lanes(sets: _ZoneSets, lanes: int) -> tuple[int, ...]:
    """Return the sets whose lane has its top bit set."""
    high_bytes = lanes.to_bytes(2 * len(sets.zones), "little")[1::2]
    return tuple(compress(sets.zones, high_bytes))


@lru_cache(maxsize=1024)
def _zone_sets(topology: CpuTopology, width: int, by_package: bool, wide: bool) -> _ZoneSets:
    numbers = tuple(number for number, _ in topology.zones)
    widths = set_sizes(numbers) if wide or by_package else (width,)
    weighed = [each for size in widths for each in subsets(numbers, size)]
    aligned = [
        len(members) == width or (by_package and _is_aligned(topology, zones, width)) for zones, members in weighed
    ]
    if not wide:
        weighed = list(compress(weighed, aligned))
        aligned = [True] * len(weighed)
    return _ZoneSets(
        tuple(zones for zones, _ in weighed),
        tuple(_lanes(zones >> number & 1 for zones, _ in weighed) for number in numbers),
        _lanes([True] * len(weighed)),
        _lanes(aligned) * _TOP,
    )


def _lanes(bits: Iterable[int]) -> int:
    """Return an integer with the given bits as its lanes, the first one lowest."""
    return int.from_bytes(b"".join(b"\1\0" if bit else b"\0\0" for bit in bits), "little")


def _is_aligned(topology: CpuTopology, zones: int, width: int) -> bool:
    """Return whether zones span as few packages as `width` zones can span (isHintSocketAligned)."""
    cpus = topology.cpus_in_numa_nodes(zones)
    return sum(1 for _, package in topology.packages if package & cpus) == _fewest_packages(topology, width)


def _fewest_packages(topology: CpuTopology, width: int) -> int | None:
    """Return the smallest number of packages that `width` zones can span; None if packages outnumber zones."""
    each = topology.zones_per_package
    return (width + each - 1) // each if each else None

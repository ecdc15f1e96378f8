"""Hints of the CPU Manager (policy_static.go GetTopologyHints, generateCPUTopologyHints).

A set of zones is a hint if the free CPUs of its zones suffice; a preferred one if no fewer zones would do on an idle
node, where busy and reserved CPUs count too. With align-by-socket, sets that reach over as few packages as those would
are preferred as well.

All sets are weighed at once: one integer holds a lane of 16 bits for each set, a zone's count is added to the lanes of
the sets that it is in by one multiplication, and the top bit of a lane then tells whether its sum suffices. The 255
sets of 8 zones take as long as a loop over a few.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import chain, combinations, compress, islice
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.topologymanager.hints import Hints

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import NodeState

_LANE = 16
_TOP = 1 << _LANE - 1
"""More than any machine has CPUs (CONFIG_NR_CPUS is 8192 at most)."""

MAX_ZONE_SETS = 1 << 16
"""Sets of zones that are considered, in the kubelet's order: all of them up to 16 zones with CPUs. The kubelet itself
walks over 2^zones of them for every request, and does not come to an end with more."""


class _Sets(NamedTuple):
    """Sets of zones to weigh, in the kubelet's order: by their size, then lexicographic."""

    zones: tuple[int, ...]
    of_zone: tuple[int, ...]
    """By zone of the topology: a 1 in the lane of each set that it is in."""
    ones: int
    """A 1 in every lane."""
    preferred: int
    """The top bit of the lanes of those that are preferred if they suffice."""


def generate_cpu_topology_hints(
    state: NodeState, count: int, reusable: int, *, include_not_preferred: bool
) -> Hints | None:
    """Return in which zones so many CPUs can be given; None where the CPU Manager does not care.

    The bits of reusable are CPUs of ordinary init containers of the same pod, all of which a hint must hold. The order
    is the kubelet's: sets of fewer zones first. The others than the preferred are listed if wide.
    """
    policies, topology = state.kind.policies, state.kind.cpus
    if count < 1 or policies.cpu != "static":
        return None
    free, need = state.free_cpus, max(count - reusable.bit_count(), 0)
    if need > free.bit_count():
        return Hints(())
    width = min(bisect_left(topology.largest_totals, count) + 1, len(topology.zones))
    sets = _sets(topology, width, policies.align_by_package, include_not_preferred)
    sums = sets.ones * (_TOP - need)
    for (_, cpus), lanes in zip(topology.zones, sets.of_zone, strict=True):
        sums += lanes * (free & cpus).bit_count()
    enough = sums & sets.ones * _TOP
    if reusable:
        for (_, cpus), lanes in zip(topology.zones, sets.of_zone, strict=True):
            if reusable & cpus:
                enough &= lanes * _TOP
    preferred = enough & sets.preferred
    return Hints(_listed(sets, preferred), _listed(sets, enough ^ preferred) if include_not_preferred else ())


def _listed(sets: _Sets, lanes: int) -> tuple[int, ...]:
    """Return the sets whose lane has the top bit."""
    high_bytes = lanes.to_bytes(2 * len(sets.zones), "little")[1::2]
    return tuple(compress(sets.zones, high_bytes))


@lru_cache(maxsize=1024)
def _sets(topology: CpuTopology, width: int, by_package: bool, wide: bool) -> _Sets:
    numbers = [number for number, _ in topology.zones]
    widths = range(1, len(numbers) + 1) if wide or by_package else (width,)
    every = chain.from_iterable(combinations(numbers, size) for size in widths)
    weighed = [(sum(1 << number for number in chosen), chosen) for chosen in islice(every, MAX_ZONE_SETS)]
    aligned = [
        len(chosen) == width or (by_package and _is_aligned(topology, zones, width)) for zones, chosen in weighed
    ]
    if not wide:
        weighed = list(compress(weighed, aligned))
        aligned = [True] * len(weighed)
    return _Sets(
        tuple(zones for zones, _ in weighed),
        tuple(_lanes(zones >> number & 1 for zones, _ in weighed) for number in numbers),
        _lanes(1 for _ in weighed),
        _lanes(aligned) * _TOP,
    )


def _lanes(bits: Iterable[int]) -> int:
    """Return an integer with the given bits as its lanes, the first the lowest."""
    return int.from_bytes(b"".join(b"\1\0" if bit else b"\0\0" for bit in bits), "little")


def _is_aligned(topology: CpuTopology, zones: int, width: int) -> bool:
    """Tell whether zones reach over as few packages as the fewest that suffice (isHintSocketAligned)."""
    each = len(topology.zones) // len(topology.packages)
    if not each:
        return False
    cpus = topology.cpus_in_numa_nodes(zones)
    return sum(1 for _, package in topology.packages if package & cpus) == (width + each - 1) // each

"""CPUs spread evenly over as few zones as possible: distribute-cpus-across-numa (KEP-2902).

pkg/kubelet/cm/cpumanager/cpu_assignment.go takeByTopologyNUMADistributed. Among sets with the same number of zones and
equal shares, the kubelet looks for the set that leaves all zones most balanced. The measure is the standard deviation
of their free CPUs. With 4 or more zones, the kubelet may then take CPUs from other zones (overwritten_at_end) and so
reject a request that fits. From 1.37 on, align-by-socket prefers zones of one package, even if their shares differ.

The kubelet evaluates all subsets of all sets. This module first computes a bound for each set: the best balance that
any division of the remainder could leave. It then searches only the sets whose bound is as good as the best result so
far.

The sum of squares replaces the standard deviation, since the total number of CPUs left is constant. The kubelet rounds
deviations to thousandths, but on nodes with fewer than 2000 CPUs different deviations never differ by less.
"""

from __future__ import annotations

from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAccumulator, CpuAllocationError
from zonewise_scheduler.admission.cpumanager.numa_packed import check_enough, take_by_topology_numa_packed
from zonewise_scheduler.admission.errors import UNKNOWN_PREFIX, AdmissionError
from zonewise_scheduler.admission.resource_names import CPU

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import Policies

_NEVER_TERMINATES = "the kubelet never ends its distribution of whole cores over zones with only parts of cores left"

_MAX_SETS = 256
"""Maximum number of sets of one size that are searched: enough for any size if 10 zones have free CPUs."""


_EQUALIZES_SHARES = (1, 37)
"""The first release that reduces the shares of all zones to the least that a zone can provide, and that considers
align-by-socket."""


class _Request(NamedTuple):
    """A request for CPUs, and the free CPUs."""

    size: int
    group: int
    """CPUs are taken in groups of this size: the CPUs per core with full-pcpus-only, otherwise 1."""
    zones: tuple[int, ...]
    """The CPUs, as bits, of each zone that has free CPUs. Elsewhere, a zone is an index into this tuple."""
    free: tuple[int, ...]
    """Number of free CPUs by zone."""
    listed: tuple[int, ...]
    """The zones in the kubelet's order; a zone in two packages may be listed twice."""
    packages: tuple[int, ...]
    """The packages that zones should share, as bits; empty if any zones may be combined."""


class _Plan(NamedTuple):
    """Zones that each provide an equal share."""

    spans_packages: bool
    """Whether the zones are in several packages, although they should share one."""
    bound: int
    """Lower bound of the sum of squares of the CPUs left in each zone."""
    indices: tuple[int, ...]
    """Indices into `listed` of the request."""
    left: tuple[int, ...]
    """CPUs left in each zone after the shares are taken."""
    remainder: int
    """How many more CPUs are needed: fewer than one group from each zone, unless a zone has less than its share."""
    able: tuple[int, ...]
    """The zones of the plan that can provide one more group."""


class _Best(NamedTuple):
    """A plan, and the indices of the able zones that provide the remainder; better plans compare as smaller."""

    spans_packages: bool
    squares: int
    indices: tuple[int, ...]
    plan: _Plan
    providers: tuple[int, ...]
    left: tuple[int, ...]
    """CPUs left in each zone."""


def take_by_topology_numa_distributed(topology: CpuTopology, free: int, count: int, policies: Policies) -> int:
    """Return the bits of `count` of the free CPUs; raise CpuAllocationError if the kubelet allocates none.

    Raises AdmissionError with an empty reason if there are more than _MAX_SETS sets of zones to search.
    """
    if count < 1:
        return 0
    check_enough(free, count)
    group = topology.cpus_per_core if policies.full_cores else 1
    if count % group:
        return take_by_topology_numa_packed(topology, free, count, policies)
    accumulator = CpuAccumulator(topology, free, count)
    listed = accumulator.sort_available_numa_nodes()
    zones = tuple(dict.fromkeys(listed))
    counts = tuple((free & zone).bit_count() for zone in zones)
    is_aligned = policies.align_by_package and policies.release >= _EQUALIZES_SHARES
    packages = tuple(bits for _, bits in topology.packages) if is_aligned else ()
    request = _Request(count, group, zones, counts, tuple(map(zones.index, listed)), packages)
    for size in _sizes(topology, request):
        _check_set_count(len(listed), size)
        plans = list(_plans(request, size))
        best = _best_plan(request, plans)
        _check_termination(request, plans, best)
        if best is not None:
            _distribute(accumulator, request, best, policies)
            return accumulator.result
    return take_by_topology_numa_packed(topology, free, count, policies)


def _check_set_count(zones: int, size: int) -> None:
    """Raise AdmissionError with an empty reason if there are too many sets to search; the kubelet takes even longer."""
    if comb(zones, size) > _MAX_SETS:
        message = f"too many zones: CPUs are distributed over {size} of {zones} zones"
        raise AdmissionError("", f"{UNKNOWN_PREFIX}{message}, and more than {_MAX_SETS} sets are not searched", CPU)


def _sizes(topology: CpuTopology, request: _Request) -> range:
    """Return the numbers of zones to try (rangeNUMANodesNeededToSatisfy)."""
    groups = _ceil(topology.cpus.bit_count(), request.group)
    needed = _ceil(request.size, request.group)
    fewest = _ceil(needed, _ceil(groups, len(topology.zones)))
    return range(fewest, min(needed, len(request.free)) + 1)


def _plans(request: _Request, size: int) -> Iterator[_Plan]:
    """Yield the sets of `size` zones with enough CPUs and equal shares, in the kubelet's order."""
    group, free = request.group, request.free
    equal_share = _share(request, size)
    for indices in combinations(range(len(request.listed)), size):
        zones = [request.listed[index] for index in indices]
        counts = [free[zone] for zone in zones]
        in_groups = sum(count // group for count in counts) * group
        share = min(equal_share, min(counts) // group * group) if request.packages else equal_share
        if min(counts) < share or in_groups < request.size or sum(free[zone] for zone in set(zones)) < request.size:
            continue
        left = list(free)
        for zone in zones:
            left[zone] -= share
        able = tuple(zone for zone in zones if left[zone] >= group)
        remainder = request.size - share * size
        if able or not remainder:
            bound = _bound(left, able, remainder, group)
            yield _Plan(_spans_packages(request, zones), bound, indices, tuple(left), remainder, able)


def _spans_packages(request: _Request, zones: Iterable[int]) -> bool:
    """Return whether zones that should share a package are in several (topology.go AreNUMANodesInSameSocket)."""
    cpus = 0
    for zone in zones:
        cpus |= request.zones[zone]
    return sum(1 for package in request.packages if package & cpus) > 1


def _bound(left: Sequence[int], able: Sequence[int], remainder: int, group: int) -> int:
    """Return the sum of squares if each group of the remainder comes from the zone with the most CPUs left."""
    counts = list(left)
    for _ in range(0, remainder, group):
        counts[max(able, key=counts.__getitem__)] -= group
    return _sum_of_squares(counts)


def _best_plan(request: _Request, plans: Iterable[_Plan]) -> _Best | None:
    """Return the first of the best plans; None if no zones can provide the remainder."""
    best: _Best | None = None
    for plan in sorted(plans):
        if best is not None and plan[:3] > best[:3]:
            return best
        candidate = _with_providers(request, plan)
        if candidate is not None:
            best = min(candidate, best or candidate)
    return best


def _with_providers(request: _Request, plan: _Plan) -> _Best | None:
    """Return a plan with the best zones to provide the remainder; ties go to the most zones, then to the first."""
    best: _Best | None = None
    for providers in _subsets(range(len(plan.able))):
        left = _left(request, plan, [plan.able[index] for index in providers])
        if left is None:
            continue
        squares = _sum_of_squares(left)
        if best is None or squares < best.squares:
            best = _Best(plan.spans_packages, squares, plan.indices, plan, providers, left)
            if squares == plan.bound:
                return best
    return best


def _subsets(members: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Return all subsets, the largest first."""
    return chain.from_iterable(combinations(members, size) for size in range(len(members), -1, -1))


def _left(request: _Request, plan: _Plan, providers: Sequence[int]) -> tuple[int, ...] | None:
    """Return the CPUs left after zones have provided the remainder, group by group in rotation; None if they cannot."""
    if _in_groups(request, plan, providers) < plan.remainder:
        return None
    left, remainder, group = list(plan.left), plan.remainder, request.group
    while remainder:
        for zone in providers:
            if remainder and left[zone] >= group:
                left[zone] -= group
                remainder -= group
    return tuple(left)


def _in_groups(request: _Request, plan: _Plan, providers: Iterable[int]) -> int:
    """Return how many CPUs zones can provide in whole groups."""
    return sum([plan.left[zone] // request.group for zone in set(providers)]) * request.group


def _total(plan: _Plan, providers: Iterable[int]) -> int:
    """Return how many CPUs zones have left; a zone that is listed twice counts twice."""
    return sum([plan.left[zone] for zone in providers])


def _sum_of_squares(counts: Iterable[int]) -> int:
    return sum([count * count for count in counts])


def _check_termination(request: _Request, plans: Iterable[_Plan], best: _Best | None) -> None:
    """Raise CpuAllocationError if the kubelet evaluates zones that have the remainder, but not in whole groups.

    The kubelet then loops over these zones forever, because the remainder is never fully allocated.
    """
    for plan in plans:
        if best is not None and _ends_search(best) and plan.indices > best.indices:
            return
        if _in_groups(request, plan, plan.able) < _total(plan, plan.able) and any(
            _in_groups(request, plan, providers) < plan.remainder <= _total(plan, providers)
            for providers in _subsets(plan.able)
        ):
            raise CpuAllocationError(_NEVER_TERMINATES)


def _ends_search(best: _Best) -> bool:
    """Return whether the kubelet stops at the next plan: all zones have equally many CPUs left."""
    return len(set(best.left)) < 2 and not best.spans_packages


def _distribute(accumulator: CpuAccumulator, request: _Request, best: _Best, policies: Policies) -> None:
    """Take CPUs from the zones that overwrote the best plan; raise CpuAllocationError if these zones have too few."""
    count = len(request.listed)
    if _ends_search(best):
        indices = overwritten_by_next(best.indices, next_combination(best.indices, count))
    else:
        indices = overwritten_at_end(best.indices, count)
    share = _share(request, len(indices))
    if policies.release >= _EQUALIZES_SHARES:
        counts = [request.free[request.listed[index]] for index in indices]
        share = min(share, min(counts) // request.group * request.group)
    for index in indices:
        _take_from_zone(accumulator, request.zones[request.listed[index]], share, policies)
    providers = [
        request.zones[best.plan.able[index]] for index in overwritten_at_end(best.providers, len(best.plan.able))
    ]
    remainder = request.size - share * len(indices)
    while remainder:
        is_stuck = True
        for zone in providers:
            if remainder and (accumulator.free & zone).bit_count() >= request.group:
                _take_from_zone(accumulator, zone, request.group, policies)
                remainder -= request.group
                is_stuck = False
        if is_stuck:
            raise CpuAllocationError(_NEVER_TERMINATES)
    if accumulator.num_cpus_needed:
        missing = accumulator.num_cpus_needed
        raise CpuAllocationError(f"accounting error, not enough CPUs allocated, remaining: {missing}")


def _take_from_zone(accumulator: CpuAccumulator, zone: int, count: int, policies: Policies) -> None:
    """Take `count` CPUs from one zone, or none if it has fewer."""
    free = accumulator.free & zone
    if free.bit_count() >= count:
        accumulator.take(take_by_topology_numa_packed(accumulator.topology, free, count, policies))


def _share(request: _Request, zones: int) -> int:
    """Return how many CPUs each of `zones` zones provides, in whole groups."""
    return request.size // zones // request.group * request.group


def _ceil(count: int, size: int) -> int:
    return -(-count // size)


# --- subsets that the kubelet overwrites
# iterateCombinations makes each subset with append() to a shorter one, which copies only if the array is full. Arrays
# grow to 1, 2, 4, 8, ... elements. So the last elements of a subset of 4, 6, 7, 8 or more than 9 are in a shared
# array. Later subsets are written to it, too. This overwrites the best subset so far, which the kubelet has stored.
# Subsets consist of ascending indices below `count`; the iteration is in lexicographic order.


def overwritten_at_end(subset: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return the contents of a subset at the end of the iteration: those of the last subset with the same beginning."""
    unshared = _unshared_length(len(subset))
    last = tuple(range(count - len(subset), count))
    return subset[:unshared] + last[unshared:]


def overwritten_by_next(subset: tuple[int, ...], following: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the contents of a subset if the iteration ends with the `following` one; None: no subset follows."""
    unshared = _unshared_length(len(subset))
    if following is None or following[:unshared] != subset[:unshared]:
        return subset
    return following


def next_combination(subset: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """Return the subset that follows another one; None after the last."""
    walk = combinations(range(count), len(subset))
    return next(walk, None) if subset in walk else None


def _unshared_length(size: int) -> int:
    """Return how many leading elements of a subset no later subset overwrites: those written at its last growth."""
    return (1 << (size - 1).bit_length() >> 1) + 1

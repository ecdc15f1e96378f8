"""CPUs spread evenly over as few zones as can be: distribute-cpus-across-numa (KEP-2902).

From pkg/kubelet/cm/cpumanager/cpu_assignment.go takeByTopologyNUMADistributed. Of the sets of equally many zones that
can give equal shares, it wants the one that leaves all zones most balanced, by the standard deviation of their free
CPUs; but from 4 zones on it may then take of others (subsets.py), and so refuse what fits.

The kubelet weighs all subsets of all sets. Here each set is first given a bound, what it would leave at best if the
remainder could be dealt out in any way, and only those are searched whose bound is as good as the best found. The sum
of squares stands for the deviation, since the sum of the CPUs left is always the same. The kubelet rounds deviations to
thousandths, but no two differ by less on nodes with fewer than 2000 CPUs.
"""

from __future__ import annotations

from bisect import insort
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.cpumanager.accumulator import CpuAccumulator, CpuAllocationError
from zonewise_scheduler.admission.cpumanager.numa_packed import check_enough, take_by_topology_numa_packed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import Policies

_ENDLESS = "the kubelet never ends dealing out whole cores to zones of which only parts of cores are left"


class _Request(NamedTuple):
    """A request for CPUs, and what is free."""

    size: int
    group: int
    """CPUs are taken in groups of so many: a core's with full-pcpus-only, else 1."""
    zones: tuple[int, ...]
    """Bits of the CPUs of the zones with free ones; elsewhere zones are places in here."""
    free: tuple[int, ...]
    """Count of free CPUs by zone."""
    listed: tuple[int, ...]
    """The zones in the kubelet's order; one that is in two packages may be listed twice."""


class _Plan(NamedTuple):
    """Zones that each give an equal share."""

    bound: int
    """The least sum of squares of the counts that may be left by zone."""
    places: tuple[int, ...]
    """Of the zones in the list."""
    left: tuple[int, ...]
    """Count of CPUs by zone once the shares are given."""
    remainder: int
    """How many more CPUs are needed, less than a group of each zone."""
    able: tuple[int, ...]
    """Those of the zones that can give a group of the remainder."""


class _Best(NamedTuple):
    """A plan, and the places in it of the able zones that give the remainder; better ones are smaller."""

    squares: int
    places: tuple[int, ...]
    plan: _Plan
    givers: tuple[int, ...]


def take_by_topology_numa_distributed(topology: CpuTopology, free: int, count: int, policies: Policies) -> int:
    """Return the bits of so many CPUs of those that are free; raise CpuShortage where the kubelet gives none."""
    group = topology.cpus_per_core if policies.full_cores else 1
    if count < 1 or count % group:
        return take_by_topology_numa_packed(topology, free, count, policies)
    check_enough(free, count)
    chosen = CpuAccumulator(topology, free, count)
    listed = chosen.sort_available_numa_nodes()
    zones = tuple(dict.fromkeys(listed))
    counts = tuple((free & zone).bit_count() for zone in zones)
    request = _Request(count, group, zones, counts, tuple(map(zones.index, listed)))
    for size in _sizes(topology, request):
        plans = list(_plans(request, size))
        best = _best_of(request, plans)
        _check_ends(request, plans, best)
        if best is not None:
            _deal_out(chosen, request, best, policies)
            return chosen.result
    return take_by_topology_numa_packed(topology, free, count, policies)


def _sizes(topology: CpuTopology, request: _Request) -> range:
    """Return the counts of zones to try (rangeNUMANodesNeededToSatisfy)."""
    groups = _ceil(topology.cpus.bit_count(), request.group)
    needed = _ceil(request.size, request.group)
    fewest = _ceil(needed, _ceil(groups, len(topology.zones)))
    return range(fewest, min(needed, len(request.free)) + 1)


def _plans(request: _Request, size: int) -> Iterator[_Plan]:
    """Yield the sets of so many zones that have enough CPUs and can give equal shares, in the kubelet's order."""
    group, free = request.group, request.free
    share = _share(request, size)
    remainder = request.size - share * size
    for places in combinations(range(len(request.listed)), size):
        zones = [request.listed[place] for place in places]
        counts = [free[zone] for zone in zones]
        whole = sum(count // group for count in counts) * group
        if min(counts) < share or whole < request.size or sum(free[zone] for zone in set(zones)) < request.size:
            continue
        left = list(free)
        for zone in zones:
            left[zone] -= share
        able = tuple(zone for zone in zones if remainder and left[zone] >= group)
        if able or not remainder:
            yield _Plan(_bound(left, able, remainder, group), places, tuple(left), remainder, able)


def _bound(left: Sequence[int], able: Sequence[int], remainder: int, group: int) -> int:
    """Return the sum of squares if the remainder is taken of the fullest zone each time."""
    counts = sorted(left[zone] for zone in set(able))
    total = sum(count * count for count in left) - sum(count * count for count in counts)
    for _ in range(remainder // group):
        insort(counts, counts.pop() - group)
    return total + sum(count * count for count in counts)


def _best_of(request: _Request, plans: Sequence[_Plan]) -> _Best | None:
    """Return the first of the best plans; None where no zones can give the remainder."""
    best: _Best | None = None
    for plan in sorted(plans, key=lambda plan: (plan.bound, plan.places)):
        if best is not None and plan.bound > best.squares:
            break
        made = _completed(request, plan) if plan.remainder else _Best(plan.bound, plan.places, plan, ())
        if made is not None and (best is None or made[:2] < best[:2]):
            best = made
    return best


def _completed(request: _Request, plan: _Plan) -> _Best | None:
    """Return a plan with the zones that give the remainder: the most of them, then the first, of the equally good."""
    best: _Best | None = None
    known: dict[tuple[int, ...], int | None] = {}
    twice = len(set(plan.able)) < len(plan.able)
    for size in range(len(plan.able), 0, -1):
        for givers in combinations(range(len(plan.able)), size):
            first = givers if twice else givers[: plan.remainder // request.group]  # the others have nothing to give
            if first in known:
                continue
            squares = known[first] = _squares(request, plan, [plan.able[place] for place in first])
            if squares is not None and (best is None or squares < best.squares):
                best = _Best(squares, plan.places, plan, givers)
                if squares == plan.bound:
                    return best
    return best


def _squares(request: _Request, plan: _Plan, givers: Sequence[int]) -> int | None:
    """Return the sum of squares of what is left once zones have given the remainder in turn; None: they cannot."""
    if not _suffice(request, plan, givers):
        return None
    left, remainder, group = list(plan.left), plan.remainder, request.group
    while remainder:
        for zone in givers:
            if remainder and left[zone] >= group:
                left[zone] -= group
                remainder -= group
    return sum([count * count for count in left])


def _suffice(request: _Request, plan: _Plan, givers: Sequence[int]) -> bool:
    """Tell whether zones can give the remainder in whole groups."""
    return sum(plan.left[zone] // request.group for zone in set(givers)) * request.group >= plan.remainder


def _check_ends(request: _Request, plans: Sequence[_Plan], best: _Best | None) -> None:
    """Raise CpuShortage where the kubelet weighs zones that have the remainder, but not in whole groups.

    It deals it out in turn until all is given, which never happens.
    """
    for plan in plans:
        if best is not None and _is_even(request, best) and plan.places > best.places:
            return
        if len(set(plan.able)) == len(plan.able) and sum(plan.left[zone] % request.group for zone in plan.able) == 0:
            continue
        for size in range(1, len(plan.able) + 1):
            for givers in combinations(plan.able, size):
                if sum(plan.left[zone] for zone in givers) >= plan.remainder and not _suffice(request, plan, givers):
                    raise CpuAllocationError(_ENDLESS)


def _is_even(request: _Request, best: _Best) -> bool:
    """Tell whether a plan leaves all zones equal, with which the kubelet stops looking at the next one."""
    return best.squares * len(request.free) == (sum(request.free) - request.size) ** 2


def _deal_out(chosen: CpuAccumulator, request: _Request, best: _Best, policies: Policies) -> None:
    """Take CPUs of the zones that the best plan has become; raise CpuShortage where those cannot give them."""
    count = len(request.listed)
    if _is_even(request, best):
        places = overwritten_by_next(best.places, next_combination(best.places, count))
    else:
        places = overwritten_at_end(best.places, count)
    share = _share(request, len(places))
    for place in places:
        _take_of_zone(chosen, request.zones[request.listed[place]], share, policies)
    givers = [request.zones[best.plan.able[place]] for place in overwritten_at_end(best.givers, len(best.plan.able))]
    remainder = best.plan.remainder
    while remainder:
        before = remainder
        for zone in givers:
            if remainder and (chosen.free & zone).bit_count() >= request.group:
                _take_of_zone(chosen, zone, request.group, policies)
                remainder -= request.group
        if remainder == before:
            raise CpuAllocationError(_ENDLESS)
    if chosen.num_cpus_needed:
        word = "not enough" if chosen.num_cpus_needed > 0 else "too many"
        raise CpuAllocationError(f"accounting error, {word} CPUs allocated, remaining: {chosen.num_cpus_needed}")


def _take_of_zone(chosen: CpuAccumulator, zone: int, count: int, policies: Policies) -> None:
    """Take so many CPUs of one zone, or none where it has not so many."""
    free = chosen.free & zone
    if free.bit_count() >= count:
        chosen.take(take_by_topology_numa_packed(chosen.topology, free, count, policies))


def _share(request: _Request, zones: int) -> int:
    """Return how many CPUs each of so many zones gives, in whole groups."""
    return request.size // zones // request.group * request.group


def _ceil(count: int, size: int) -> int:
    return -(-count // size)


# --- subsets that the kubelet overwrites


def overwritten_at_end(subset: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return what a subset has become at the end of the walk: the last one that begins alike."""
    own = _own(len(subset))
    return subset[:own] + tuple(range(count - len(subset) + own, count))


def overwritten_by_next(subset: tuple[int, ...], following_subset: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return what a subset has become where the walk ends with the one after it; None: there is none."""
    own = _own(len(subset))
    return following_subset if following_subset is not None and following_subset[:own] == subset[:own] else subset


def next_combination(subset: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """Return the subset after another one; None after the last."""
    size = len(subset)
    for place in range(size - 1, -1, -1):
        if subset[place] < count - size + place:
            return subset[:place] + tuple(range(subset[place] + 1, subset[place] + 1 + size - place))
    return None


def _own(size: int) -> int:
    """Return how many places of a subset no later one writes to: those up to the one with which it was copied last."""
    return size if size < 2 else (1 << (size - 1).bit_length() - 1) + 1

"""distribute-cpus-across-numa: CPUs are spread evenly over zones."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, CoreAt, regular, state_of, states, topology_of
from zonewise_scheduler.admission.cpumanager import CpuAllocationError, allocate_cpus
from zonewise_scheduler.admission.cpumanager.accumulator import lowest_bits
from zonewise_scheduler.admission.cpumanager.numa_distributed import (
    next_combination,
    overwritten_at_end,
    overwritten_by_next,
)
from zonewise_scheduler.admission.errors import AdmissionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.cpu_topology import CpuTopology
    from zonewise_scheduler.admission.node import NodeState

SPREAD = STATIC._replace(distribute_across_zones=True)


def per_zone(state: NodeState, cpus: int) -> list[int]:
    """Return the number of CPUs in each zone."""
    return [(zone & cpus).bit_count() for _, zone in state.kind.cpus.zones]


@given(states(st.just(SPREAD)), st.data())
def test_a_request_that_fits_one_zone(state: NodeState, data: st.DataObject) -> None:
    """The request is served from the zone with the most free CPUs, which leaves the zones most balanced."""
    most = max(per_zone(state, state.free_cpus))
    assume(most)
    shares = per_zone(state, allocate_cpus(state, data.draw(st.integers(1, most)), None, 0))
    assert sum(map(bool, shares)) == 1
    assert per_zone(state, state.free_cpus)[shares.index(max(shares))] == most


@given(st.integers(1, 3), st.integers(1, 6), st.data())
def test_equal_shares_of_an_idle_machine(zones: int, cores: int, data: st.DataObject) -> None:
    """The shares of up to three zones differ by at most one core, and are whole cores with full-pcpus-only."""
    state = state_of(regular(zones, cores), SPREAD._replace(full_cores=True))
    count = 2 * data.draw(st.integers(1, zones * cores))
    shares = [share for share in per_zone(state, allocate_cpus(state, count, None, 0)) if share]
    assert max(shares) - min(shares) <= 2
    assert all(share % 2 == 0 for share in shares)


def test_odd_counts_are_packed() -> None:
    """A request that is not a multiple of the core size is packed."""
    state = state_of(regular(2, 4), SPREAD._replace(full_cores=True))
    assert per_zone(state, allocate_cpus(state, 9, None, 0)) == [8, 1]
    assert per_zone(state, allocate_cpus(state, 10, None, 0)) == [6, 4]


@pytest.mark.parametrize(
    ("free", "count", "shares"),
    [
        ((7, 7, 3), 10, [6, 4, 0]),
        ((7, 7, 7), 10, [6, 4, 0]),
        ((8, 7, 8), 10, [6, 0, 4]),
        ((6, 6, 6), 18, [6, 6, 6]),
        ((5, 5, 4, 2), 14, None),
    ],
)
def test_zones_with_half_a_core_free(free: tuple[int, ...], count: int, shares: list[int] | None) -> None:
    """Zones provide whole cores. None: the remainder is free, but not in whole cores, so the kubelet never ends."""
    state = state_of(regular(len(free), 4), SPREAD._replace(full_cores=True))
    cpus = [[cpu for cpu in range(8 * len(free)) if zone >> cpu & 1] for _, zone in state.kind.cpus.zones]
    taken = sum(1 << cpu for zone, left in zip(cpus, free, strict=True) for cpu in zone[: 8 - left])
    state = state._replace(free_cpus=state.free_cpus & ~taken)
    if shares is None:
        with pytest.raises(CpuAllocationError, match="never"):
            allocate_cpus(state, count, None, 0)
        return
    assert per_zone(state, allocate_cpus(state, count, None, 0)) == shares


def least_squares(free: list[int], count: int, group: int, fewest: int) -> int | None:
    """Return the least sum of squares of the CPUs left in zones, over all distributions; None if there is none.

    A distribution uses the fewest possible zones, each with an equal share of whole groups, and deals out the rest.
    """
    for size in range(fewest, len(free) + 1):
        squares: list[int] = []
        share = count // size // group * group
        for zones in combinations(range(len(free)), size):
            if min(free[zone] for zone in zones) < share or sum(free[zone] // group for zone in zones) * group < count:
                continue
            able = [zone for zone in zones if free[zone] - share >= group]
            for number in range(len(able) + 1):
                for providers in combinations(able, number):
                    left = [amount - share * (zone in zones) for zone, amount in enumerate(free)]
                    squares += deal_out(left, providers, count - share * size, group)
        if squares:
            return min(squares)
    return None


def deal_out(left: list[int], providers: tuple[int, ...], remainder: int, group: int) -> list[int]:
    """Return the sum of squares after zones have provided groups in rotation; empty if they have too few."""
    if sum(left[zone] // group for zone in providers) * group < remainder:
        return []
    while remainder:
        for zone in providers:
            if remainder and left[zone] >= group:
                left[zone] -= group
                remainder -= group
    return [sum(amount * amount for amount in left)]


@given(st.integers(2, 3), st.integers(1, 5), st.booleans(), st.data())
def test_no_other_way_leaves_zones_more_even(zones: int, cores: int, full_cores: bool, data: st.DataObject) -> None:
    """No distribution over up to three zones is more even; for so few zones, no set of zones is overwritten."""
    state = state_of(regular(zones, cores), SPREAD._replace(full_cores=full_cores))
    taken = data.draw(st.integers(0, (1 << 2 * zones * cores) - 1))
    state = state._replace(free_cpus=state.free_cpus & ~taken)
    free, group = per_zone(state, state.free_cpus), 2 if full_cores else 1
    count = group * data.draw(st.integers(1, max(1, state.free_cpus.bit_count() // group)))
    assume(count <= state.free_cpus.bit_count())
    needed, in_each = count // group, -(-2 * cores // group)
    expected = least_squares(free, count, group, -(-needed // in_each))
    try:
        shares = per_zone(state, allocate_cpus(state, count, None, 0))
    except CpuAllocationError:
        return
    assert sum(shares) == count
    left = [amount - share for amount, share in zip(free, shares, strict=True)]
    assert expected is None or sum(amount * amount for amount in left) == expected


def test_no_cpus_are_distributed_if_none_are_requested() -> None:
    assert allocate_cpus(state_of(regular(2, 4), SPREAD), 0, None, 0) == 0


def test_many_sets_of_zones_are_not_searched() -> None:
    """The 252 sets of 5 out of 10 zones are searched, but not the 330 sets of 4 out of 11."""
    searched = state_of(regular(10, 1), SPREAD)
    assert per_zone(searched, allocate_cpus(searched, 10, None, 0)).count(2) == 5
    with pytest.raises(AdmissionError, match="distributed over 4 of 11 zones, and more than 256 sets") as error:
        allocate_cpus(state_of(regular(11, 1), SPREAD), 8, None, 0)
    assert (error.value.reason, error.value.resource) == ("", "cpu")


def test_the_best_set_of_four_zones_is_overwritten() -> None:
    """The first four of five idle zones are best, but by the end of the walk the last of them has been replaced."""
    state = state_of(regular(5, 4, 1, packages=5), SPREAD)
    assert per_zone(state, allocate_cpus(state, 12, None, 0)) == [4, 4, 4, 0, 0]
    assert per_zone(state, allocate_cpus(state, 13, None, 0)) == [4, 3, 3, 0, 3]


# --- subsets


def go_walk(count: int, size: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
    """Yield, for each subset of a walk with Go's append(), its array and its elements when it was made."""

    def extend(array: list[int], length: int, start: int) -> Iterator[tuple[list[int], tuple[int, ...]]]:
        if length == size:
            yield array, tuple(array[:size])
            return
        for item in range(start, count - (size - length) + 1):
            longer = array if length < len(array) else [*array, *[0] * max(length, 1)]
            longer[length] = item
            yield from extend(longer, length + 1, item + 1)

    return extend([], 0, 0)


@pytest.mark.parametrize("count", range(1, 11))
def test_overwritten_at_end(count: int) -> None:
    """The closed form is the content of a Go array at the end of the walk."""
    for size in range(1, count + 1):
        assert [tuple(array[:size]) for array, _ in list(go_walk(count, size))] == [
            overwritten_at_end(subset, count) for _, subset in go_walk(count, size)
        ]


@pytest.mark.parametrize("count", range(1, 9))
def test_overwritten_by_next(count: int) -> None:
    """A subset is overwritten by the following one if and only if they share an array."""
    for size in range(1, count + 1):
        walk = list(go_walk(count, size))
        for (array, subset), following in zip(walk, [*walk[1:], None], strict=True):
            following_subset = following[1] if following is not None else None
            shares = following is not None and following[0] is array
            assert next_combination(subset, count) == following_subset
            assert overwritten_by_next(subset, following_subset) == (following_subset if shares else subset)


def test_the_walk_is_in_lexicographic_order() -> None:
    assert [subset for _, subset in go_walk(6, 3)] == list(combinations(range(6), 3))


# --- the whole search


class Machine(NamedTuple):
    """Zones of cores with two threads, and a request; CPUs are counted per zone."""

    free: tuple[int, ...]
    packages: int
    """Number of packages with the same number of cores each; a zone may span two of them."""
    cores: tuple[int, ...]
    size: int
    group: int
    release: int = 36
    """Minor release of the kubelet."""
    by_package: bool = False
    """align-by-socket."""

    @property
    def aligns(self) -> bool:
        """Return whether zones of one package are preferred."""
        return self.by_package and self.release >= 37

    def groups(self, zones: Sequence[int]) -> list[int]:
        """Return how many free CPUs each zone has in whole groups."""
        return [self.free[zone] // self.group * self.group for zone in zones]

    def in_one_package(self, zones: Sequence[int]) -> bool:
        """Return whether zones share a package (AreNUMANodesInSameSocket)."""
        cpus = sum(self.topology.zones[zone][1] for zone in set(zones))
        return sum(bool(package & cpus) for _, package in self.topology.packages) <= 1

    @property
    def topology(self) -> CpuTopology:
        """Return the topology; the free CPUs of a zone are its lowest ones."""
        total = sum(self.cores)
        zones = [zone for zone, cores in enumerate(self.cores) for _ in range(cores)]
        return topology_of(
            CoreAt(zone, core * self.packages // total, None, 1 << core | 1 << core + total)
            for core, zone in enumerate(zones)
        )


class NeverEnds(Exception):
    """The kubelet's allocation never ends."""


def spread(left: Sequence[int], zones: Sequence[int], group: int, remainder: int) -> list[int]:
    """Return the CPUs left after zones have provided the remainder group by group."""
    after = list(left)
    while remainder:
        before = remainder
        for zone in zones:
            if remainder and after[zone] >= group:
                after[zone] -= group
                remainder -= group
        if remainder == before:
            raise NeverEnds
    return after


def take_shares(left: Sequence[int], zones: Sequence[int], share: int) -> list[int]:
    """Return the CPUs left after each zone with enough CPUs has provided a share."""
    after = list(left)
    for zone in zones:
        after[zone] -= share if after[zone] >= share else 0
    return after


def squares(counts: Sequence[int]) -> int:
    """Return a value that grows with the standard deviation of counts with a fixed sum."""
    return sum(count * count for count in counts)


def best_providers(left: Sequence[int], combo: Sequence[int], group: int, remainder: int) -> tuple[int, list[int]]:
    """Return the balance and the zones that provide the remainder (the inner walk)."""
    if not remainder:
        return squares(left), []
    able = [zone for zone in combo if left[zone] >= group]
    best, array, size = 1 << 60, list[int](), 0
    for count in range(len(able), 0, -1):
        for subset_array, subset in go_walk(len(able), count):
            zones = [able[index] for index in subset]
            if sum(left[zone] for zone in zones) >= remainder:
                balance = squares(spread(left, zones, group, remainder))
                if balance < best:
                    best, array, size = balance, subset_array, count
    return best, [able[index] for index in array[:size]]


def listed_zones(machine: Machine, free: int) -> list[int]:
    """Return the zones with free CPUs (sortAvailableNUMANodes)."""
    topology = machine.topology
    packages = topology.packages if machine.packages < len(machine.free) else ((0, topology.cpus),)
    return [
        zone
        for _, package in sorted(packages, key=lambda package: (package[1] & free).bit_count())
        for zone, cpus in sorted(topology.zones, key=lambda zone: machine.free[zone[0]])
        if package & cpus & free
    ]


def kubelet_shares(machine: Machine, zones: Sequence[int]) -> list[int] | None:
    """Run a transcription of takeByTopologyNUMADistributed on counts; return None if it packs CPUs."""
    free, cores, size, group = machine.free, machine.cores, machine.size, machine.group
    needed = size // group
    fewest = -(-needed // -(-(2 * sum(cores) // group) // len(free)))
    for count in range(fewest, min(needed, len(set(zones))) + 1):
        share = needed // count * group
        best, best_in_one, array, providers = 1 << 60, False, list[int](), list[int]()
        for subset_array, subset in go_walk(len(zones), count):
            is_even = best * len(set(zones)) == (sum(free) - size) ** 2  # a deviation of 0
            if is_even and (best_in_one or not machine.aligns):
                break
            combo = [zones[index] for index in subset]
            if sum(free[zone] for zone in set(combo)) < size or sum(machine.groups(combo)) < size:
                continue
            own_share = min(share, *machine.groups(combo)) if machine.aligns else share
            if any(free[zone] < own_share for zone in combo):
                continue
            left = [number - own_share * combo.count(zone) for zone, number in enumerate(free)]
            balance, zones_of_remainder = best_providers(left, combo, group, size - own_share * count)
            in_one = machine.aligns and machine.in_one_package(combo)
            if balance < best if in_one == best_in_one else in_one:
                best, best_in_one, array, providers = balance, in_one, subset_array, zones_of_remainder
        if array:
            chosen = [zones[index] for index in array[:count]]
            if machine.release >= 37:
                share = min(share, *machine.groups(chosen))
            left = take_shares(free, chosen, share)
            return list(map(sub, free, spread(left, providers, group, size - share * count)))
    return None


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Draw up to seven zones with any free CPUs."""
    cores = tuple(draw(st.lists(st.integers(1, 3), min_size=2, max_size=7)))
    if draw(st.booleans()):
        cores = cores[:1] * len(cores)
    free = tuple(draw(st.integers(0, 2 * count)) for count in cores)
    group = draw(st.sampled_from([1, 2]))
    assume(sum(free) >= group)
    packages = draw(st.integers(1, len(cores)))
    size = draw(st.integers(1, sum(free) // group)) * group
    return Machine(free, packages, cores, size, group, draw(st.sampled_from([36, 37])), draw(st.booleans()))


@given(machines())
@example(Machine((1, 1, 1, 1, 1, 1), packages=2, cores=(1,) * 6, size=4, group=1)).via("the fourth zone is overwritten")
@example(Machine((4, 4, 4, 4, 4, 4, 4, 4), packages=8, cores=(2,) * 8, size=27, group=1)).via("so is the seventh")
@example(Machine((6, 4, 3, 5), packages=2, cores=(3,) * 4, size=15, group=1)).via("a later set of providers is worse")
@example(Machine((4, 5, 5, 2), packages=1, cores=(3,) * 4, size=14, group=2)).via(
    "half cores are left: the kubelet never ends"
)
@example(Machine((5, 5), packages=1, cores=(3,) * 2, size=6, group=2)).via(
    "half cores are left, and whole ones suffice"
)
@example(Machine((1, 2), packages=1, cores=(1, 1), size=1, group=1)).via("one CPU comes from the fullest zone")
@example(Machine((4, 4, 6), packages=1, cores=(2, 3, 3), size=11, group=1)).via("one zone provides the remainder")
@example(Machine((4, 2, 4, 2, 1), packages=4, cores=(2,) * 5, size=12, group=1)).via("two zones provide it in turns")
@example(Machine((3, 2, 3, 5, 5, 6), packages=4, cores=(3,) * 6, size=19, group=1)).via("no order is as good as hoped")
@example(Machine((10, 2, 2, 1, 1, 1, 1), packages=1, cores=(5,) * 7, size=12, group=2)).via("no more zones than cores")
@example(Machine((2, 4, 2, 2), packages=2, cores=(2, 2, 1, 1), size=10, group=2)).via("a zone is emptied twice")
@example(Machine((5, 5, 5, 5, 3), packages=3, cores=(3,) * 5, size=18, group=2)).via("three half cores never suffice")
@example(Machine((3, 1, 5, 3, 3, 5, 3), packages=5, cores=(3,) * 7, size=16, group=2)).via("zones are listed twice")
@example(Machine((3, 0, 4, 3), packages=2, cores=(2,) * 4, size=6, group=1, release=37, by_package=True)).via(
    "zones of one package leave the zones less even"
)
@example(Machine((4, 1, 4, 4), packages=2, cores=(2,) * 4, size=5, group=1, release=37, by_package=True)).via(
    "zones of one package have different shares"
)
@example(Machine((5, 4, 4, 4) + (3,) * 6, packages=2, cores=(3,) * 4 + (2,) * 6, size=17, group=1, release=36)).via(
    "a zone that replaces another one has too few CPUs"
)
@example(Machine((5, 4, 4, 4) + (3,) * 6, packages=2, cores=(3,) * 4 + (2,) * 6, size=17, group=1, release=37)).via(
    "it reduces all shares, and the remainder suffices"
)
@example(Machine((4,) * 4 + (3,) * 6, packages=2, cores=(3,) * 4 + (2,) * 6, size=16, group=1, release=37)).via(
    "it reduces all shares, and no zone provides the remainder: the kubelet never ends"
)
@example(Machine((4, 2, 2), packages=1, cores=(2, 1, 1), size=6, group=1, release=38, by_package=True)).via(
    "the share of three zones is less than the emptiest one has"
)
@example(Machine((4, 1), packages=2, cores=(2, 1), size=2, group=2, release=38, by_package=True)).via(
    "half a core is no share"
)
@example(Machine((1, 3), packages=2, cores=(1, 2), size=4, group=1, release=37, by_package=True)).via(
    "the emptiest zone limits the share"
)
@example(Machine((3, 4), packages=2, cores=(2, 2), size=5, group=1, release=37, by_package=True)).via(
    "the fuller zone provides the remainder"
)
@example(Machine((3, 1), packages=2, cores=(2, 1), size=4, group=1, release=38, by_package=True)).via(
    "later releases have the same rules"
)
@example(Machine((6, 2, 2), packages=2, cores=(3, 2, 1), size=8, group=2, release=37, by_package=True)).via(
    "the emptiest zone limits the share to whole cores"
)
@example(Machine((6, 1), packages=2, cores=(3, 1), size=6, group=2, release=37, by_package=True)).via(
    "a zone with half a core is in the set, and gives nothing"
)
@example(
    Machine((5, 1, 6, 2, 0), packages=1, cores=(3, 1, 3, 2, 1), size=11, group=1, release=38, by_package=True)
).via("of equally even sets, the first one counts")
def test_shares_match_the_kubelet(machine: Machine) -> None:
    """Shares match the kubelet's walk over all sets of zones and all sets of zones for the remainder."""
    topology = machine.topology
    policies = SPREAD._replace(
        full_cores=machine.group == 2, align_by_package=machine.by_package, release=(1, machine.release)
    )
    free = sum(lowest_bits(cpus, count) for (_, cpus), count in zip(topology.zones, machine.free, strict=True))
    state = state_of(topology, policies)._replace(free_cpus=free)
    listed = listed_zones(machine, free)
    assume(len(listed) <= 10)  # longer lists have too many sets to search
    try:
        expected = kubelet_shares(machine, listed)
    except NeverEnds:
        with pytest.raises(CpuAllocationError, match="the kubelet never ends"):
            allocate_cpus(state, machine.size, None, 0)
        return
    if expected is None:
        packing = replace(state.kind, policies=policies._replace(distribute_across_zones=False))
        packed = allocate_cpus(state._replace(kind=packing), machine.size, None, 0)
        assert allocate_cpus(state, machine.size, None, 0) == packed
    elif sum(expected) < machine.size:
        with pytest.raises(CpuAllocationError, match=f"remaining: {machine.size - sum(expected)}$"):
            allocate_cpus(state, machine.size, None, 0)
    else:
        assert per_zone(state, allocate_cpus(state, machine.size, None, 0)) == expected

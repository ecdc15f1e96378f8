"""distribute-cpus-across-numa: CPUs spread evenly over zones."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, regular, state_of, states
from zonewise_scheduler.admission.cpumanager import CpuAllocationError, allocate_cpus
from zonewise_scheduler.admission.cpumanager.accumulator import lowest_bits
from zonewise_scheduler.admission.cpumanager.numa_distributed import (
    next_combination,
    overwritten_at_end,
    overwritten_by_next,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState

SPREAD = STATIC._replace(distribute_across_zones=True)


def per_zone(state: NodeState, cpus: int) -> list[int]:
    """Return the number of CPUs by zone."""
    return [(zone & cpus).bit_count() for _, zone in state.kind.cpus.zones]


@given(states(st.just(SPREAD)), st.data())
def test_a_request_that_fits_one_zone(state: NodeState, data: st.DataObject) -> None:
    """It stays in the zone with the most free CPUs, which leaves the zones most balanced."""
    most = max(per_zone(state, state.free_cpus))
    assume(most)
    shares = per_zone(state, allocate_cpus(state, data.draw(st.integers(1, most)), None, 0))
    assert sum(map(bool, shares)) == 1
    assert per_zone(state, state.free_cpus)[shares.index(max(shares))] == most


@given(st.integers(1, 3), st.integers(1, 6), st.data())
def test_equal_shares_of_an_idle_machine(zones: int, cores: int, data: st.DataObject) -> None:
    """The shares of up to three zones differ by one core at most, in whole cores with full-pcpus-only."""
    state = state_of(regular(zones, cores), SPREAD._replace(full_cores=True))
    count = 2 * data.draw(st.integers(1, zones * cores))
    shares = [share for share in per_zone(state, allocate_cpus(state, count, None, 0)) if share]
    assert max(shares) - min(shares) <= 2
    assert all(share % 2 == 0 for share in shares)


def test_odd_counts_are_packed() -> None:
    """A request that is not a multiple of a core is packed."""
    state = state_of(regular(2, 4), SPREAD._replace(full_cores=True))
    assert per_zone(state, allocate_cpus(state, 9, None, 0)) == [8, 1]
    assert per_zone(state, allocate_cpus(state, 10, None, 0)) == [6, 4]


def test_the_best_set_of_four_zones_is_overwritten() -> None:
    """The first four of five idle zones are best; by the end of the walk the last of them is replaced."""
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
    """The closed form is the content of an array of Go at the end of the walk."""
    for size in range(1, count + 1):
        assert [tuple(array[:size]) for array, _ in list(go_walk(count, size))] == [
            overwritten_at_end(subset, count) for _, subset in go_walk(count, size)
        ]


@pytest.mark.parametrize("count", range(1, 9))
def test_overwritten_by_next(count: int) -> None:
    """The following subset overwrites a subset if and only if they share an array."""
    for size in range(1, count + 1):
        walk = list(go_walk(count, size))
        for (array, subset), following in zip(walk, [*walk[1:], None], strict=True):
            following_subset = following[1] if following is not None else None
            shares = following is not None and following[0] is array
            assert next_combination(subset, count) == following_subset
            assert overwritten_by_next(subset, following_subset) == (following_subset if shares else subset)


def test_lexicographic_order() -> None:
    """The walk is in lexicographic order."""
    assert [subset for _, subset in go_walk(6, 3)] == list(combinations(range(6), 3))


# --- the whole search


class Machine(NamedTuple):
    """Equal zones of cores with two threads, and a request; CPUs are counted by zone."""

    free: tuple[int, ...]
    packages: int
    cores: int
    size: int
    group: int


class NeverEnds(Exception):
    """The kubelet allocates for ever."""


def spread(left: Sequence[int], zones: Sequence[int], group: int, remainder: int) -> list[int]:
    """Return the CPUs left once zones have provided the remainder, group after group."""
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


def squares(counts: Sequence[int]) -> int:
    """Return what grows with the standard deviation of counts of one sum."""
    return sum(count * count for count in counts)


def best_providers(left: Sequence[int], combo: Sequence[int], group: int, remainder: int) -> tuple[int, list[int]]:
    """Return the balance, and the zones that provide the remainder (the inner walk)."""
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


def kubelet_shares(machine: Machine) -> list[int] | None:
    """takeByTopologyNUMADistributed, literally, in counts; None where it packs."""
    free, packages, cores, size, group = machine
    width, needed = len(free) // packages, size // group
    order = sorted(range(packages), key=lambda package: sum(free[package * width : (package + 1) * width]))
    zones = [
        zone
        for package in order
        for zone in sorted(range(package * width, (package + 1) * width), key=lambda zone: free[zone])
        if free[zone]
    ]
    for count in range(-(-needed // (2 * cores // group)), min(needed, len(zones)) + 1):
        share = needed // count * group
        remainder = size - share * count
        best, array, providers = 1 << 60, list[int](), list[int]()
        for subset_array, subset in go_walk(len(zones), count):
            if best * len(zones) == (sum(free) - size) ** 2:  # a deviation of 0
                break
            combo = [zones[index] for index in subset]
            if sum(free[zone] // group for zone in combo) < needed or any(free[zone] < share for zone in combo):
                continue
            left = [number - share * (zone in combo) for zone, number in enumerate(free)]
            balance, zones_of_remainder = best_providers(left, combo, group, remainder)
            if balance < best:
                best, array, providers = balance, subset_array, zones_of_remainder
        if array:
            combo = [zones[index] for index in array[:count]]
            left = [number - share * (zone in combo and number >= share) for zone, number in enumerate(free)]
            return [
                before - after for before, after in zip(free, spread(left, providers, group, remainder), strict=True)
            ]
    return None


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Draw up to seven zones with any free CPUs."""
    packages, width = draw(st.sampled_from([(1, 2), (1, 4), (2, 2), (2, 3), (5, 1), (7, 1)]))
    cores = draw(st.integers(1, 3))
    free = draw(st.tuples(*[st.integers(0, 2 * cores)] * (packages * width)))
    group = draw(st.sampled_from([1, 2]))
    assume(sum(free) >= group)
    return Machine(free, packages, cores, draw(st.integers(1, sum(free) // group)) * group, group)


@given(machines())
@example(Machine((1, 1, 1, 1, 1, 1), packages=2, cores=1, size=4, group=1)).via("the fourth zone is overwritten")
@example(Machine((4, 4, 4, 4, 4, 4, 4, 4), packages=8, cores=2, size=27, group=1)).via("so is the seventh")
@example(Machine((6, 4, 3, 5), packages=2, cores=3, size=15, group=1)).via("a later set of providers is worse")
@example(Machine((4, 5, 5, 2), packages=1, cores=3, size=14, group=2)).via(
    "half cores are left: the kubelet never ends"
)
@example(Machine((5, 5), packages=1, cores=3, size=6, group=2)).via("half cores are left, and whole ones suffice")
def test_shares_are_the_kubelets(machine: Machine) -> None:
    """The same CPUs of each zone as by a walk over all sets of zones, and all sets of those for the remainder."""
    topology = regular(len(machine.free), machine.cores, packages=machine.packages)
    policies = SPREAD._replace(full_cores=machine.group == 2)
    free = sum(lowest_bits(cpus, count) for (_, cpus), count in zip(topology.zones, machine.free, strict=True))
    state = state_of(topology, policies)._replace(free_cpus=free)
    try:
        expected = kubelet_shares(machine)
    except NeverEnds:
        with pytest.raises(CpuAllocationError, match="the kubelet never ends"):
            allocate_cpus(state, machine.size, None, 0)
        return
    assume(expected is not None)
    if expected is not None and sum(expected) < machine.size:
        with pytest.raises(CpuAllocationError, match=f"remaining: {machine.size - sum(expected)}$"):
            allocate_cpus(state, machine.size, None, 0)
        return
    assert per_zone(state, allocate_cpus(state, machine.size, None, 0)) == expected

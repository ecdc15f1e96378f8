"""CPUs spread evenly over zones, and what the kubelet makes of it."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.cpu_nodes import STATIC, regular, state_of, states
from zonewise_scheduler.admission.cpumanager import allocate_cpus
from zonewise_scheduler.admission.cpumanager.numa_distributed import (
    next_combination,
    overwritten_at_end,
    overwritten_by_next,
)

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

SPREAD = STATIC._replace(distribute_across_zones=True)


def per_zone(state: NodeState, cpus: int) -> list[int]:
    """Return how many of some CPUs are in each zone."""
    return [(zone & cpus).bit_count() for _, zone in state.kind.cpus.zones]


@given(states(st.just(SPREAD)), st.data())
def test_one_zone_where_one_suffices(state: NodeState, data: st.DataObject) -> None:
    """What fits in one zone stays in one, the one that leaves the zones most alike: the one with the most left."""
    most = max(per_zone(state, state.free_cpus))
    assume(most)
    given_by = per_zone(state, allocate_cpus(state, data.draw(st.integers(1, most)), None, 0))
    assert sum(map(bool, given_by)) == 1
    assert per_zone(state, state.free_cpus)[given_by.index(max(given_by))] == most


@given(st.integers(1, 3), st.integers(1, 6), st.data())
def test_equal_shares_of_an_idle_machine(zones: int, cores: int, data: st.DataObject) -> None:
    """Up to three zones give shares that differ by one core at most, with full-pcpus-only in whole cores."""
    state = state_of(regular(zones, cores), SPREAD._replace(full_cores=True))
    count = 2 * data.draw(st.integers(1, zones * cores))
    shares = [share for share in per_zone(state, allocate_cpus(state, count, None, 0)) if share]
    assert max(shares) - min(shares) <= 2
    assert all(share % 2 == 0 for share in shares)


def test_odd_counts_are_packed() -> None:
    """A request that is no whole number of cores is packed."""
    state = state_of(regular(2, 4), SPREAD._replace(full_cores=True))
    assert per_zone(state, allocate_cpus(state, 9, None, 0)) == [8, 1]
    assert per_zone(state, allocate_cpus(state, 10, None, 0)) == [6, 4]


def test_of_four_zones_the_kubelet_takes_others_than_it_chose() -> None:
    """The best four of five idle zones are the first ones; by the end of the walk the last of them is another one."""
    state = state_of(regular(5, 4, 1, packages=5), SPREAD)
    assert per_zone(state, allocate_cpus(state, 12, None, 0)) == [4, 4, 4, 0, 0]
    assert per_zone(state, allocate_cpus(state, 13, None, 0)) == [4, 3, 3, 0, 3]


# --- subsets


def walked(count: int, size: int) -> list[tuple[list[int], tuple[int, ...]]]:
    """Return, for each subset of a walk with Go's append(), the array that it lies in and what it was when made."""
    found: list[tuple[list[int], tuple[int, ...]]] = []

    def extend(array: list[int], length: int, start: int) -> None:
        if length == size:
            found.append((array, tuple(array[:size])))
            return
        for item in range(start, count - (size - length) + 1):
            longer = array if length < len(array) else [*array, *[0] * max(length, 1)]
            longer[length] = item
            extend(longer, length + 1, item + 1)

    extend([], 0, 0)
    return found


@pytest.mark.parametrize("count", range(1, 11))
def test_what_becomes_of_subsets(count: int) -> None:
    """The closed form is what is left in an array of Go at the end of the walk."""
    for size in range(1, count + 1):
        assert [tuple(array[:size]) for array, _ in walked(count, size)] == [
            overwritten_at_end(subset, count) for _, subset in walked(count, size)
        ]


@pytest.mark.parametrize("count", range(1, 9))
def test_what_becomes_of_subsets_when_the_walk_ends_with_the_next(count: int) -> None:
    """The next subset is where the kept one was only if they share an array."""
    for size in range(1, count + 1):
        walk = walked(count, size)
        for (array, subset), after in zip(walk, [*walk[1:], None], strict=True):
            last = after[1] if after is not None else None
            shares = after is not None and after[0] is array
            assert next_combination(subset, count) == last
            assert overwritten_by_next(subset, last) == (last if shares else subset)


def test_walk() -> None:
    """The walk is in lexicographic order."""
    assert [subset for _, subset in walked(6, 3)] == list(combinations(range(6), 3))

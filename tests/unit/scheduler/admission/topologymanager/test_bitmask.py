"""Sets of zones as integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.admission.topologymanager.bitmask import members, set_sizes, subsets, zone_set


@given(st.sets(st.integers(0, 200), max_size=6))
def test_a_set_has_its_members(zones: set[int]) -> None:
    """The members are in ascending order, each once."""
    assert members(zone_set([*zones, *zones])) == tuple(sorted(zones))


@given(st.sets(st.integers(0, 63), max_size=6))
def test_all_sets_by_size(zones: set[int]) -> None:
    """All sizes of a set of zones together give all sets except the empty one."""
    ascending = tuple(sorted(zones))
    assert list(set_sizes(ascending)) == list(range(1, 1 + len(zones)))
    sets = [each for size in set_sizes(ascending) for each in subsets(ascending, size)]
    assert len({bits for bits, _ in sets}) == len(sets) == (1 << len(zones)) - 1
    assert all(members(bits) == ids and zones.issuperset(ids) for bits, ids in sets)

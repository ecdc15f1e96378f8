"""Hints of the Memory Manager as lists of sets and as arrays, compared with their definition."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import GIB, STATIC, node
from zonewise_scheduler.admission.memorymanager import memory_hints
from zonewise_scheduler.admission.memorymanager.memory_hints import (
    calculate_memory_hints,
    calculate_wide_memory_hints,
    find_best_hint,
)
from zonewise_scheduler.admission.topologymanager.zone_sums import to_set

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState

TYPES = ("hugepages-1Gi", "memory")
ZONES = 4
REUSABLE = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(TYPES), st.integers(0, 3)), max_size=3)
"""Reusable memory: the index of a zone of its group, its type, and its amount."""
REQUESTS = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 9), min_size=1)


@st.composite
def states(draw: st.DrawFn) -> NodeState:
    """Draw zones with free memory in bytes. Some allocate as groups, and some groups have not yet allocated any."""
    state = node(ZONES, 1, gib=8, pages=2, **STATIC)
    owners = draw(st.lists(st.integers(0, ZONES - 1), min_size=ZONES, max_size=ZONES))
    together = {owner: sum(1 << zone for zone in range(ZONES) if owners[zone] == owner) for owner in owners}
    assigned = sum({together[owner] for owner in owners if draw(st.booleans())})
    groups = [together[owner] for owner in owners]
    free = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=ZONES, max_size=ZONES))
    allocatable = draw(st.lists(st.tuples(st.integers(3, 4), st.integers(3, 4)), min_size=ZONES, max_size=ZONES))
    return state._replace(
        kind=replace(state.kind, allocatable=tuple(allocatable)),
        memory_free=tuple(free),
        memory_groups=tuple(groups),
        memory_assigned=assigned,
    )


def zones_of(zones: int) -> list[int]:
    return [zone for zone in range(ZONES) if zones >> zone & 1]


def is_hint(state: NodeState, requests: dict[str, int], reusable: dict[tuple[int, str], int], zones: int) -> bool:
    """Return whether zones are one group, or several without assignments, and have enough free and reusable memory."""
    is_group = {state.memory_groups[zone] for zone in zones_of(zones)} == {zones}
    allowed = is_group or (len(zones_of(zones)) > 1 and not zones & state.memory_assigned)
    return allowed and all(
        sum(state.memory_free[zone][TYPES.index(name)] for zone in zones_of(zones)) + reusable.get((zones, name), 0)
        >= size
        for name, size in requests.items()
    )


def reusable_of(state: NodeState, drawn: list[tuple[int, str, int]]) -> dict[tuple[int, str], int]:
    """Return the memory left by ended init containers: they held it in a group, which is therefore assigned."""
    return {(state.memory_groups[zone], name): size for zone, name, size in drawn if state.memory_assigned >> zone & 1}


def width(state: NodeState, requests: dict[str, int]) -> int:
    """Return the smallest number of zones with enough allocatable memory; all zones if none are enough."""
    enough = [
        len(zones_of(zones))
        for zones in range(1, 1 << ZONES)
        if all(
            sum(state.kind.allocatable[zone][TYPES.index(name)] for zone in zones_of(zones)) >= size
            for name, size in requests.items()
        )
    ]
    return min(enough, default=ZONES)


@given(states(), REQUESTS, REUSABLE)
def test_the_hints_of_a_request(state: NodeState, requests: dict[str, int], drawn: list[tuple[int, str, int]]) -> None:
    """The preferred hints are those with as few zones as an idle node needs."""
    assert state.kind.memory_types == TYPES
    reusable = reusable_of(state, drawn)
    expected = {zones for zones in range(1, 1 << ZONES) if is_hint(state, requests, reusable, zones)}
    preferred = {zones for zones in expected if len(zones_of(zones)) == width(state, requests)}
    amounts = tuple(requests.items())
    hints = calculate_memory_hints(state, amounts, reusable, include_not_preferred=True)
    only_preferred = calculate_memory_hints(state, amounts, reusable, include_not_preferred=False)
    wide = calculate_wide_memory_hints(state, amounts, reusable)
    if not expected:
        assert hints is only_preferred is wide is None
        return
    assert hints is not None
    assert only_preferred is not None
    assert wide is not None
    assert set(hints.preferred) == set(only_preferred.preferred) == preferred
    assert set(hints.not_preferred) == expected - preferred
    for sets, array in ((expected, wide.possible), (preferred, wide.preferred)):
        assert {to_set(wide.zones, index) for index in array.nonzero()[0].tolist()} == sets


@given(states(), REQUESTS, REUSABLE, st.integers(0, 15))
def test_the_best_hint(
    state: NodeState, requests: dict[str, int], drawn: list[tuple[int, str, int]], within: int
) -> None:
    """Preferred hints come first, then those with the fewest zones, then the lowest; all contain the given zones."""
    reusable = reusable_of(state, drawn)
    expected = [
        (len(zones_of(zones)) != width(state, requests), len(zones_of(zones)), zones)
        for zones in range(1, 1 << ZONES)
        if is_hint(state, requests, reusable, zones) and zones & within == within
    ]
    best = (min(expected)[2], not min(expected)[0]) if expected else None
    amounts = tuple(requests.items())
    assert find_best_hint(state, amounts, reusable, within) == best
    with patch.object(memory_hints, "MAX_LISTED_ZONES", 0):
        assert find_best_hint(state, amounts, reusable, within) == best


def test_an_empty_request_has_no_hints() -> None:
    state = node(2, **STATIC)
    assert calculate_memory_hints(state, (), {}, include_not_preferred=True) is None
    assert calculate_wide_memory_hints(state, (), {}) is None
    assert find_best_hint(state, (), {}, 0) is None
    assert find_best_hint(state, (("memory", GIB),), {}, 0) == (1, True)

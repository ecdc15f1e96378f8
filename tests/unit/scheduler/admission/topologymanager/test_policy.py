"""Closed forms of merges, compared with the kubelet's algorithm over every combination of one hint per resource."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import node
from support.wide_hints import as_wide
from zonewise_scheduler.admission.node import NodeKind
from zonewise_scheduler.admission.topologymanager.bitmask import all_zones
from zonewise_scheduler.admission.topologymanager.hints import Hints, TopologyHint
from zonewise_scheduler.admission.topologymanager.policy import (
    intersections,
    merge_best_effort,
    merge_preferred,
    preferred_affinity,
)
from zonewise_scheduler.admission.topologymanager.wide_merge import merge_wide_best_effort, merge_wide_preferred

if TYPE_CHECKING:
    from collections.abc import Iterable


class Hint(NamedTuple):
    """A TopologyHint."""

    zones: int | None
    preferred: bool


def kubelet_merge(kind: NodeKind, hints: list[Hints]) -> Hint:
    """Run a transcription of Policy.Merge (pkg/kubelet/cm/topologymanager/policy.go)."""
    lists = [
        [Hint(zones, preferred=True) for zones in resource.preferred]
        + [Hint(zones, preferred=False) for zones in resource.not_preferred]
        or [Hint(None, preferred=False)]
        for resource in hints
    ] or [[Hint(None, preferred=True)]]
    if kind.policies.topology == "single-numa-node":
        lists = [
            [hint for hint in provider if hint.preferred and (hint.zones is None or hint.zones.bit_count() == 1)]
            for provider in lists
        ]
    sizes = [min((_size(hint) for hint in provider if hint.zones), default=0) for provider in lists]
    needed = max(sizes, default=0)
    best: Hint | None = None
    for permutation in product(*lists):
        affinities = [hint.zones for hint in permutation if hint.zones is not None]
        same = all(zones == affinities[0] for zones in affinities)
        preferred = same and all(hint.preferred for hint in permutation)
        best = compare(kind, needed, best, Hint(intersection([all_zones(kind), *affinities]), preferred))
    return best or Hint(all_zones(kind), preferred=False)


def intersection(sets: Iterable[int]) -> int:
    """Return the intersection of sets."""
    common = -1
    for zones in sets:
        common &= zones
    return common


def compare(kind: NodeKind, needed: int, current: Hint | None, candidate: Hint) -> Hint | None:
    """Run a transcription of HintMerger.compare."""
    if not candidate.zones:
        return current
    if current is None or (candidate.preferred and not current.preferred):
        return candidate
    if current.preferred:
        return narrower(kind, current, candidate) if candidate.preferred else current
    current_size, candidate_size = _size(current), _size(candidate)
    if current_size > needed or current_size == candidate_size:
        return narrower(kind, current, candidate)
    if current_size == needed or candidate_size > needed:
        return current
    return candidate if candidate_size > current_size else current


def narrower(kind: NodeKind, current: Hint, candidate: Hint) -> Hint:
    """Run a transcription of CompareNUMAAffinityMasks."""
    if current.zones == candidate.zones:
        return current
    if kind.policies.prefer_closest and kind.policies.topology != "single-numa-node":
        return min(
            candidate, current, key=lambda hint: (_size(hint), _mean_distance(kind, hint.zones or 0), hint.zones)
        )
    return min(candidate, current, key=lambda hint: (_size(hint), hint.zones))


def _size(hint: Hint) -> int:
    return (hint.zones or 0).bit_count()


def _mean_distance(kind: NodeKind, zones: int) -> float:
    ids = [zone for zone in kind.zones if zones >> zone & 1]
    return sum(kind.distances[a][b] for a in ids for b in ids) / len(ids) ** 2


@st.composite
def any_hints(draw: st.DrawFn, zones: int) -> Hints:
    """Draw the hints of a resource; no set is both preferred and not preferred."""
    sets = draw(st.lists(st.integers(1, (1 << zones) - 1), unique=True, max_size=7))
    preferred = draw(st.integers(0, len(sets)))
    return Hints(tuple(sets[:preferred]), tuple(sets[preferred:]))


@st.composite
def any_merge(draw: st.DrawFn, *policies: str) -> tuple[NodeKind, list[Hints]]:
    zones = draw(st.integers(1, 5))
    kind = node(zones, topology=draw(st.sampled_from(policies)), prefer_closest=draw(st.booleans())).kind
    return kind, draw(st.lists(any_hints(zones), max_size=4))


@given(any_merge("restricted", "single-numa-node", "best-effort"))
def test_common_preferred_sets_match_the_kubelets_merges(merge_input: tuple[NodeKind, list[Hints]]) -> None:
    """The kubelet's merged hint is preferred if and only if all resources prefer a common set, which it then is."""
    kind, hints = merge_input
    merged = kubelet_merge(kind, hints)
    assert merge_preferred(kind, hints) == (merged.zones if merged.preferred else None)


@given(any_merge("best-effort"))
def test_best_effort_merges_as_the_kubelet_does(merge_input: tuple[NodeKind, list[Hints]]) -> None:
    """If the resources prefer no common set, the best intersection is the kubelet's merged hint."""
    kind, hints = merge_input
    if merge_preferred(kind, hints) is None:
        assert Hint(merge_best_effort(kind, hints), preferred=False) == kubelet_merge(kind, hints)


@given(st.lists(st.lists(st.integers(1, 255), max_size=12, unique=True), min_size=1, max_size=4))
def test_intersections_of_all_combinations(lists: list[list[int]]) -> None:
    """The sums over supersets yield exactly the sets that are intersections of some combination."""
    expected = {intersection(sets) for sets in product(*lists)} - {0}
    assert sorted(intersections(lists)) == sorted(expected)


def test_intersections_of_sparse_zones() -> None:
    """Ids with gaps cost no more than ids without gaps."""
    far = 1 << 40
    assert sorted(intersections([[1 | far, far], [far, 1]])) == [1, far]


def test_all_hints_of_eight_zones() -> None:
    """All sets of eight zones, for five resources, yield all sets: the counts do not overflow."""
    every = list(range(1, 256))
    assert sorted(intersections([every] * 5)) == every


@pytest.mark.parametrize(("closest", "zones"), [(False, 0b0101), (True, 0b0110)])
def test_prefer_closest_numa_nodes(closest: bool, zones: int) -> None:
    """Among equally narrow pairs, the pair with the lowest number wins; with the option, the nearest pair wins."""
    kind = node(4, topology="restricted", prefer_closest=closest).kind
    assert merge_preferred(kind, [Hints((0b0101, 0b0110, 0b1001))]) == zones


def test_distances_are_indexed_by_zone_id() -> None:
    """A bug of the kubelet for ids with gaps (numa_info.go CalculateAverageFor) is reproduced."""
    rows = ((10, 50, 12, 90), (50, 10, 20, 20), (12, 20, 10, 20), (90, 20, 20, 10))
    contiguous = node(4, topology="restricted", prefer_closest=True).kind
    kind = NodeKind(contiguous.policies, (0, 2, 3, 4), rows, contiguous.cpus)
    # zone 3 is nearer to zone 0, but the kubelet reads indices 2 and 3 of the first row; index 4 does not exist
    for sets in (0b0101, 0b1001), (0b0101, 0b1001, 0b10001):
        assert merge_preferred(kind, [Hints(sets)]) == 0b0101


@pytest.mark.parametrize(
    ("topology", "sets", "zones"),
    [
        ("single-numa-node", (0b101,), None),
        ("single-numa-node", (0b111,), None),
        ("single-numa-node", (0b101, 0b111, 0b100), 0b100),
        ("restricted", (0b101,), 0b101),
        ("restricted", (0b111,), 0b111),
        ("restricted", (0b011, 0b100), 0b100),
        ("best-effort", (0b111, 0b110), 0b110),
    ],
)
def test_the_narrowest_set_is_best(topology: str, sets: tuple[int, ...], zones: int | None) -> None:
    """Its number does not matter. Under single-numa-node, sets of several zones are not considered."""
    kind, hints = node(3, topology=topology).kind, Hints(sets)
    assert merge_preferred(kind, [hints, hints]) == zones
    wide = as_wide(kind.zones, hints)
    assert merge_wide_preferred(kind, [wide, wide]) == zones


@pytest.mark.parametrize(("topology", "zones"), [("single-numa-node", 0b01), ("restricted", 0b10)])
def test_distances_within_zones(topology: str, zones: int) -> None:
    """Of single zones, the one nearest to itself is best; under single-numa-node, the one with the lowest number."""
    kind = replace(node(2, topology=topology, prefer_closest=True).kind, distances=((12, 20), (20, 10)))
    assert merge_preferred(kind, [Hints((0b01, 0b10))]) == zones
    assert merge_wide_preferred(kind, [as_wide(kind.zones, Hints((0b01, 0b10)))]) == zones


@pytest.mark.parametrize(
    ("topology", "zones", "aligned"),
    [
        ("single-numa-node", 0b11, None),
        ("single-numa-node", 0b01, 0b01),
        ("single-numa-node", 0b10, 0b10),
        ("restricted", 0b11, 0b11),
        ("best-effort", 0b11, 0b11),
    ],
)
def test_all_zones_are_no_preference_of_single_numa_node(topology: str, zones: int, aligned: int | None) -> None:
    assert preferred_affinity(node(2, topology=topology).kind, zones) == TopologyHint(aligned, preferred=True)


NINE = node(9, topology="best-effort", max_zones=9).kind
ZONES_0_TO_2, ZONES_3_TO_6 = 0b000000111, 0b001111000


@pytest.mark.parametrize(
    ("hints", "zones"),
    [
        # one or four common zones; each resource needs three
        ([(ZONES_0_TO_2, ZONES_3_TO_6), (0b110000100, ZONES_3_TO_6)], 0b000000100),
        # three or four common zones; each resource needs one
        ([(1 << 7, ZONES_0_TO_2, ZONES_3_TO_6), (1 << 8, ZONES_0_TO_2, ZONES_3_TO_6)], ZONES_0_TO_2),
        # one, two or three common zones; a resource needs four
        ([(0b000001111, 0b111110000), (0b000011001, 0b001100001, 0b111000010)], 0b111000000),
        # only three common zones; each resource needs two
        ([(ZONES_0_TO_2, 0b000011000), (0b001000111, 0b110000000)], ZONES_0_TO_2),
    ],
)
def test_intersections_by_size(hints: list[tuple[int, ...]], zones: int) -> None:
    """Sets of the needed size are best, then smaller ones, the largest first, then larger ones, the smallest first."""
    listed = [Hints((), sets) for sets in hints]
    wide = [as_wide(NINE.zones, resource) for resource in listed]
    assert merge_best_effort(NINE, listed) == kubelet_merge(NINE, listed).zones == zones
    assert merge_wide_best_effort(NINE, wide) == zones


def test_smaller_intersections_come_before_larger_ones_that_are_nearer() -> None:
    """Each resource needs three zones; both have one zone in common, or four others."""
    kind = node(9, topology="best-effort", max_zones=9).kind
    hints = [Hints((), (0b000000111, 0b001111000)), Hints((), (0b110000100, 0b001111000))]
    assert merge_best_effort(kind, hints) == kubelet_merge(kind, hints).zones == 0b000000100

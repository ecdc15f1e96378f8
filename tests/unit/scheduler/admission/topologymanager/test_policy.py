"""The closed forms against the kubelet's own procedure: every combination of one hint per resource, in turn."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import node
from zonewise_scheduler.admission.node import NodeKind
from zonewise_scheduler.admission.topologymanager.bitmask import all_zones
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.policy import intersections, merge_best_effort, merge_preferred

if TYPE_CHECKING:
    from collections.abc import Iterable


class Hint(NamedTuple):
    """A TopologyHint."""

    zones: int | None
    preferred: bool


def literal(kind: NodeKind, hints: list[Hints]) -> Hint:
    """Policy.Merge as it is written down (pkg/kubelet/cm/topologymanager/policy.go)."""
    lists = [
        [Hint(zones, preferred=True) for zones in one.preferred]
        + [Hint(zones, preferred=False) for zones in one.not_preferred]
        or [Hint(None, preferred=False)]
        for one in hints
    ] or [[Hint(None, preferred=True)]]
    if kind.policies.topology == "single-numa-node":
        lists = [
            [one for one in some if one.preferred and (one.zones is None or one.zones.bit_count() == 1)]
            for some in lists
        ]
    needed = max((min((_size(one) for one in some if one.zones), default=0) for some in lists), default=0)
    best: Hint | None = None
    for chosen in product(*lists):
        opinions = [one.zones for one in chosen if one.zones is not None]
        same = all(zones == opinions[0] for zones in opinions)
        merged = Hint(meet([all_zones(kind), *opinions]), same and all(one.preferred for one in chosen))
        best = compare(kind, needed, best, merged)
    return best or Hint(all_zones(kind), preferred=False)


def meet(sets: Iterable[int]) -> int:
    """The intersection of some sets."""
    met = -1
    for one in sets:
        met &= one
    return met


def compare(kind: NodeKind, needed: int, current: Hint | None, candidate: Hint) -> Hint | None:
    """HintMerger.compare."""
    if not candidate.zones:
        return current
    if current is None or (candidate.preferred and not current.preferred):
        return candidate
    if current.preferred:
        return fitter(kind, current, candidate) if candidate.preferred else current
    have, want = _size(current), _size(candidate)
    if have > needed or have == want:
        return fitter(kind, current, candidate)
    if have == needed or want > needed:
        return current
    return candidate if want > have else current


def fitter(kind: NodeKind, current: Hint, candidate: Hint) -> Hint:
    """CompareNUMAAffinityMasks."""
    if current.zones == candidate.zones:
        return current
    if kind.policies.prefer_closest and kind.policies.topology != "single-numa-node":
        return min(candidate, current, key=lambda one: (_size(one), _mean_distance(kind, one.zones or 0), one.zones))
    return min(candidate, current, key=lambda one: (_size(one), one.zones))


def _size(hint: Hint) -> int:
    return (hint.zones or 0).bit_count()


def _mean_distance(kind: NodeKind, zones: int) -> float:
    some = [zone for zone in kind.zones if zones >> zone & 1]
    return sum(kind.distances[a][b] for a in some for b in some) / len(some) ** 2


@st.composite
def any_hints(draw: st.DrawFn, zones: int) -> Hints:
    """Hints of a resource, in which the same set is never both."""
    sets = draw(st.lists(st.integers(1, (1 << zones) - 1), unique=True, max_size=7))
    preferred = draw(st.integers(0, len(sets)))
    return Hints(tuple(sets[:preferred]), tuple(sets[preferred:]))


@st.composite
def any_question(draw: st.DrawFn, *policies: str) -> tuple[NodeKind, list[Hints]]:
    zones = draw(st.integers(1, 5))
    kind = node(zones, topology=draw(st.sampled_from(policies)), prefer_closest=draw(st.booleans())).kind
    return kind, draw(st.lists(any_hints(zones), max_size=4))


@given(any_question("restricted", "single-numa-node", "best-effort"))
def test_what_all_prefer_is_what_the_product_prefers(question: tuple[NodeKind, list[Hints]]) -> None:
    """A set that all resources prefer is there exactly if the kubelet's merged hint is preferred, and is the same."""
    kind, hints = question
    merged = literal(kind, hints)
    assert merge_preferred(kind, hints) == (merged.zones if merged.preferred else None)


@given(any_question("best-effort"))
def test_a_compromise_is_what_the_product_ends_with(question: tuple[NodeKind, list[Hints]]) -> None:
    """Where nothing is agreed, the best intersection is the kubelet's merged hint."""
    kind, hints = question
    if merge_preferred(kind, hints) is None:
        assert Hint(merge_best_effort(kind, hints), preferred=False) == literal(kind, hints)


@given(st.lists(st.lists(st.integers(1, 255), max_size=12, unique=True), min_size=1, max_size=4))
def test_intersections_are_all_there_are(lists: list[list[int]]) -> None:
    """The sums over supersets find exactly the sets that some combination makes."""
    made = {meet(chosen) for chosen in product(*lists)} - {0}
    assert sorted(intersections(lists)) == sorted(made)


def test_intersections_of_zones_far_apart() -> None:
    """Ids with gaps cost no more than those without."""
    far = 1 << 40
    assert sorted(intersections([[1 | far, far], [far, 1]])) == [1, far]


def test_all_hints_of_eight_zones() -> None:
    """All sets of eight zones, for five resources, make all sets: counts do not overflow."""
    every = list(range(1, 256))
    assert sorted(intersections([every] * 5)) == every


@pytest.mark.parametrize(("closest", "zones"), [(False, 0b0101), (True, 0b0110)])
def test_near_zones_are_preferred_if_the_option_says_so(closest: bool, zones: int) -> None:
    """Of pairs that are all as narrow, the one with the lowest number, or the nearest."""
    kind = node(4, topology="restricted", prefer_closest=closest).kind
    assert merge_preferred(kind, [Hints((0b0101, 0b0110, 0b1001))]) == zones


def test_distances_are_looked_up_by_id_though_they_go_by_order() -> None:
    """The kubelet's own mistake where ids have gaps (numa_info.go CalculateAverageFor) is made here too."""
    rows = ((10, 50, 12, 90), (50, 10, 20, 20), (12, 20, 10, 20), (90, 20, 20, 10))
    contiguous = node(4, topology="restricted", prefer_closest=True).kind
    kind = NodeKind(contiguous.policies, (0, 2, 3, 4), rows, contiguous.cpus)
    # zone 3 is nearer to zone 0, but the kubelet reads places 2 and 3 of the first row
    assert merge_preferred(kind, [Hints((0b0101, 0b1001))]) == 0b0101

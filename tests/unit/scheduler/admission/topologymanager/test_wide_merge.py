"""Merges over arrays of all sets give the same results as merges of listed hints."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from support.fit_nodes import node
from support.wide_hints import as_wide
from zonewise_scheduler.admission.topologymanager.hints import Hints
from zonewise_scheduler.admission.topologymanager.policy import merge_best_effort, merge_preferred
from zonewise_scheduler.admission.topologymanager.wide_merge import merge_wide_best_effort, merge_wide_preferred

DISTANCES = st.lists(st.lists(st.sampled_from([10, 11, 12, 20, 32]), min_size=5, max_size=5), min_size=5, max_size=5)


@st.composite
def any_hints(draw: st.DrawFn) -> tuple[tuple[int, ...], Hints]:
    """Draw hints over some of five zones."""
    zones = tuple(sorted(draw(st.sets(st.integers(0, 4), min_size=1))))
    everywhere = sum(1 << zone for zone in zones)
    sets = {drawn & everywhere for drawn in draw(st.lists(st.integers(1, 31), max_size=8))} - {0}
    preferred = draw(st.sets(st.sampled_from(sorted(sets)))) if sets else set[int]()
    return zones, Hints(tuple(sorted(preferred)), tuple(sorted(sets - preferred)))


@given(
    st.lists(any_hints(), max_size=3),
    DISTANCES,
    st.sampled_from(["restricted", "single-numa-node", "best-effort"]),
    st.booleans(),
)
def test_wide_merges_match_listed_merges(
    drawn: list[tuple[tuple[int, ...], Hints]], distances: list[list[int]], policy: str, prefer_closest: bool
) -> None:
    """The zones may differ by resource, and hints and distances may be any."""
    kind = node(5, topology=policy, prefer_closest=prefer_closest).kind
    kind = replace(kind, distances=tuple(map(tuple, distances)))
    listed, wide = [hints for _, hints in drawn], [as_wide(zones, hints) for zones, hints in drawn]
    preferred = merge_preferred(kind, listed)
    assert merge_wide_preferred(kind, wide) == preferred
    if preferred is None:
        assert merge_wide_best_effort(kind, wide) == merge_best_effort(kind, listed)

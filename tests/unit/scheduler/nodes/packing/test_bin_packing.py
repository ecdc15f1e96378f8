"""Bin packing: no bin is overfilled, no fitting item is left out, and results are optimal for few kinds of items."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise_scheduler.nodes.packing import bin_packing
from zonewise_scheduler.nodes.packing.bin_packing import Amounts, Counts, PackBin, PackItem, pack

BINS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 4)), min_size=1, max_size=4)
ITEMS = st.lists(
    st.tuples(st.integers(1, 10), st.integers(0, 2), st.integers(1, 4)),
    min_size=1,
    max_size=4,
    unique_by=lambda x: x[0],
)


def optimum(bins: list[tuple[int, int]], items: list[tuple[int, int, int]]) -> int:
    """Return the highest number of CPUs in use over all fillings of all bins."""

    @cache
    def best(index: int, remaining: Counts) -> int:
        if index == len(bins):
            return 0
        cpus, gpus = bins[index]
        return max(
            sum(count * item[0] for count, item in zip(counts, items, strict=True))
            + best(index + 1, tuple(map(int.__sub__, remaining, counts)))
            for counts in product(*(range(count + 1) for count in remaining))
            if sum(count * item[0] for count, item in zip(counts, items, strict=True)) <= cpus
            and sum(count * item[1] for count, item in zip(counts, items, strict=True)) <= gpus
        )

    return best(0, tuple(item[2] for item in items))


@given(BINS, ITEMS)
def test_optimal(bins: list[tuple[int, int]], items: list[tuple[int, int, int]]) -> None:
    """The total weight is that of the best packing, no bin is overfilled, and no item is used twice."""
    packed = pack([PackBin(0, free) for free in bins], [PackItem(((c, g),), c, n) for c, g, n in items])
    for free, counts in zip(bins, packed, strict=True):
        for resource in range(2):
            used = sum(count * item[resource] for count, item in zip(counts, items, strict=True))
            assert used <= free[resource]
    totals = [sum(counts[kind] for counts in packed) for kind in range(len(items))]
    assert all(total <= item[2] for total, item in zip(totals, items, strict=True))
    assert sum(total * item[0] for total, item in zip(totals, items, strict=True)) == optimum(bins, items)


@settings(max_examples=24)  # each example searches up to its limit
@given(
    st.lists(st.integers(0, 64), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 30)), min_size=1, max_size=20, unique_by=lambda x: x[0]),
)
def test_no_fitting_item_is_left_out(bins: list[int], items: list[tuple[int, int]]) -> None:
    """Even if the search is cut short, no item is left out that still fits into a bin."""
    packed = pack([PackBin(0, (free,)) for free in bins], [PackItem(((size,),), size, count) for size, count in items])
    unused = [count - sum(counts[kind] for counts in packed) for kind, (_, count) in enumerate(items)]
    for free, counts in zip(bins, packed, strict=True):
        left = free - sum(count * size for count, (size, _) in zip(counts, items, strict=True))
        assert left >= 0
        assert not any(count and size <= left for count, (size, _) in zip(unused, items, strict=True))


@pytest.mark.parametrize(("bins", "kinds"), [(8, 4), (96, 6), (96, 24), (384, 50)])
def test_work_is_bounded(bins: int, kinds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of checks of a kind is limited: it is about the same for many bins and kinds as for few."""
    looks: list[int] = []
    original = bin_packing.fitting

    def fitting(free: Amounts, amounts: Amounts | None) -> int:
        looks.append(1)
        return original(free, amounts)

    monkeypatch.setattr(bin_packing, "fitting", fitting)
    packed = pack(
        [PackBin(0, (40 + number % 25,)) for number in range(bins)],
        [PackItem(((5 + kind,),), 5 + kind, 8 * bins // kinds) for kind in range(kinds)],
    )
    assert any(map(any, packed))
    assert len(looks) < 80_000


def test_whole_bins_remain_free() -> None:
    """Of packings with equal weights, one that leaves a whole bin free is chosen."""
    bins = [PackBin(0, (8,)), PackBin(0, (8,)), PackBin(0, (4,))]
    assert pack(bins, [PackItem(((4,),), 4, 3)]) in ([(2,), (0,), (1,)], [(0,), (2,), (1,)])


def test_groups_of_bins() -> None:
    """An item goes only into bins of groups that accept it."""
    bins = [PackBin(0, (8,)), PackBin(1, (8,))]
    items = [PackItem((None, (8,)), 8, 2), PackItem(((3,), (3,)), 3, 9)]
    assert pack(bins, items) == [(0, 2), (1, 0)]

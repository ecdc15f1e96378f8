"""Labels do not overlap each other."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.plot.label_boxes import LabelBox, place_labels

BOUNDS = LabelBox(0, 0, 20, 20)


@st.composite
def boxes(draw: st.DrawFn) -> LabelBox:
    left, low = draw(st.integers(-3, 20)), draw(st.integers(-3, 20))
    return LabelBox(left, low, left + draw(st.integers(1, 9)), low + draw(st.integers(1, 5)))


@given(st.lists(st.lists(boxes(), max_size=4), max_size=12), st.lists(boxes(), max_size=4))
def test_labels_are_within_the_bounds_and_do_not_overlap(
    candidates: list[list[LabelBox]], fixed: list[LabelBox]
) -> None:
    places = place_labels(candidates, fixed, BOUNDS)
    drawn = [options[place] for options, place in zip(candidates, places, strict=True) if place is not None]
    assert all(BOUNDS.contains(box) for box in drawn)
    cells = [
        {(x, y) for x in range(int(box.left), int(box.right)) for y in range(int(box.low), int(box.high))}
        for box in drawn
    ]
    assert all(not first & second for first, second in combinations(cells, 2))
    assert not any(box.overlaps(other) for box in drawn for other in fixed)


@given(st.lists(st.lists(boxes(), max_size=4), max_size=12))
def test_no_label_that_fits_is_omitted(candidates: list[list[LabelBox]]) -> None:
    """Each label is at its first free candidate position."""
    places = place_labels(candidates, [], BOUNDS)
    before: list[LabelBox] = []
    for options, place in zip(candidates, places, strict=True):
        free = [BOUNDS.contains(box) and not any(map(box.overlaps, before)) for box in options]
        assert place == (free.index(True) if any(free) else None)
        before += [] if place is None else [options[place]]


def test_boxes_that_touch_do_not_overlap() -> None:
    assert not LabelBox(0, 0, 5, 5).overlaps(LabelBox(5, 0, 9, 5))
    assert LabelBox(0, 0, 5, 5).overlaps(LabelBox(4, 4, 9, 9))

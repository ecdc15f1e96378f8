"""Places the boxes of labels so that no two labels overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class LabelBox(NamedTuple):
    """A rectangle, in pixels."""

    left: float
    low: float
    right: float
    high: float

    def shifted(self, right: float, up: float) -> LabelBox:
        """Return the box moved by these numbers of pixels."""
        return LabelBox(self.left + right, self.low + up, self.right + right, self.high + up)

    def overlaps(self, other: LabelBox) -> bool:
        """Return whether two boxes have an area in common."""
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.low < other.high and other.low < self.high

    def contains(self, other: LabelBox) -> bool:
        """Return whether another box lies within this one."""
        return (
            self.left <= other.left and other.right <= self.right and self.low <= other.low and other.high <= self.high
        )


def place_labels(
    candidates: Sequence[Sequence[LabelBox]], fixed: Sequence[LabelBox], bounds: LabelBox
) -> list[int | None]:
    """Return the index of each label's first free candidate; None if there is none and the label is left out.

    A candidate is free if it is within the bounds and overlaps neither a fixed box nor an earlier label.
    """
    occupied = [*fixed]
    places: list[int | None] = []
    for boxes in candidates:
        free = (
            index
            for index, box in enumerate(boxes)
            if bounds.contains(box) and not any(box.overlaps(other) for other in occupied)
        )
        index = next(free, None)
        places.append(index)
        if index is not None:
            occupied.append(boxes[index])
    return places

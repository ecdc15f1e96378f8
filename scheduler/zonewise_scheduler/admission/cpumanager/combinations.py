"""What becomes of a subset that the kubelet keeps while it walks on (cpu_assignment.go iterateCombinations).

The kubelet makes each subset by append() to a shorter one, which copies only where the array is full; arrays grow to 1,
2, 4, 8, ... places. So the last places of a subset of 4, 6, 7, 8 or more than 9 are in an array that the next ones are
written to as well, and the best subset, kept so far, is another one by then.

Subsets are places from 0 to count - 1, ascending; the walk is in lexicographic order.
"""

from __future__ import annotations


def overwritten_at_end(subset: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return what a subset has become at the end of the walk: the last one that begins alike."""
    own = _own(len(subset))
    return subset[:own] + tuple(range(count - len(subset) + own, count))


def overwritten_by_next(subset: tuple[int, ...], following_subset: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return what a subset has become where the walk ends with the one after it; None: there is none."""
    own = _own(len(subset))
    return following_subset if following_subset is not None and following_subset[:own] == subset[:own] else subset


def next_combination(subset: tuple[int, ...], count: int) -> tuple[int, ...] | None:
    """Return the subset after another one; None after the last."""
    size = len(subset)
    for place in range(size - 1, -1, -1):
        if subset[place] < count - size + place:
            return subset[:place] + tuple(range(subset[place] + 1, subset[place] + 1 + size - place))
    return None


def _own(size: int) -> int:
    """Return how many places of a subset no later one writes to: those up to the one with which it was copied last."""
    return size if size < 2 else (1 << (size - 1).bit_length() - 1) + 1

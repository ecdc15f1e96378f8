"""Where the bars of a Gantt chart lie: no two at one place at one time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDLESS = 1 << 63


class BarPiece(NamedTuple):
    """A part of a run's bar."""

    run: int
    low: int
    high: int


def pack_lanes(starts: Sequence[float], ends: Sequence[float], sizes: Sequence[int], capacity: int) -> list[BarPiece]:
    """Return the pieces of each run, by start; together as high as its size. Every size is positive.

    A bar is whole where a gap is high enough, the narrowest such; else it is split over the lowest gaps, as a job is
    over nodes. So nothing is above the capacity unless more runs than it holds.
    """
    pieces: list[BarPiece] = []
    taken: dict[int, list[BarPiece]] = {}
    gaps = [(0, capacity), (capacity, _ENDLESS)]
    for _, begins, run in _events(starts, ends):
        if begins:
            taken[run], gaps = _take(gaps, run, sizes[run], capacity)
            pieces += taken[run]
        else:
            gaps = _give(gaps, taken.pop(run), capacity)
    return pieces


def _events(starts: Sequence[float], ends: Sequence[float]) -> list[tuple[float, bool, int]]:
    """Return ends before starts of the same time; runs of no length are left out, as none would see them."""
    runs = [run for run in range(len(starts)) if ends[run] > starts[run]]
    return sorted([(ends[run], False, run) for run in runs] + [(starts[run], True, run) for run in runs])


def _take(
    gaps: list[tuple[int, int]], run: int, size: int, capacity: int
) -> tuple[list[BarPiece], list[tuple[int, int]]]:
    """Return the pieces of a bar, and the gaps that remain."""
    wide = [gap for gap in gaps if gap[1] <= capacity and gap[1] - gap[0] >= size]
    chosen = [min(wide, key=lambda gap: (gap[1] - gap[0], gap[0]))] if wide else gaps
    found: list[BarPiece] = []
    for low, high in chosen:
        part = min(high - low, size)
        if part:
            found.append(BarPiece(run, low, low + part))
            size -= part
    starts = {piece.low: piece.high for piece in found}
    rest = [(starts.get(low, low), high) for low, high in gaps]
    return found, [gap for gap in rest if gap[0] < gap[1]]


def _give(gaps: list[tuple[int, int]], pieces: list[BarPiece], capacity: int) -> list[tuple[int, int]]:
    """Return the gaps with those that pieces leave; none reaches across the capacity."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(gaps + [(piece.low, piece.high) for piece in pieces]):
        if merged and merged[-1][1] == low != capacity:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged

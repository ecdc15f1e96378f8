"""Assigns the lanes of a Gantt chart so that no two bars overlap."""

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
    """Return the pieces of each run, by start; their heights add up to the run's size. Every size is positive.

    A bar is placed whole if a gap is high enough, in the narrowest such gap. Otherwise, it is split over the lowest
    gaps, like a job over nodes. So no piece is above the capacity unless the runs exceed it.
    """
    pieces: list[BarPiece] = []
    pieces_by_run: dict[int, list[BarPiece]] = {}
    gaps = [(0, capacity), (capacity, _ENDLESS)]
    for _, is_start, run in _events(starts, ends):
        if is_start:
            pieces_by_run[run], gaps = _allocate(gaps, run, sizes[run], capacity)
            pieces += pieces_by_run[run]
        else:
            gaps = _release(gaps, pieces_by_run.pop(run), capacity)
    return pieces


def _events(starts: Sequence[float], ends: Sequence[float]) -> list[tuple[float, bool, int]]:
    """Return ends and starts by time, ends first; runs without a length are left out."""
    runs = [run for run in range(len(starts)) if ends[run] > starts[run]]
    return sorted([(ends[run], False, run) for run in runs] + [(starts[run], True, run) for run in runs])


def _allocate(
    gaps: list[tuple[int, int]], run: int, size: int, capacity: int
) -> tuple[list[BarPiece], list[tuple[int, int]]]:
    """Return the pieces of a bar, and the remaining gaps."""
    large_enough = [gap for gap in gaps if gap[1] <= capacity and gap[1] - gap[0] >= size]
    selected = [min(large_enough, key=lambda gap: (gap[1] - gap[0], gap[0]))] if large_enough else gaps
    pieces: list[BarPiece] = []
    for low, high in selected:
        height = min(high - low, size)
        if height:
            pieces.append(BarPiece(run, low, low + height))
            size -= height
    starts = {piece.low: piece.high for piece in pieces}
    remaining = [(starts.get(low, low), high) for low, high in gaps]
    return pieces, [gap for gap in remaining if gap[0] < gap[1]]


def _release(gaps: list[tuple[int, int]], pieces: list[BarPiece], capacity: int) -> list[tuple[int, int]]:
    """Return the gaps including those of released pieces; no gap crosses the capacity."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(gaps + [(piece.low, piece.high) for piece in pieces]):
        if merged and merged[-1][1] == low != capacity:
            merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return merged

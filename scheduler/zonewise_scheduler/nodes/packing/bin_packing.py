"""Bin packing with several resources: which items, in which bins, have the highest total weight.

The search goes from bin to bin. Its states are the numbers of items used so far; of equal states it keeps the best, and
of all states a bounded number (a beam). With few kinds of items and a beam that is never full, the result is optimal:

1. Let an optimal packing leave room in a bin for an item that is in a later bin. Moving the item keeps the weight.
2. So some optimal packing fills each bin maximally with the items that earlier bins have left.
3. The search tries all such fillings of each bin, and drops only states that are equal to a better one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Amounts = tuple[int, ...]
"""By resource."""
Counts = tuple[int, ...]
"""By kind of item."""

_MAX_VISITED = 2000
"""Partial fillings of one bin that are tried: a bound on the time for large bins with small items."""
_MAX_FILLINGS = 32
"""Fillings of one bin that are followed, the heaviest first."""
_BEAMS = ((6, 256), (12, 16))
"""The number of states, by the highest number of kinds of items."""


class PackBin(NamedTuple):
    """A bin."""

    group: int
    """Bins of a group have the same resources, and take the same items."""
    free: Amounts


class PackItem(NamedTuple):
    """Items of one kind."""

    amounts: tuple[Amounts | None, ...]
    """By group of bins; None: these bins take no such item."""
    weight: int
    """Of one item, more than 0."""
    number: int


class _State(NamedTuple):
    weight: int
    concentration: int
    """The sum of the squares of what the bins have left: of equal weights, the one with whole bins left is better."""
    before: _State | None
    """Without the last bin; None: no bin is filled."""
    filling: Counts
    """Of the last bin."""


def pack(bins: Sequence[PackBin], items: Sequence[PackItem]) -> list[Counts]:
    """Return the number of items of each kind, by bin; fuller bins come first in the search."""
    order = sorted(range(len(bins)), key=lambda index: (bins[index].free, index))
    beam = next((size for kinds, size in _BEAMS if len(items) <= kinds), 1)
    search = _PackSearch(items)
    states: dict[Counts, _State] = {tuple(item.number for item in items): _State(0, 0, None, ())}
    for index in order:
        states = search.fill(states, bins[index])
        if len(states) > beam:
            states = dict(sorted(states.items(), key=lambda entry: entry[1][:2], reverse=True)[:beam])
    best = max(states.values(), key=lambda state: state[:2])
    by_bin: dict[int, Counts] = {}
    for index in reversed(order):
        by_bin[index] = best.filling
        best = best.before or best
    return [by_bin[index] for index in range(len(bins))]


class _PackSearch:
    def __init__(self, items: Sequence[PackItem]) -> None:
        self._items = items
        self._fillings: dict[tuple[PackBin, Counts], list[tuple[int, int, Counts]]] = {}

    def fill(self, states: dict[Counts, _State], bin_: PackBin) -> dict[Counts, _State]:
        """Return the states after one more bin."""
        most = tuple(_fitting(bin_.free, item.amounts[bin_.group]) for item in self._items)
        after: dict[Counts, _State] = {}
        for remaining, state in states.items():
            for weight, leftover, filling in self._maximal_fillings(bin_, tuple(map(min, remaining, most))):
                key = tuple(map(int.__sub__, remaining, filling))
                candidate = (state.weight + weight, state.concentration + leftover * leftover)
                known = after.get(key)
                if known is None or candidate > known[:2]:
                    after[key] = _State(*candidate, state, filling)
        return after

    def _maximal_fillings(self, bin_: PackBin, caps: Counts) -> list[tuple[int, int, Counts]]:
        """Return weight, leftover of the first resource, and counts of each filling to which nothing can be added."""
        key = bin_, caps
        cached = self._fillings.get(key)
        if cached is None:
            cached = self._fillings[key] = _enumerate(bin_, caps, self._items)
        return cached


def _fitting(free: Amounts, amounts: Amounts | None) -> int:
    """Return how many items fit."""
    if amounts is None:
        return 0
    return max(0, min((left // amount for left, amount in zip(free, amounts, strict=True) if amount), default=0))


def _enumerate(bin_: PackBin, caps: Counts, items: Sequence[PackItem]) -> list[tuple[int, int, Counts]]:
    """Return the maximal fillings of one bin; the first that are tried have as many heavy items as possible."""
    kinds = sorted((kind for kind, cap in enumerate(caps) if cap), key=lambda kind: -items[kind].weight)
    amounts = {kind: items[kind].amounts[bin_.group] or () for kind in kinds}
    found: list[tuple[int, int, Counts]] = []
    stack: list[tuple[int, Amounts, int, tuple[tuple[int, int], ...]]] = [(0, bin_.free, 0, ())]
    visited = 0
    while stack and visited < _MAX_VISITED:
        visited += 1
        depth, free, weight, chosen = stack.pop()
        if depth == len(kinds):
            counts = dict(chosen)
            if not any(counts[kind] < caps[kind] and _fitting(free, amounts[kind]) for kind in kinds):
                found.append((weight, free[0], tuple(counts.get(kind, 0) for kind in range(len(caps)))))
            continue
        kind = kinds[depth]
        most = min(caps[kind], _fitting(free, amounts[kind]))
        for count in range(most + 1):  # the highest is popped first
            left = tuple(have - count * amount for have, amount in zip(free, amounts[kind], strict=True))
            stack.append((depth + 1, left, weight + count * items[kind].weight, (*chosen, (kind, count))))
    found.sort(key=lambda filling: (-filling[0], -filling[1]))
    return found[:_MAX_FILLINGS]

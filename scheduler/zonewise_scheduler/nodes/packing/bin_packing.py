"""Bin packing with several resources: selects items for bins so that their total weight is highest.

The search goes from bin to bin. Its states are the numbers of items used so far. Of equal states it retains the best,
and of all states a bounded number (a beam). The work of one search is also bounded, in steps, so that it takes about as
long for many bins as for few. Each bin gets its share of the remaining steps, and the best states come first. With few
kinds of items and bounds that are never reached, the result is optimal:

1. Suppose that an optimal packing leaves space in a bin for an item that is in a later bin. Moving the item does not
   change the weight.
2. So some optimal packing fills each bin maximally with the items that earlier bins have left.
3. The search tries all such fillings of each bin, and drops only states for which an equal one is at least as good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

Amounts = tuple[int, ...]
"""Amounts by resource."""
Counts = tuple[int, ...]
"""Numbers by kind of item."""

_MAX_VISITED = 2000
"""Maximum number of partial fillings of one bin that are tried: a bound on the time for large bins with small items."""
_MAX_FILLINGS = 32
"""Maximum number of fillings of one bin that are followed, the heaviest first."""
_BEAMS = ((6, 256), (12, 16))
"""Pairs of a maximum number of kinds of items and the number of states for it."""
_MAX_STEPS = 25_000
"""Maximum number of steps of one search (some tens of milliseconds): partial fillings that are tried, and fillings that
are followed."""
_KINDS_PER_STEP = 4
"""Number of kinds that are examined in one step."""


class PackBin(NamedTuple):
    """A bin with its free amounts."""

    group: int
    """Bins of one group have the same resources and accept the same items."""
    free: Amounts


class PackItem(NamedTuple):
    """Items of one kind."""

    amounts: tuple[Amounts | None, ...]
    """Amounts by group of bins; None: these bins accept no such item."""
    weight: int
    """Weight of one item, more than 0."""
    number: int


class _State(NamedTuple):
    weight: int
    concentration: int
    """The sum of the squares of the bins' leftovers: of equal weights, the state with whole bins left is better."""
    before: _State | None
    """The state without the last bin; None: no bin is filled."""
    filling: Counts
    """Filling of the last bin."""


def pack(bins: Sequence[PackBin], items: Sequence[PackItem]) -> list[Counts]:
    """Return the number of items of each kind, by bin; fuller bins come first in the search."""
    order = sorted(range(len(bins)), key=lambda index: (bins[index].free, index))
    beam = next((size for kinds, size in _BEAMS if len(items) <= kinds), 1)
    search = _PackSearch(items)
    states: dict[Counts, _State] = {tuple(item.number for item in items): _State(0, 0, None, ())}
    for number, index in enumerate(order):
        followed = sorted(states.items(), key=_quality, reverse=True)[:beam]
        states = search.fill(followed, bins[index], search.steps_left // (len(order) - number))
    best = max(states.values(), key=lambda state: state[:2])
    by_bin: dict[int, Counts] = {}
    for index in reversed(order):
        by_bin[index] = best.filling
        best = best.before or best
    return [by_bin[index] for index in range(len(bins))]


def _quality(entry: tuple[Counts, _State]) -> tuple[int, int]:
    return entry[1][:2]


class _PackSearch:
    def __init__(self, items: Sequence[PackItem]) -> None:
        self.steps_left = _MAX_STEPS
        self._items = items
        self._fillings: dict[tuple[PackBin, Counts], list[tuple[int, int, Counts]]] = {}

    def fill(self, states: Sequence[tuple[Counts, _State]], bin_: PackBin, steps: int) -> dict[Counts, _State]:
        """Return the states after one more bin, for as many of the first states as `steps` allows, but at least one."""
        most = tuple(fitting(bin_.free, item.amounts[bin_.group]) for item in self._items)
        after: dict[Counts, _State] = {}
        end = self.steps_left - steps
        for remaining, state in states:
            if after and self.steps_left <= end:
                break
            for weight, leftover, filling in self._maximal_fillings(bin_, tuple(map(min, remaining, most)), end):
                key = tuple(map(int.__sub__, remaining, filling))
                candidate = (state.weight + weight, state.concentration + leftover * leftover)
                known = after.get(key)
                if known is None or candidate > known[:2]:
                    after[key] = _State(*candidate, state, filling)
        return after

    def _maximal_fillings(self, bin_: PackBin, caps: Counts, end: int) -> list[tuple[int, int, Counts]]:
        """Return weight, leftover of the first resource, and counts of each filling to which nothing can be added.

        `end`: the steps that must be left after this bin.
        """
        key = bin_, caps
        cached = self._fillings.get(key)
        if cached is None:
            steps = 1 + sum(map(bool, caps)) // _KINDS_PER_STEP
            visits = min(_MAX_VISITED, (self.steps_left - end) // steps)
            cached, visited = _enumerate(bin_, caps, self._items, visits)
            self._fillings[key] = cached
            self.steps_left -= visited * steps
        self.steps_left -= len(cached)
        return cached


def fitting(free: Amounts, amounts: Amounts | None) -> int:
    """Return how many items fit."""
    if amounts is None:
        return 0
    fewest = -1
    for left, amount in zip(free, amounts, strict=True):
        if amount and ((count := left // amount) < fewest or fewest < 0):
            if count <= 0:
                return 0
            fewest = count
    return max(0, fewest)


def _enumerate(
    bin_: PackBin, caps: Counts, items: Sequence[PackItem], visits: int
) -> tuple[list[tuple[int, int, Counts]], int]:
    """Return maximal fillings of one bin, and how many partial fillings were tried: `visits`, or more to find one.

    The first fillings that are tried have as many heavy items as possible.
    """
    kinds = sorted((kind for kind, cap in enumerate(caps) if cap), key=lambda kind: -items[kind].weight)
    amounts = [items[kind].amounts[bin_.group] or () for kind in kinds]
    limits = [caps[kind] for kind in kinds]
    found: list[tuple[int, int, Counts]] = []
    first = _next_that_fits(bin_.free, amounts, limits, 0)
    stack: list[_Choice] = [_Choice(*first, bin_.free, 0, None)]
    visited = 0
    while stack and (visited < visits or not found):
        visited += 1
        choice = depth, count, free, weight, chosen = stack.pop()
        if count:
            stack.append(_Choice(depth, count - 1, free, weight, chosen))  # tried after all that follow the higher one
        if depth < len(kinds):
            free = tuple(have - count * amount for have, amount in zip(free, amounts[depth], strict=True))
            weight += count * items[kinds[depth]].weight
            follower = _next_that_fits(free, amounts, limits, depth + 1)
            if follower[0] < len(kinds):
                stack.append(_Choice(*follower, free, weight, choice))
                continue
            chosen = choice
        counts = _counts(chosen, len(kinds))
        if not any(
            count < limit and fitting(free, amount)
            for count, limit, amount in zip(counts, limits, amounts, strict=True)
        ):
            by_kind = dict(zip(kinds, counts, strict=True))
            found.append((weight, free[0], tuple(by_kind.get(kind, 0) for kind in range(len(caps)))))
    found.sort(key=lambda filling: (-filling[0], -filling[1]))
    return found[:_MAX_FILLINGS], visited


class _Choice(NamedTuple):
    """A number of items of one kind, after choices for the kinds before it."""

    depth: int
    """Index of the kind; the number of kinds if none fits."""
    number: int
    free: Amounts
    """Free amounts without these items."""
    weight: int
    before: _Choice | None


def _next_that_fits(free: Amounts, amounts: Sequence[Amounts], limits: Sequence[int], start: int) -> tuple[int, int]:
    """Return the next kind of which an item fits, and how many do; (number of kinds, 0) if there is none."""
    for depth in range(start, len(amounts)):
        if most := min(limits[depth], fitting(free, amounts[depth])):
            return depth, most
    return len(amounts), 0


def _counts(last: _Choice | None, kinds: int) -> list[int]:
    """Return the number of items by kind, after a last choice."""
    counts = [0] * kinds
    while last is not None:
        if last.depth < kinds:
            counts[last.depth] = last.number
        last = last.before
    return counts

"""Searches for the smallest value of a setting that meets a goal, with few simulations.

1. The search climbs a ladder of values until a rung meets the goal, or descends until one misses it. If no rung above
   the first one meets the goal, it tries those below: more of a queue's quota may delay another queue.
2. It then bisects the interval between the last rung that misses the goal and the first that meets it.
3. Finally, it checks the neighbours of the result. Outcomes of a simulation need not be monotone: a larger machine may
   start jobs in another order and end later (Graham, SIAM J. Appl. Math. 17(2), 1969). If a smaller neighbour meets the
   goal too, it becomes the result, and its neighbours are checked next. If a larger one misses, the result has a
   warning.

Bisection and neighbours prove nothing about values further away, so the result lists every simulated value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.simulator.advice.goal import Measurement

NEIGHBOURS = 2
"""Number of values that are checked on each side of the result."""


class SearchResult(NamedTuple):
    """The result of a search over positions, which are ascending integers that represent values."""

    smallest: int | None
    """The smallest position found that meets the goal; its simulated neighbours below miss it. None if no rung meets
    it."""
    measured: dict[int, Measurement]
    """Every position that was simulated, ascending."""
    missing_neighbours: tuple[int, ...] = ()
    """Neighbours above the result that miss the goal."""

    @property
    def meets_from(self) -> int | None:
        """Return the position from which all simulated positions meet the goal; None if the highest misses it."""
        lasting: int | None = None
        for position, measured in reversed(self.measured.items()):
            if not measured.met:
                break
            lasting = position
        return lasting


class _PositionSearch:
    """The measurements of one search; each position is simulated once."""

    def __init__(self, evaluate: Callable[[int], Measurement], bounds: tuple[int, int]) -> None:
        self._evaluate = evaluate
        self._lowest, self._highest = bounds
        self.measured: dict[int, Measurement] = {}

    def meets(self, position: int) -> bool:
        if position not in self.measured:
            self.measured[position] = self._evaluate(position)
        return self.measured[position].met

    def climb(self, ladder: Sequence[int], rung: int) -> tuple[int, int] | None:
        """Return adjacent rungs, only the second of which meets the goal; (lowest - 1, lowest) if the lowest does."""
        upwards, downwards = range(rung, len(ladder)), range(rung - 1, -1, -1)
        met = next((each for each in (*upwards, *downwards) if self.meets(ladder[each])), None)
        if met is None:
            return None
        while met and self.meets(ladder[met - 1]):
            met -= 1
        return ladder[met - 1] if met else self._lowest - 1, ladder[met]

    def halve(self, missed: int, met: int) -> int:
        """Return a position that meets the goal and is the lowest of all or directly above one that misses it."""
        while met - missed > 1:
            middle = (missed + met) // 2
            missed, met = (missed, middle) if self.meets(middle) else (middle, met)
        return met

    def descend(self, position: int) -> int:
        """Return the position, or a smaller one, such that all its checked lower neighbours miss the goal."""
        while True:
            below = range(max(position - NEIGHBOURS, self._lowest), position)
            smaller = next((neighbour for neighbour in below if self.meets(neighbour)), None)
            if smaller is None:
                return position
            position = smaller

    def missing_above(self, position: int) -> tuple[int, ...]:
        above = range(position + 1, min(position + NEIGHBOURS, self._highest) + 1)
        return tuple(neighbour for neighbour in above if not self.meets(neighbour))


def smallest_meeting(ladder: Sequence[int], start: int, evaluate: Callable[[int], Measurement]) -> SearchResult:
    """Search for the smallest position that meets a goal.

    `ladder` is ascending, and its ends bound the search. `start` is the index of the rung to begin at. `evaluate`
    simulates a position; it is called once for each position.
    """
    search = _PositionSearch(evaluate, (ladder[0], ladder[-1]))
    rungs = search.climb(ladder, start)
    if rungs is None:
        return SearchResult(None, _ascending(search.measured))
    smallest = search.descend(search.halve(*rungs))
    missing = search.missing_above(smallest)
    return SearchResult(smallest, _ascending(search.measured), missing)


def _ascending(measured: dict[int, Measurement]) -> dict[int, Measurement]:
    return dict(sorted(measured.items()))

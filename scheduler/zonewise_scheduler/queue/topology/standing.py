"""What the domains of a tree take of pods of one kind, kept: a leaf that has changed costs its own work.

Most workloads ask for what another asked for before, of a tree of which a few leaves have changed since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.queue.topology.counts import Leaves, renew, roll_up
from zonewise_scheduler.queue.topology.leaves import copies, shortages

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.topology.counts import Counts
    from zonewise_scheduler.queue.topology.excluded import Excluded
    from zonewise_scheduler.queue.topology.leaves import Free
    from zonewise_scheduler.queue.topology.model import Assignment
    from zonewise_scheduler.queue.topology.nodes import Matched
    from zonewise_scheduler.queue.topology.refusal import Refused
    from zonewise_scheduler.queue.topology.shape import Shape
    from zonewise_scheduler.queue.topology.tree import Tree

_FEW = 4
"""Where more than one leaf of so many has changed, all are worked out anew."""


class Standing:
    """Pods without a leader, and bound by nothing but what they request."""

    def __init__(self, tree: Tree, requests: Mapping[str, int], matched: Matched, shape: Shape) -> None:
        """Take what each pod requests, itself too; of the shape matters only what slices there are."""
        self.matched = matched
        self.levels: list[Counts] = []
        """By level, as of the last update; not to be changed."""
        self.found: dict[Hashable, dict[str, Assignment] | Refused] = {}
        """What was found since there was a change, for whoever asks again."""
        self._tree = tree
        self._requests = requests
        self._shape = shape
        self._free: Free = {}
        self._shortest: NDArray[np.int64] = np.zeros(0, np.int64)

    def update(self, free: Free) -> None:
        """Take what is free of each resource that is requested; arrays that are given are not to be changed."""
        before, self._free = self._free, free
        if not before:
            self._renew_all()
            return
        changed = [free[name] != before[name] for name in free if free[name] is not before[name]]
        rows = np.flatnonzero(np.logical_or.reduce(changed)) if changed else np.zeros(0, np.int64)
        if not rows.size:
            return
        self.found.clear()
        if rows.size * _FEW > self._tree.leaves:
            self._renew_all()
            return
        leaves, self._shortest[rows] = self._leaves({name: amount[rows] for name, amount in free.items()}, rows)
        renew(self.levels, self._tree, rows, leaves, self._shape)

    def excluded(self) -> Excluded:
        """Return why leaves take nothing."""
        full = self.matched.mask & (self.levels[-1].pods == 0)
        return self.matched.excluded._replace(resources=shortages(self._requests, self._shortest[full]))

    def _renew_all(self) -> None:
        leaves, self._shortest = self._leaves(self._free, slice(None))
        self.levels = roll_up(leaves, self._tree.begins, 0, self._shape)

    def _leaves(self, free: Free, rows: NDArray[np.int64] | slice) -> tuple[Leaves, NDArray[np.int64]]:
        """Return what some leaves take, and of which resource they have least."""
        room, shortest = copies(free, self._requests)
        room *= self.matched.mask[rows]
        return Leaves(room, room, np.zeros_like(room), self.matched.score[rows]), shortest

"""Values of all zones of a block that do not depend on the pod to be scored, so that the block caches them.

A value belongs to a zone, or to a node as a whole: the arrays are (1 + zones, rows), with the nodes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from zonewise_scheduler.nodes.arrays.array_view import flat_cells
from zonewise_scheduler.nodes.arrays.pod_counts import zone_pod_counts
from zonewise_scheduler.nodes.arrays.verdict_cache import ResultKey

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.alignment_request import IndexedAmounts
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.block import Block
    from zonewise_scheduler.nodes.arrays.types import F64, I8, I64

_T = TypeVar("_T", bound=np.generic)


class ZoneValues:
    """The values of the zones from which rows of a block are served."""

    def __init__(self, block: Block, slots: slice, zones: I8, rows: I64) -> None:
        """`zones`, (rows,): positions; -1 stands for the node as a whole. `rows`: indices into the slots."""
        self._block, self._slots = block, slots
        self._zones, self._rows = zones, rows
        self._cells: I64 | None = None

    def compute(self, inputs: tuple[Hashable, ...], compute: Callable[[ArrayView], NDArray[_T]]) -> NDArray[_T]:
        """Return the value of each row's zone, (rows,), as a new array.

        `compute` returns the values of a view, (1 + zones, rows), which depend on nothing else but `inputs`.
        """
        values = self._block.get_or_compute(ResultKey(*inputs), lambda view, _: compute(view))
        flat, pitch = flat_cells(values[:, self._slots])
        if self._cells is None:  # all values have the same distance from zone to zone
            cells = self._cells = self._zones.astype(np.int64)
            cells += 1
            cells *= pitch
            cells += self._rows
        return flat.take(self._cells)


def pod_counts_in_zones(view: ArrayView, amounts: IndexedAmounts) -> I64:
    """Return how many pods of some amounts, at least one, fit in each zone and node."""
    return np.vstack([zone_pod_counts(view.node_free, amounts), zone_pod_counts(view.free, amounts)])


def free_percents(view: ArrayView, indices: Iterable[int]) -> F64:
    """Return the free amounts of each zone and node, in percent of the largest zone, summed over some resources."""
    total = np.zeros((1 + view.zones, view.rows))
    for index in indices:
        total[0] += view.node_free[index] * view.percent_per_unit[index]
        total[1:] += view.free[index] * view.percent_per_unit[index]
    return total

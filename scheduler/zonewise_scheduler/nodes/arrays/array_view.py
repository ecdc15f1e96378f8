"""The arrays of rows of one layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import F64, I8, I64, Bools


@dataclass(frozen=True)
class ArrayView:
    """Some rows of one layout; the arrays are not to be changed."""

    layout: Layout
    free: I64
    """(resources, zones, rows): what could be given from the zone alone."""
    total: I64
    """(resources, zones, rows): what widths are counted by, busy, reserved and unhealthy ones too."""
    largest_total: I64
    """(resources, rows): the total of the zone that has most."""
    percent_per_unit: F64
    """(resources, rows): 100 by the largest, and 0 where that is 0."""
    node_free: I64
    """(resources, rows): of the whole node, whatever the zone."""
    whole_cores: I64
    """(rows,): free CPUs that share no core with a reserved one."""
    assigned: I64
    """(rows,): the set of zones, by position, of which memory is assigned."""
    grouped: Bools
    """(rows,): some zones give memory as one at present."""

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.assigned.shape[0]

    @property
    def zones(self) -> int:
        """Return the number of zones."""
        return self.free.shape[1]

    def flat_indices(self, zones: I8, rows: I64) -> I64:
        """Return where near() finds the zone, by position, of each of some rows; any zone for -1."""
        found = np.maximum(zones, 0).astype(np.int64)
        found *= self._pitch
        found += rows
        return found

    def free_at(self, index: int, flat_indices: I64) -> I64:
        """Return how much of a resource could be given at each spot."""
        length = (self.zones - 1) * self._pitch + self.rows
        flat = as_strided(self.free[index], (length,), (self.free.itemsize,))
        return flat.take(flat_indices)  # four times as fast as an index for each of the two axes

    @property
    def _pitch(self) -> int:
        """Return how far a zone is from the next, in items: further than there are rows where arrays have grown."""
        return self.free.strides[1] // self.free.itemsize

    def select(self, rows: slice | I64) -> ArrayView:
        """Return some of the rows: without a copy for a slice."""
        if isinstance(rows, slice):
            return ArrayView(self.layout, *(one[..., rows] for one in self.arrays))
        return ArrayView(self.layout, *(np.ascontiguousarray(one[..., rows]) for one in self.arrays))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays, in the order of the fields; rows are their last axis."""
        return (
            self.free, self.total, self.largest_total, self.percent_per_unit, self.node_free, self.whole_cores, self.assigned,
            self.grouped,
        )  # fmt: skip

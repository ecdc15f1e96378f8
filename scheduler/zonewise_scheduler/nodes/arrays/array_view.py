"""The arrays of the rows of one layout."""

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
    """Some rows of one layout; the arrays must not be changed."""

    layout: Layout
    free: I64
    """(resources, zones, rows): amounts that the zone can allocate by itself."""
    total: I64
    """(resources, zones, rows): amounts that determine widths, including allocated, reserved and unhealthy ones."""
    largest_total: I64
    """(resources, rows): the largest total of a zone."""
    percent_per_unit: F64
    """(resources, rows): 100 divided by the largest total, or 0 if that is 0."""
    node_free: I64
    """(resources, rows): free amounts of the whole node."""
    whole_cores: I64
    """(rows,): free CPUs that share no core with a reserved one."""
    assigned: I64
    """(rows,): the set of zones with assigned memory, by position."""
    grouped: Bools
    """(rows,): whether some zones allocate memory as one group."""
    split_cores: Bools
    """(rows,): whether a core is partly free; False if Layout.fills_packages does not hold."""
    group_sizes: I64
    """(2, rows): the number of CPUs per core, and of the largest L3 cache; 0 if unknown."""
    padding: Bools | None = None
    """(zones, rows): whether a row's node lacks the zone; None if each node has all zones."""

    @classmethod
    def empty(cls, layout: Layout, rows: int) -> ArrayView:
        """Return rows of zeros, which the caller must write."""
        shape = (layout.resource_count, layout.zone_count, rows)
        flat = (layout.resource_count, rows)
        return cls(
            layout,
            np.zeros(shape, np.int64),
            np.zeros(shape, np.int64),
            np.zeros(flat, np.int64),
            np.zeros(flat, np.float64),
            np.zeros(flat, np.int64),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.int64),
            np.zeros(rows, np.bool_),
            np.zeros(rows, np.bool_),
            np.zeros((2, rows), np.int64),
        )

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return self.assigned.shape[0]

    @property
    def zones(self) -> int:
        """Return the number of zones."""
        return self.free.shape[1]

    def flat_indices(self, zones: I8, rows: I64) -> I64:
        """Return the indices for free_at() of one zone per row, given by position; -1 stands for any zone."""
        indices = np.maximum(zones, 0).astype(np.int64)
        indices *= self._pitch
        indices += rows
        return indices

    def free_at(self, index: int, flat_indices: I64) -> I64:
        """Return the free amounts of a resource at each index."""
        length = (self.zones - 1) * self._pitch + self.rows
        flat = as_strided(self.free[index], (length,), (self.free.itemsize,))
        return flat.take(flat_indices)  # four times as fast as one index per axis

    @property
    def _pitch(self) -> int:
        """Return the distance from a zone to the next in items; if arrays have grown, it exceeds the number of rows."""
        return self.free.strides[1] // self.free.itemsize

    def select(self, rows: slice | I64) -> ArrayView:
        """Return some of the rows; a slice is not copied."""
        padding = None if self.padding is None else self.padding[:, rows]
        if isinstance(rows, slice):
            return ArrayView(self.layout, *(array[..., rows] for array in self.arrays), padding=padding)
        return ArrayView(
            self.layout, *(np.ascontiguousarray(array[..., rows]) for array in self.arrays), padding=padding
        )

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays except the padding, in the order of the fields; rows are the last axis."""
        return (
            self.free, self.total, self.largest_total, self.percent_per_unit, self.node_free, self.whole_cores,
            self.assigned, self.grouped, self.split_cores, self.group_sizes,
        )  # fmt: skip

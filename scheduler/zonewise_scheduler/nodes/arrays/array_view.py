"""The arrays of the rows of one layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.arrays.types import F64, I8, I64, Bools

_T = TypeVar("_T", bound=np.generic)


@dataclass(frozen=True)
class RowConstants:
    """Values that are the same in all rows of a view: operations with one number are faster."""

    percents: tuple[float | None, ...]
    """percent_per_unit of each resource; None if rows differ."""
    group_sizes: I64 | None
    """group_sizes, (2,); None if rows differ."""


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
    constants: RowConstants | None = None
    """Values that all rows have in common; None if unknown."""

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
        _, pitch = self._flat_free
        indices = np.maximum(zones, 0).astype(np.int64)
        indices *= pitch
        indices += rows
        return indices

    def free_at(self, index: int, flat_indices: I64) -> I64:
        """Return the free amounts of a resource at each index."""
        flat, _ = self._flat_free
        return flat[index].take(flat_indices)  # four times as fast as one index per axis

    @cached_property
    def _flat_free(self) -> tuple[I64, int]:
        return flat_cells(self.free)

    def percents(self, index: int, rows: I64) -> float | F64:
        """Return percent_per_unit of a resource in some rows, as one number if all rows have the same."""
        constant = self.constants and self.constants.percents[index]
        return self.percent_per_unit[index].take(rows) if constant is None else constant

    def group_sizes_of(self, rows: I64) -> I64:
        """Return group_sizes of some rows, (2, rows), or (2,) if all rows have the same."""
        constant = self.constants and self.constants.group_sizes
        return self.group_sizes[:, rows] if constant is None else constant

    def select(self, rows: slice | I64) -> ArrayView:
        """Return some of the rows; a slice is not copied."""
        padding = None if self.padding is None else self.padding[:, rows]
        if isinstance(rows, slice):
            arrays = [array[..., rows] for array in self.arrays]
        else:
            arrays = [np.ascontiguousarray(array[..., rows]) for array in self.arrays]
        return ArrayView(self.layout, *arrays, padding=padding, constants=self.constants)

    def with_constants(self) -> ArrayView:
        """Return the same rows, at least one, with the values that they have in common."""
        percents = tuple(float(row[0]) if (row == row[0]).all() else None for row in self.percent_per_unit)
        sizes = self.group_sizes[:, 0].copy()
        is_constant = (self.group_sizes == sizes[:, None]).all()
        return replace(self, constants=RowConstants(percents, sizes if is_constant else None))

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return all arrays except the padding, in the order of the fields; rows are the last axis."""
        return (
            self.free, self.total, self.largest_total, self.percent_per_unit, self.node_free, self.whole_cores,
            self.assigned, self.grouped, self.split_cores, self.group_sizes,
        )  # fmt: skip


def flat_cells(array: NDArray[_T]) -> tuple[NDArray[_T], int]:
    """Return an array with its last axes, zones and contiguous rows, as one; and the distance from a zone to the next.

    If the rows are part of a larger array, the distance exceeds their number.
    """
    *outer, zones, rows = array.shape
    pitch = array.strides[-2] // array.itemsize
    shape = (*outer, (zones - 1) * pitch + rows)
    return as_strided(array, shape, (*array.strides[:-2], array.itemsize)), pitch

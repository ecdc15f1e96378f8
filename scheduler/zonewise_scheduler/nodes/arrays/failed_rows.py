"""Rows in which no single zone can serve a step of a pod."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.alignment_request import AlignmentStep
    from zonewise_scheduler.nodes.arrays.array_view import ArrayView
    from zonewise_scheduler.nodes.arrays.types import I64, Bools
    from zonewise_scheduler.nodes.arrays.zone_amounts import ZoneAmounts


@dataclass(frozen=True)
class FailedRows:
    """Some rows of a view, and the amounts that earlier steps have left."""

    view: ArrayView
    """All rows."""
    step: AlignmentStep
    in_view: I64
    """(failed rows,): indices into the view."""
    left: ZoneAmounts
    """Amounts of the rows that are still judged."""
    in_left: I64
    """(failed rows,): indices into the amounts that are left."""

    @property
    def count(self) -> int:
        """Return the number of failed rows."""
        return self.in_view.size

    @cached_property
    def amounts(self) -> ZoneAmounts:
        """Return the amounts of the step's resources that earlier steps have left."""
        return self.left.select(self.in_left, dict(self.step.hinted))

    def select(self, rows: I64) -> FailedRows:
        """Return some of the failed rows, by index."""
        return FailedRows(self.view, self.step, self.in_view[rows], self.left, self.in_left[rows])

    def none(self) -> Bools:
        """Return False for each failed row."""
        return np.zeros(self.count, np.bool_)

    def every(self) -> Bools:
        """Return True for each failed row."""
        return np.ones(self.count, np.bool_)

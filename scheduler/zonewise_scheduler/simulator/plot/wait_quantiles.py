"""Waits by width: quantiles for groups of jobs with about equal widths."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.simulator.plot.history_arrays import Floats, Ints

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
MAX_GROUPS = 18
"""Maximum number of groups."""


class WidthBins(NamedTuple):
    """Up to MAX_GROUPS bins of widths, ascending."""

    begins: Floats
    at: Floats
    """The width at which a group is drawn."""


class WaitGroup(NamedTuple):
    """A group of jobs with about equal widths."""

    width: float
    """The share of the machine at which the group is drawn."""
    jobs: int
    waits: Floats
    """One wait for each of QUANTILES, in seconds."""


def width_bins(widths: Sequence[Floats]) -> WidthBins:
    """Return bins for the positive widths of all histories.

    If there are few distinct widths, each has its own bin; otherwise, the bins have an equal ratio.
    """
    distinct = np.unique(np.concatenate([np.zeros(0), *widths]))
    distinct = distinct[distinct > 0]
    if distinct.size <= MAX_GROUPS:
        return WidthBins(distinct, distinct)
    ratio = distinct[-1] / distinct[0]
    begins = distinct[0] * ratio ** (np.arange(MAX_GROUPS) / MAX_GROUPS)
    return WidthBins(begins, begins * ratio ** (0.5 / MAX_GROUPS))


def wait_groups(widths: Floats, waits: Floats, edges: WidthBins) -> list[WaitGroup]:
    """Return the non-empty groups. Jobs without a width, or with NaN as their wait (never started), are left out."""
    known = (widths > 0) & ~np.isnan(waits)
    widths, waits = widths[known], waits[known]
    # rounding must not put a job below the first bin
    bins: Ints = np.maximum(np.searchsorted(edges.begins, widths, "right") - 1, 0)
    order = np.argsort(bins, kind="stable")
    cuts = np.flatnonzero(np.diff(bins[order])) + 1
    return [
        WaitGroup(float(edges.at[bins[rows[0]]]), rows.size, np.quantile(waits[rows], QUANTILES))
        for rows in np.split(order, cuts)
        if rows.size
    ]

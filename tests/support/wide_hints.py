"""Hints as arrays over all sets, and as sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from zonewise_scheduler.admission.topologymanager.wide_merge import WideHints, wide_hints
from zonewise_scheduler.admission.topologymanager.zone_sums import to_index, to_set

if TYPE_CHECKING:
    from zonewise_scheduler.admission.topologymanager.hints import Hints


def listed_sets(hints: WideHints) -> tuple[set[int], set[int]]:
    """Return the preferred sets and the other ones."""
    preferred = {to_set(hints.zones, index) for index in np.flatnonzero(hints.preferred).tolist()}
    possible = {to_set(hints.zones, index) for index in np.flatnonzero(hints.possible).tolist()}
    assert preferred <= possible
    return preferred, possible - preferred


def as_wide(zones: tuple[int, ...], hints: Hints) -> WideHints:
    """Return listed hints as arrays over the sets of zones."""
    possible, preferred = (np.zeros(1 << len(zones), np.bool_) for _ in range(2))
    possible[[to_index(zones, each) for each in (*hints.preferred, *hints.not_preferred)]] = True
    preferred[[to_index(zones, each) for each in hints.preferred]] = True
    return wide_hints(zones, possible, preferred)

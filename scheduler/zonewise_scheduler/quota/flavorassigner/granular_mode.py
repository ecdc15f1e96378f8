"""Modes of flavor assignments, and their order of preference (pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

import sys
from enum import Enum, IntEnum, auto
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.quota.api.queue_types import FlavorFungibility


class FlavorAssignmentMode(Enum):
    """What must happen before a workload gets its flavors, from the worst mode to the best."""

    NO_FIT = auto()
    PREEMPT = auto()
    """There is enough quota, but it is currently in use."""
    FIT = auto()


class PreemptionMode(IntEnum):
    """Finer modes for comparing two flavors, from the worst to the best."""

    NO_FIT = auto()
    NO_CANDIDATES = auto()
    """A preemption would be needed, but no workload may be preempted."""
    PREEMPT = auto()
    RECLAIM = auto()
    """All victims are in other ClusterQueues."""
    FIT = auto()

    @property
    def flavor_assignment_mode(self) -> FlavorAssignmentMode:
        """The coarser mode to which this mode belongs."""
        match self:
            case PreemptionMode.NO_FIT:
                return FlavorAssignmentMode.NO_FIT
            case PreemptionMode.FIT:
                return FlavorAssignmentMode.FIT
            case _:
                return FlavorAssignmentMode.PREEMPT


class GranularMode(NamedTuple):
    """How a workload can get a flavor, and from how far away quota is borrowed."""

    preemption_mode: PreemptionMode
    borrowing_level: int
    """Height of the lowest subtree with enough quota; 0 for the ClusterQueue's own quota."""


WORST_GRANULAR_MODE = GranularMode(PreemptionMode.NO_FIT, sys.maxsize)
BEST_GRANULAR_MODE = GranularMode(PreemptionMode.FIT, 0)


def worst_mode(modes: Iterable[FlavorAssignmentMode], default: FlavorAssignmentMode) -> FlavorAssignmentMode:
    """Return the worst of the modes; the default if there are none."""
    return min(modes, key=attrgetter("value"), default=default)


def is_preferred(a: GranularMode, b: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Return whether `a` is better than `b` (isPreferred)."""
    return _preference(a, fungibility) > _preference(b, fungibility)


def _preference(mode: GranularMode, fungibility: FlavorFungibility) -> tuple[int, ...]:
    """Return the sort key of a mode; better modes have larger keys."""
    nearness = -mode.borrowing_level
    match mode.preemption_mode, fungibility.preference:
        case PreemptionMode.NO_FIT, _:
            return ()
        case PreemptionMode.NO_CANDIDATES, "PreemptionOverBorrowing":
            return False, nearness
        case preemption_mode, "PreemptionOverBorrowing":
            return True, nearness, preemption_mode
        case preemption_mode, _:
            return preemption_mode, nearness


def should_try_next_flavor(representative_mode: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Return whether the scan continues after a flavor with this mode (shouldTryNextFlavor)."""
    match representative_mode.preemption_mode:
        case PreemptionMode.NO_FIT | PreemptionMode.NO_CANDIDATES:
            return True
        case PreemptionMode.PREEMPT | PreemptionMode.RECLAIM if fungibility.when_can_preempt == "TryNextFlavor":
            return True
        case _:
            return bool(representative_mode.borrowing_level) and fungibility.when_can_borrow == "TryNextFlavor"

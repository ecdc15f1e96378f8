"""Modes of a flavor assignment, and which of two modes is better (pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import FlavorFungibility


class FlavorAssignmentMode(IntEnum):
    """What must happen before a workload gets its flavors; a larger mode is better."""

    NO_FIT = 0
    PREEMPT = 1
    """There is enough quota, but it is in use."""
    DEFERRED_FIT = 2
    """The workload fits once the preemptions under way have finished."""
    FIT = 3


class PreemptionMode(IntEnum):
    """The finer steps by which two flavors are compared."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """A preemption would be needed, but no workload may be preempted."""
    PREEMPT = 2
    RECLAIM = 3
    """All victims are in other ClusterQueues."""
    FIT = 4

    @property
    def flavor_assignment_mode(self) -> FlavorAssignmentMode:
        """The coarser mode that this step belongs to."""
        if self is PreemptionMode.NO_FIT:
            return FlavorAssignmentMode.NO_FIT
        return FlavorAssignmentMode.FIT if self is PreemptionMode.FIT else FlavorAssignmentMode.PREEMPT


class GranularMode(NamedTuple):
    """How a flavor can be had, and how far away the borrowed quota is."""

    preemption_mode: PreemptionMode
    borrowing_level: int
    """The height of the lowest subtree with enough quota; 0: the ClusterQueue's own quota."""


WORST_GRANULAR_MODE = GranularMode(PreemptionMode.NO_FIT, (1 << 31) - 1)
BEST_GRANULAR_MODE = GranularMode(PreemptionMode.FIT, 0)


def is_preferred(a: GranularMode, b: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Tell whether `a` is better than `b` (isPreferred)."""
    if PreemptionMode.NO_FIT in (a.preemption_mode, b.preemption_mode):
        return a.preemption_mode != PreemptionMode.NO_FIT
    has_no_candidates = a.preemption_mode == PreemptionMode.NO_CANDIDATES
    if has_no_candidates != (b.preemption_mode == PreemptionMode.NO_CANDIDATES):
        return not has_no_candidates
    if fungibility.preference == "PreemptionOverBorrowing":
        return (-a.borrowing_level, a.preemption_mode) > (-b.borrowing_level, b.preemption_mode)
    return (a.preemption_mode, -a.borrowing_level) > (b.preemption_mode, -b.borrowing_level)


def should_try_next_flavor(representative_mode: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Tell whether the scan goes on to the next flavor after one with this mode (shouldTryNextFlavor)."""
    if representative_mode.preemption_mode <= PreemptionMode.NO_CANDIDATES:
        return True
    if representative_mode.preemption_mode < PreemptionMode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return representative_mode.borrowing_level > 0 and fungibility.when_can_borrow == "TryNextFlavor"

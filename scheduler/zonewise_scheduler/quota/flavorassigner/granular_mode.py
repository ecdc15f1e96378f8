"""How a flavor can be had, and which of two ways is better (pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import FlavorFungibility


class FlavorAssignmentMode(IntEnum):
    """What has to happen before a workload gets its flavors; the larger the better."""

    NO_FIT = 0
    PREEMPT = 1
    """There is quota enough, but it is in use."""
    DEFERRED_FIT = 2
    """It fits once preemptions that are under way are done."""
    FIT = 3


class PreemptionMode(IntEnum):
    """As Mode, in the steps by which flavors are compared."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Others would have to give way, but nobody may be made to."""
    PREEMPT = 2
    RECLAIM = 3
    """Only workloads of other queues give way."""
    FIT = 4

    @property
    def flavor_assignment_mode(self) -> FlavorAssignmentMode:
        """The mode that it is a step of."""
        if self is PreemptionMode.NO_FIT:
            return FlavorAssignmentMode.NO_FIT
        return FlavorAssignmentMode.FIT if self is PreemptionMode.FIT else FlavorAssignmentMode.PREEMPT


class GranularMode(NamedTuple):
    """How a flavor can be had, and from how far it is borrowed."""

    preemption_mode: PreemptionMode
    borrowing_level: int
    """The height of the lowest subtree with quota enough; 0: the queue's own."""


WORST_GRANULAR_MODE = GranularMode(PreemptionMode.NO_FIT, (1 << 31) - 1)
BEST_GRANULAR_MODE = GranularMode(PreemptionMode.FIT, 0)


def is_preferred(a: GranularMode, b: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Tell whether `one` is better (isPreferred)."""
    if PreemptionMode.NO_FIT in (a.preemption_mode, b.preemption_mode):
        return a.preemption_mode != PreemptionMode.NO_FIT
    hopeless = a.preemption_mode == PreemptionMode.NO_CANDIDATES
    if hopeless != (b.preemption_mode == PreemptionMode.NO_CANDIDATES):
        return not hopeless
    if fungibility.preference == "PreemptionOverBorrowing":
        return (-a.borrowing_level, a.preemption_mode) > (-b.borrowing_level, b.preemption_mode)
    return (a.preemption_mode, -a.borrowing_level) > (b.preemption_mode, -b.borrowing_level)


def should_try_next_flavor(representative_mode: GranularMode, fungibility: FlavorFungibility) -> bool:
    """Tell whether the scan tries the next flavor after one of this grade (shouldTryNextFlavor)."""
    if representative_mode.preemption_mode <= PreemptionMode.NO_CANDIDATES:
        return True
    if representative_mode.preemption_mode < PreemptionMode.FIT and fungibility.when_can_preempt == "TryNextFlavor":
        return True
    return representative_mode.borrowing_level > 0 and fungibility.when_can_borrow == "TryNextFlavor"

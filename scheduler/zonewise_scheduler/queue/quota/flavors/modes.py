"""How a flavor can be had, and which of two ways is better (pkg/scheduler/flavorassigner/flavorassigner.go)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.queues import Fungibility


class Mode(IntEnum):
    """What has to happen before a workload gets its flavors; the larger the better."""

    NO_FIT = 0
    PREEMPT = 1
    """There is quota enough, but it is in use."""
    DEFERRED_FIT = 2
    """It fits once preemptions that are under way are done."""
    FIT = 3


class Reach(IntEnum):
    """As Mode, in the steps by which flavors are compared."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    """Others would have to give way, but nobody may be made to."""
    PREEMPT = 2
    RECLAIM = 3
    """Only workloads of other queues give way."""
    FIT = 4

    @property
    def mode(self) -> Mode:
        """The mode that it is a step of."""
        if self is Reach.NO_FIT:
            return Mode.NO_FIT
        return Mode.FIT if self is Reach.FIT else Mode.PREEMPT


class Grade(NamedTuple):
    """How a flavor can be had, and from how far it is borrowed."""

    reach: Reach
    borrowing: int
    """The height of the lowest subtree with quota enough; 0: the queue's own."""


WORST = Grade(Reach.NO_FIT, (1 << 31) - 1)
BEST = Grade(Reach.FIT, 0)


def preferred(one: Grade, other: Grade, rules: Fungibility) -> bool:
    """Tell whether `one` is better (isPreferred)."""
    if Reach.NO_FIT in (one.reach, other.reach):
        return one.reach != Reach.NO_FIT
    hopeless = one.reach == Reach.NO_CANDIDATES
    if hopeless != (other.reach == Reach.NO_CANDIDATES):
        return not hopeless
    if rules.preference == "PreemptionOverBorrowing":
        return (-one.borrowing, one.reach) > (-other.borrowing, other.reach)
    return (one.reach, -one.borrowing) > (other.reach, -other.borrowing)


def goes_on(grade: Grade, rules: Fungibility) -> bool:
    """Tell whether the scan tries the next flavor after one of this grade (shouldTryNextFlavor)."""
    if grade.reach <= Reach.NO_CANDIDATES:
        return True
    if grade.reach < Reach.FIT and rules.when_can_preempt == "TryNextFlavor":
        return True
    return grade.borrowing > 0 and rules.when_can_borrow == "TryNextFlavor"

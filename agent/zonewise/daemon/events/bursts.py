"""Gathers what comes in a burst, so that ten files written together cost one scan.

A pod's admission writes its checkpoints within a few milliseconds, and a NIC's virtual functions come by hundreds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.daemon.events.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Set

QUIET = 0.008
"""Seconds without an event after which a burst is over. A kubelet that admits a pod with CPUs, memory and a GPU writes
its files up to 10 ms apart, 4 ms in the middle; a much shorter pause would publish most pods in two halves."""
MAX_BURST = 0.04
"""Seconds from the first event after which a burst is over, whatever comes."""


def burst_deadline(first: float, last: float, quiet: float, max_burst: float) -> float:
    """Return until when to gather, from the times of the first and the last event so far."""
    return min(last + quiet, first + max_burst)


def gather(
    reasons: Set[Reason],
    more: Callable[[float], Set[Reason]],
    clock: Callable[[], float],
    quiet: float = QUIET,
    max_burst: float = MAX_BURST,
) -> frozenset[Reason]:
    """Return the reasons of the whole burst that has just begun.

    `more` waits so many seconds at most, and returns what came, which may be nothing before they are over. A stop is
    returned at once.
    """
    found = set(reasons)
    first = last = clock()
    while Reason.STOP not in found:
        left = burst_deadline(first, last, quiet, max_burst) - clock()
        if left <= 0:
            break
        came = more(left)
        if came:
            found |= came
            last = clock()
    return frozenset(found)

"""Preemption without fair sharing: a small set that makes room, by a greedy search with fill-back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.preemption.candidates import find_candidates, still_valid
from zonewise_scheduler.queue.quota.preemption.values import Target, fill_back, restore

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.preemption.candidates import Candidates
    from zonewise_scheduler.queue.quota.preemption.values import Ask


def classical_targets(ask: Ask) -> tuple[Target, ...]:
    """Return who is to give way, none where that does not help (preemption.go classicalPreemptions).

    Candidates are taken out in their order until the workload fits; then those without whom it fits as well are put
    back, last first. With borrowing, candidates are fewer; without, the workload has to fit into nominal quota.
    """
    candidates = find_candidates(ask)
    for borrowing in _attempts(ask, candidates):
        if found := _attempt(ask, candidates, borrowing=borrowing):
            return tuple(found)
    return ()


def _attempts(ask: Ask, candidates: Candidates) -> tuple[bool, ...]:
    """Return with or without borrowing, in the order of the attempts."""
    forbidden = ask.queue.spec.preemption.borrow == "Never"
    if not candidates.others or (forbidden and not _below_nominal(ask)):
        return (True,)
    return (False, True) if forbidden and not candidates.nearer else (True, False)


def _below_nominal(ask: Ask) -> bool:
    queue = ask.queue
    return all(queue.subtree.get(key, 0) > queue.usage.get(key, 0) for key in ask.contested)


def _attempt(ask: Ask, candidates: Candidates, *, borrowing: bool) -> list[Target]:
    found: list[Target] = []
    for one in candidates.ordered:
        if not still_valid(ask, one, borrowing=borrowing):
            continue
        ask.snapshot.remove(one.workload)
        found.append(Target(one.workload, one.kind.reason))
        if ask.fits(borrowing=borrowing):
            found = fill_back(ask, found, borrowing=borrowing)
            restore(ask, found)
            return found
    restore(ask, found)
    return []

"""Preemption with fair sharing: until the workload fits, from whoever has the largest share (KEP-1714).

A queue that stays within its nominal quota takes that back from anyone. Otherwise a workload of another queue may be
preempted where the preemptor's share, with the new workload, is not above the other's: by LessThanOrEqualToFinalShare,
what the other has left without the preempted workload (S2-a); by LessThanInitialShare, what it has now (S2-b), which is
tried for those that the first strategy has left, once per queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.model.workload import DEFAULTS
from zonewise_scheduler.queue.quota.preemption.fair_order import FairOrder
from zonewise_scheduler.queue.quota.preemption.order import in_order, preemptible
from zonewise_scheduler.queue.quota.preemption.values import Target, fill_back, restore
from zonewise_scheduler.queue.quota.share import share

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.workload import Strategy, Workload
    from zonewise_scheduler.queue.quota.preemption.values import Ask, Reason
    from zonewise_scheduler.queue.quota.tree.node import QueueNode


def fair_targets(ask: Ask) -> tuple[Target, ...]:
    """Return who is to give way, none where that does not help (preemption.go fairPreemptions)."""
    candidates = _candidates(ask)
    if not candidates:
        return ()
    search = _Search(ask)
    ask.queue.add_usage(ask.usage)  # shares are those with the new workload
    first, *more = ask.settings.strategies or DEFAULTS.strategies
    fits = search.first(candidates, first) or (bool(more) and search.second())
    ask.queue.remove_usage(ask.usage)
    found = fill_back(ask, search.found, borrowing=True) if fits else []
    restore(ask, found if fits else search.found)
    return tuple(found)


class _Search:
    """The targets found so far, which are out of the snapshot, and the candidates left for the second strategy."""

    def __init__(self, ask: Ask) -> None:
        self.found: list[Target] = []
        self._ask = ask
        self._left: list[Workload] = []

    def first(self, candidates: list[Workload], strategy: Strategy) -> bool:
        """Take by the first strategy; tell whether the workload fits then."""
        order = FairOrder(self._ask.queue, candidates)
        within = self._ask.queue.within_nominal(self._ask.contested)
        for queue in order.queues():
            if queue is self._ask.queue:
                fits = self._take(order.pop(queue), "InClusterQueue")
            elif within:
                fits = self._take(order.pop(queue), "InCohortReclamation")
            else:
                fits = self._by_strategy(order, queue, strategy)
            if fits:
                return True
        return False

    def second(self) -> bool:
        """Take by LessThanInitialShare; tell whether the workload fits then."""
        order = FairOrder(self._ask.queue, self._left)
        for queue in order.queues():
            mine, theirs = order.sides(queue)
            less = share(mine).order < share(theirs).order
            candidate = order.pop(queue)
            if less and self._take(candidate, "InCohortFairSharing"):
                return True
            order.drop(queue)
        return False

    def _by_strategy(self, order: FairOrder, queue: QueueNode, strategy: Strategy) -> bool:
        """Take the first candidate of a queue that the strategy allows; the others are left."""
        mine, theirs = order.sides(queue)
        share_of_mine, share_of_theirs = share(mine).order, share(theirs).order
        while order.has(queue):
            candidate = order.pop(queue)
            if strategy == "LessThanInitialShare":
                allowed = share_of_mine < share_of_theirs
            else:
                queue.remove_usage(candidate.usage)
                allowed = share_of_mine <= share(theirs).order
                queue.add_usage(candidate.usage)
            if allowed:
                return self._take(candidate, "InCohortFairSharing")
            self._left.append(candidate)
        return False

    def _take(self, candidate: Workload, reason: Reason) -> bool:
        """Take a workload; tell whether the new one fits then."""
        ask = self._ask
        ask.snapshot.remove(candidate)
        self.found.append(Target(candidate, reason))
        ask.queue.remove_usage(ask.usage)
        fits = ask.fits(borrowing=True)
        ask.queue.add_usage(ask.usage)
        return fits


def _candidates(ask: Ask) -> list[Workload]:
    """Return those of the queue, and of the borrowing queues of its tree, in their order (preemption.go)."""
    found = preemptible(ask, ask.queue)
    root = ask.queue.root
    if root is not None and ask.queue.spec.preemption.reclaim != "Never":
        for queue in root.all_queues():
            if queue is not ask.queue and not queue.within_nominal(ask.contested):
                found += preemptible(ask, queue)
    return in_order(found, ask.queue.name, ask.snapshot.usage_of_local_queues)

"""From which queue a fair preemption takes next (pkg/scheduler/preemption/fairsharing/ordering.go).

From the root down, to the child with the largest dominant resource share that borrows and has candidates; of a cohort
and a queue with equal shares, the cohort. What does not borrow is passed over, but for the preemptor's own queue and
the cohorts above it: below these there may be an imbalance of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.preemption.order import compare
from zonewise_scheduler.queue.quota.share import SMALLEST, share

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.share import Share
    from zonewise_scheduler.queue.quota.tree.node import CohortNode, Node, QueueNode


class FairOrder:
    """The queues to take from. Between two of them, pop() or drop() must be called for the first."""

    def __init__(self, preemptor: QueueNode, candidates: Iterable[Workload]) -> None:
        """Take the candidates in the order of in_order()."""
        self._preemptor = preemptor
        self._above = list(preemptor.ancestors())
        self._waiting: dict[str, list[Workload]] = {}
        for one in candidates:
            if one.admission is not None:
                self._waiting.setdefault(one.admission.cluster_queue, []).append(one)
        for found in self._waiting.values():
            found.reverse()  # so that the first can be popped
        self._pruned: set[Node] = set()

    def queues(self) -> Iterator[QueueNode]:
        """Yield the queues; each as often as its share is still the largest."""
        root = self._preemptor.root
        if root is None:
            while self.has(self._preemptor) and self._preemptor not in self._pruned:
                yield self._preemptor
            return
        while root not in self._pruned:
            queue = self._next(root)
            if queue is not None:
                yield queue

    def has(self, queue: QueueNode) -> bool:
        """Tell whether a queue has candidates left."""
        return bool(self._waiting.get(queue.name))

    def pop(self, queue: QueueNode) -> Workload:
        """Take the first candidate of a queue."""
        return self._waiting[queue.name].pop()

    def drop(self, queue: QueueNode) -> None:
        """Consider a queue no more."""
        self._pruned.add(queue)

    def sides(self, queue: QueueNode) -> tuple[Node, Node]:
        """Return the nodes just below the lowest cohort above both: the preemptor's and the queue's."""
        target: Node = queue
        while target.parent is not None and target.parent not in self._above:
            target = target.parent
        preemptor: Node = self._preemptor
        while preemptor.parent is not None and preemptor.parent is not target.parent:
            preemptor = preemptor.parent
        return preemptor, target

    def _next(self, cohort: CohortNode) -> QueueNode | None:
        """Return the next queue below a cohort; None where something was pruned instead."""
        queue, largest = self._largest_queue(cohort)
        child, larger = self._largest_cohort(cohort)
        if child is not None and larger.order >= largest.order:
            return self._next(child)
        if queue is None:
            self._pruned.add(cohort)
        return queue

    def _largest_queue(self, cohort: CohortNode) -> tuple[QueueNode | None, Share]:
        best, largest = None, SMALLEST
        for queue in cohort.queues:
            if queue in self._pruned:
                continue
            own = share(queue)
            if not self.has(queue) or (not own.borrowed and queue is not self._preemptor):
                self._pruned.add(queue)
            elif own.order > largest.order or (best is not None and self._ties(queue, best, own, largest)):
                best, largest = queue, own
        return best, largest

    def _ties(self, queue: QueueNode, best: QueueNode, own: Share, largest: Share) -> bool:
        """Tell whether a queue with an equal share has the candidate that goes first."""
        firsts = self._waiting[queue.name][-1], self._waiting[best.name][-1]
        return own.order == largest.order and compare(*firsts, self._preemptor.name, {}) < 0

    def _largest_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, Share]:
        best, largest = None, SMALLEST
        for child in cohort.cohorts:
            if child in self._pruned:
                continue
            own = share(child)
            if not own.borrowed and child not in self._above:
                self._pruned.add(child)
            elif own.order >= largest.order:
                best, largest = child, own
        return best, largest

"""The pending workloads of one ClusterQueue, including which have waited long enough for a reservation."""

from __future__ import annotations

from collections import deque
from copy import copy
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import MAX_POSTPONED
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload

_QueueOrder = tuple[int, float, str, str]
"""Descending priority, timestamp, UID, key."""
MIN_AGING = 256
"""Number of entries by waiting time of which none is dropped."""


class PendingQueue:
    """Kueue's heap, plus a separate order by waiting time."""

    def __init__(self, spec: ClusterQueue, policy: BackfillPolicy, settings: QuotaSettings) -> None:
        spec = spec if policy.overtaking else spec._replace(queueing_strategy="StrictFIFO")
        self.heap = PendingWorkloads(
            spec, requeue_from_eviction=settings.requeue_from_eviction, backfill_key=policy.backfill_key
        )
        self._policy = policy
        self._requeue_from_eviction = settings.requeue_from_eviction
        self._aging: list[tuple[float, _QueueOrder]] = []
        """Heap of the workloads that have not waited long enough, by the time at which they will have; some are
        stale."""
        self._max_aging = MIN_AGING
        """Number of entries in that heap at which stale ones are dropped."""
        self._aged: list[_QueueOrder] = []
        """Heap of the workloads that have waited long enough; some are stale."""
        self._without_start: deque[_QueueOrder] = deque()
        """The workloads that were due and for which no start was found; some are stale."""
        self.postponed: frozenset[str] = frozenset()
        """Keys of the workloads that the last such pass postponed: their starts were too far away to be reserved."""

    def copy(self, policy: BackfillPolicy) -> PendingQueue:
        """Return an independent copy with a policy of another depth."""
        other = copy(self)
        other._policy = policy
        other.heap = self.heap.copy()
        other._aging, other._aged = list(self._aging), list(self._aged)
        other._without_start = self._without_start.copy()
        return other

    @property
    def strict(self) -> bool:
        """Whether no workload may start before the head."""
        return self.heap.spec.queueing_strategy == "StrictFIFO"

    @property
    def _depth(self) -> int:
        """Maximum number of reservations; in a strict queue, no workload behind a reserved one may become the head."""
        return min(self._policy.depth, 1) if self.strict else self._policy.depth

    def push_or_update(self, workload: Workload, now: float) -> None:
        """Add a workload, or replace its state; it is inadmissible before its begin time."""
        self.heap.push_or_update(workload, now)
        self._age(workload)

    def drop_stale(self) -> None:
        """Drop the stale entries of workloads that have not waited long enough, if there are many.

        Most workloads start before they have waited for hours or days. Call it between two passes: during a cycle, the
        heap lacks the heads.
        """
        if len(self._aging) >= self._max_aging:
            self._aging = [entry for entry in set(self._aging) if self._is_current(entry[1])]
            heapify(self._aging)
            self._max_aging = max(MIN_AGING, 2 * len(self._aging))

    def age_again(self, namespaces: Container[str]) -> None:
        """Let the workloads of these namespaces become due again once they have waited long enough."""
        for workload in self.heap.workloads():
            if workload.namespace in namespaces:
                self._age(workload)

    def _age(self, workload: Workload) -> None:
        if self._policy.reserves:
            order = self._order(workload)
            heappush(self._aging, (order[1] + self._policy.reserve_age(workload.walltime), order))

    def remove_due(self, keys: Container[str]) -> None:
        """Remove workloads from the front of those that have waited long enough, as long as they are among these."""
        while self._aged and self._aged[0][-1] in keys:
            heappop(self._aged)

    def make_due(self, workload: Workload) -> None:
        """Make a workload due again that was due and has no reservation."""
        heappush(self._aged, self._order(workload))

    def keep_without_start(self, workload: Workload) -> None:
        """Keep a workload that was due and for which no start was found; it is not due until it is retried."""
        self._without_start.append(self._order(workload))

    @property
    def has_without_start(self) -> bool:
        """Whether there may be a workload that was due and for which no start was found."""
        return bool(self._without_start)

    def retry_without_start(self) -> bool:
        """Make up to MAX_POSTPONED of the workloads due again for which no start was found; return whether any is.

        Each call continues with the workloads that have waited longest for a retry.
        """
        count = min(MAX_POSTPONED, len(self._without_start))
        for _ in range(count):
            heappush(self._aged, self._without_start.popleft())
        return count > 0

    def next_due(
        self,
        now: float,
        reservations: Iterable[Reservation],
        tries: Mapping[str, int],
        admissions: int,
        *,
        may_reserve: bool = True,
    ) -> str:
        """Return the key of the due workload, which precedes the head of the heap; "" if there is none.

        A workload whose reserved start has come precedes one that has waited long enough for a reservation. A reserved
        workload is due again after an admission. `reservations`: those of this queue. `tries`: number of admissions in
        this pass when each workload was last due, by key. `admissions`: their number now. `may_reserve`: if False, only
        reserved workloads are due.
        """
        reserved: set[str] = set()
        for reservation in reservations:
            key = reservation.workload.key
            if reservation.start <= now and (key not in tries or tries[key] < admissions):
                return key
            if reservation.head.workload.begin_at <= now:  # advance reservations do not count in the depth
                reserved.add(key)
        if not may_reserve or not self._policy.reserves or len(reserved) >= self._depth:
            return ""
        while self._aging and self._aging[0][0] <= now:
            heappush(self._aged, heappop(self._aging)[1])
        while self._aged:
            key = self._aged[0][-1]
            if self._is_current(self._aged[0]) and key not in reserved and key not in tries:
                return "" if self.strict and self._has_startless_before(self._aged[0]) else key
            heappop(self._aged)
        return ""

    def _has_startless_before(self, order: _QueueOrder) -> bool:
        """Return whether no start was found for a workload that precedes this one."""
        return any(earlier < order and self._is_current(earlier) for earlier in self._without_start)

    def _is_current(self, order: _QueueOrder) -> bool:
        """Return whether an entry is current: its workload is pending and still has this place in the order."""
        workload = self.heap.get(order[-1])
        return workload is not None and self._order(workload) == order

    def _order(self, workload: Workload) -> _QueueOrder:
        timestamp = workload.queue_order_timestamp(requeue_from_eviction=self._requeue_from_eviction)
        return -workload.priority, timestamp, workload.uid, workload.key

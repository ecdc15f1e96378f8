"""One ClusterQueue's line: who waits in it, and whose turn it is by how long they have waited."""

from __future__ import annotations

from copy import copy
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload

_Place = tuple[int, float, str, str]
"""In the order of the queue; the last is the key."""


class PendingQueue:
    """Beside Pending's order there is that of those who have waited long enough to be promised a start."""

    def __init__(self, spec: ClusterQueue, rules: BackfillPolicy, settings: QuotaSettings) -> None:
        strict = spec if rules.overtaking else spec._replace(queueing_strategy="StrictFIFO")
        self.heap = PendingWorkloads(
            strict, requeue_from_eviction=settings.requeue_from_eviction, shortest_first=rules.shortest_first
        )
        self._rules = rules
        self._from_timeout = settings.requeue_from_eviction
        self._coming: list[tuple[float, _Place]] = []
        """A heap of those who will have waited long enough, by when; with some left over of those that are gone."""
        self._aged: list[_Place] = []
        """A heap of those who have, with some left over."""

    def copy(self, rules: BackfillPolicy) -> PendingQueue:
        """Return another that changes on its own, under rules of another depth."""
        other = copy(self)
        other._rules = rules
        other.heap = self.heap.copy()
        other._coming, other._aged = list(self._coming), list(self._aged)
        return other

    @property
    def strict(self) -> bool:
        """Whether nobody may overtake the first."""
        return self.heap.spec.queueing_strategy == "StrictFIFO"

    def push_or_update(self, workload: Workload) -> None:
        """Let a workload wait."""
        self.heap.push_or_update(workload)
        if self._rules.reserves:
            since = workload.queue_order_timestamp(requeue_from_eviction=self._from_timeout)
            place = (-workload.priority, since, workload.uid, workload.key)
            heappush(self._coming, (since + self._rules.reserve_after, place))

    def next_due(self, now: float, reservations: Iterable[Reservation], tried: Mapping[str, int], progress: int) -> str:
        """Return the key of the one whose turn it is by time, whoever is first in Pending; "" where there is none.

        `promises`: of this queue; `tried`: keys of those that have been looked at, with how much had happened by then;
        `news`: how much has happened. Who was promised a start by now is looked at again when something has.
        """
        promised = {one.workload.key: one.start for one in reservations}
        for key, start in promised.items():
            if start <= now and tried.get(key, -1) < progress:
                return key
        if not self._rules.reserves or len(promised) >= self._rules.depth:
            return ""
        while self._coming and self._coming[0][0] <= now:
            heappush(self._aged, heappop(self._coming)[1])
        while self._aged:
            key = self._aged[0][-1]
            if key in self.heap and key not in promised and key not in tried:
                return key
            heappop(self._aged)
        return ""

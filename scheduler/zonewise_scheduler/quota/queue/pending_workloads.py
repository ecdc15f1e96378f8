"""The pending workloads of a ClusterQueue, in their order (pkg/cache/queue/cluster_queue.go, pending_workloads.go).

The sticky preemptor comes first: the workload that waits for its victims to end, so that no other uses what they free
(BestEffortFIFO only; in StrictFIFO, it is the head anyway). If admission follows usage, the workloads of the LocalQueue
with the least usage come next. The remaining order is by priority, time in the queue and UID.

A pending workload is active or inadmissible; inadmissible ones are skipped. The state of a head after its decision:

| strategy | requeue reason | state |
|---|---|---|
| any | any, if flavors are left to try | active |
| StrictFIFO | any but NamespaceMismatch | active |
| BestEffortFIFO | FailedAfterNomination, PendingPreemption | active |
| BestEffortFIFO | NoFit, NoCandidates | inadmissible, with all workloads of its shape |
| BestEffortFIFO | Reserved | inadmissible, with workloads of its shape whose walltime is no shorter |
| any | any other | inadmissible, only this workload |

queue_inadmissible_workloads() makes all of them active again, except those of namespaces that the queue does not
select. A queue and its copies may belong to different threads (shape_table.py).
"""

from __future__ import annotations

from copy import copy
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT
from zonewise_scheduler.quota.queue.rank_order import QueuedRank, RankOrder
from zonewise_scheduler.quota.queue.shape_table import ShapeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason, HeadroomBound, ShapeBound
    from zonewise_scheduler.quota.queue.shape_groups import PendingEntry, Rank, ShapeGroup

_REQUEUED_ACTIVE = {"FailedAfterNomination", "PendingPreemption"}
_REQUEUED_INADMISSIBLE = {"NoFit", "NoCandidates", "Reserved"}


def _in_order_of_time(walltime: float, timestamp: float) -> float:  # noqa: ARG001 -- as BackfillPolicy.backfill_key
    return timestamp


def _selects_all(namespace: str) -> bool:  # noqa: ARG001 -- as queue_inadmissible_workloads() calls it
    return True


class PendingWorkloads:
    """The pending workloads of one ClusterQueue."""

    def __init__(
        self,
        spec: ClusterQueue,
        *,
        requeue_from_eviction: bool = True,
        backfill_key: Callable[[float, float], float] = _in_order_of_time,
    ) -> None:
        """Create an empty queue, by default with Kueue's order.

        `backfill_key`: sort key that precedes the time within a priority, computed from the walltime and that time, in
        seconds.
        """
        self.spec = spec
        self._requeue_from_eviction = requeue_from_eviction
        self._backfill_key = backfill_key
        self._table = ShapeTable()
        """All workloads except those that are individually inadmissible."""
        self._inadmissible_alone: dict[str, Workload] = {}
        """Workloads that are inadmissible without the others of their shape, by key."""
        self._last_assignments: dict[str, tuple[AssignmentClusterQueueState, object]] = {}
        """The last flavor scan by key, with the generation at that time."""
        self._unfinished_scans: set[str] = set()
        """Keys of the workloads whose last flavor scan has not tried all flavors."""
        self._generation = object()
        """Token that is replaced each time inadmissible workloads are made active."""
        self._sticky_preemptor = ""
        self._headroom: HeadroomBound | None = None
        self._bounds: dict[int, ShapeBound] = {}
        """The bounds of shapes within that headroom, by shape number."""
        self._order: RankOrder | None = None
        """The order of all workloads; None: it was not read since many changes."""

    def copy(self) -> PendingWorkloads:
        """Return an independent copy quickly; shared parts are copied only before they change."""
        pending = copy(self)
        pending._table = self._table.copy()
        pending._inadmissible_alone = dict(self._inadmissible_alone)
        pending._last_assignments = dict(self._last_assignments)
        pending._unfinished_scans = set(self._unfinished_scans)
        pending._headroom, pending._bounds = None, {}
        pending._order = None
        return pending

    def __len__(self) -> int:
        return len(self._table.entries) + len(self._inadmissible_alone)

    def __contains__(self, key: str) -> bool:
        return key in self._table.entries or key in self._inadmissible_alone

    @property
    def has_shapes(self) -> bool:
        """Whether it has workloads, or shapes of former ones that may still be inadmissible."""
        return self._table.has_shapes

    def get(self, key: str) -> Workload | None:
        """Return a pending workload; None if there is none with this key."""
        entry = self._table.entries.get(key)
        return self._inadmissible_alone.get(key) if entry is None else entry.workload

    def workloads(self) -> Iterator[Workload]:
        """Yield all workloads, active and inadmissible, in any order."""
        yield from (entry.workload for entry in self._table.entries.values())
        yield from self._inadmissible_alone.values()

    @property
    def active(self) -> list[str]:
        """The keys of the active workloads."""
        return [key for key, entry in self._table.entries.items() if not self._table.is_inadmissible(entry)]

    @property
    def inadmissible(self) -> list[str]:
        """The keys of the inadmissible workloads."""
        by_group = (key for key, entry in self._table.entries.items() if self._table.is_inadmissible(entry))
        return [*self._inadmissible_alone, *by_group]

    def sorted_keys(self, local_queue_usage: Mapping[str, float]) -> Iterator[str]:
        """Yield the keys of all workloads, active and inadmissible, in order. The queue must not change meanwhile."""
        sticky = self._sticky_preemptor if self._sticky_preemptor in self else ""
        if sticky:
            yield sticky
        yield from (key for key in self._read_order().keys(local_queue_usage) if key != sticky)

    def position(self, key: str, local_queue_usage: Mapping[str, float]) -> int:
        """Return the position of a workload in that order; the first has 1. Raises KeyError."""
        count = self._count_before(key, local_queue_usage)
        sticky = self._sticky_preemptor
        if key == sticky or sticky not in self:
            return 1 if key == sticky else count + 1
        return count + 1 + (self._count_before(sticky, local_queue_usage) >= count)

    def _count_before(self, key: str, local_queue_usage: Mapping[str, float]) -> int:
        """Return the number of workloads before one, apart from the sticky preemptor's precedence."""
        entry = self._table.entries.get(key)
        queued = self._queued(self._inadmissible_alone[key]) if entry is None else self._queued(*entry[:2])
        return self._read_order().count_before(queued, local_queue_usage)

    def _read_order(self) -> RankOrder:
        if self._order is None:
            alone = map(self._queued, self._inadmissible_alone.values())
            self._order = RankOrder([*(self._queued(*entry[:2]) for entry in self._table.entries.values()), *alone])
        return self._order

    def _queued(self, workload: Workload, rank: Rank | None = None) -> QueuedRank:
        return QueuedRank(self._local_queue(workload), rank or self._rank(workload))

    def _note_change(self, workload: Workload, rank: Rank | None = None, *, added: bool) -> None:
        if self._order is not None:
            self._order.note(self._queued(workload, rank), added=added)
            if self._order.is_outdated:
                self._order = None

    def push_or_update(self, workload: Workload, now: float = inf) -> None:
        """Add a workload or update its state; it is inadmissible if its shape is, or before its begin time."""
        key = workload.key
        previous = self._remove(key) or self._remove_alone(key)
        if previous is not None and previous.scheduling_shape != workload.scheduling_shape:
            self._forget_scan(key)
        if workload.begin_at > now:
            self._hold_alone(workload)
        else:
            self._insert(workload)

    def delete(self, key: str) -> None:
        """Forget a workload."""
        self._remove(key)
        self._remove_alone(key)
        self._forget_scan(key)
        if self._sticky_preemptor == key:
            self._sticky_preemptor = ""

    def pop(self, local_queue_usage: Mapping[str, float], cycle: int = 0, key: str = "") -> Head | None:
        """Remove and return the head, or the workload with `key`; None if there is none.

        `local_queue_usage`: usage by LocalQueue key, if admission follows usage; `cycle`: the number of the cycle. The
        flavor scan continues where the scan of the last cycle ended. It continues an older scan only if inadmissible
        workloads have not been made active since.
        """
        key = key or self.head_key(local_queue_usage)
        workload = self._remove(key) or self._remove_alone(key)
        if workload is None:
            return None
        last, generation = self._last_assignments.get(workload.key, (NO_LAST_ASSIGNMENT, self._generation))
        self._forget_scan(workload.key)
        current = cycle - last.scheduling_cycle <= 1 or generation is self._generation
        return Head(workload, self.spec.name, last if current else NO_LAST_ASSIGNMENT)

    def head_key(self, local_queue_usage: Mapping[str, float]) -> str:
        """Return the key of the head; "" if there is none."""
        sticky = self._table.entries.get(self._sticky_preemptor) if self._sticky_preemptor else None
        use_order = sticky is None or self._table.is_inadmissible(sticky)
        return self._table.first_active(local_queue_usage) if use_order else self._sticky_preemptor

    def inadmissible_reason(self, key: str, headroom: HeadroomBound, seconds: float = inf) -> BoundReason:
        """Return why a head is certainly inadmissible, like the last head of its shape; "" if that is not certain.

        `seconds`: how long it can delay reservations at most.
        """
        entry = self._table.entries.get(key)
        if entry is None:
            return ""  # it is inadmissible for a reason of its own
        workload, shape = entry.workload, self._table.shape(entry)
        if not shape.was_inadmissible or workload.failed_checks or key in self._unfinished_scans:
            return ""
        if shape.alternatives is None:
            shape = self._table.own(shape.number)
            shape.alternatives = headroom.alternatives(Head(workload, self.spec.name))
            if shape.alternatives is None:
                shape.was_inadmissible = False
                return ""
        walltime = min(workload.walltime, seconds)
        return headroom.inadmissible_reason(self._bound(shape, shape.alternatives, headroom), walltime)

    def lacks_only_quota(self, key: str) -> bool:
        """Return whether a workload would be nominated like any other one of its shape."""
        entry = self._table.entries.get(key)
        return entry is not None and not entry.workload.failed_checks and key not in self._unfinished_scans

    def _forget_scan(self, key: str) -> None:
        self._last_assignments.pop(key, None)
        self._unfinished_scans.discard(key)

    def alternatives(self, key: str) -> FlavorAlternatives:
        """Return the flavor alternatives of a workload; () unless inadmissible_reason() has computed them."""
        entry = self._table.entries.get(key)
        return () if entry is None else self._table.shape(entry).alternatives or ()

    def skip_rejected_heads(
        self,
        headroom: HeadroomBound,
        local_queue_usage: Mapping[str, float],
        due: Container[str],
        reserved: Container[str],
    ) -> tuple[str, int]:
        """Make heads that are certainly rejected inadmissible, up to the first other head.

        Returns the key of that head ("" if there is none) and the number of heads before it. `due`, `reserved`: the
        keys of workloads that may have to be nominated nevertheless.
        """
        count = 0
        while key := self.head_key(local_queue_usage):
            if key in due or key in reserved or not (reason := self.inadmissible_reason(key, headroom)):
                break
            self._table.mark_inadmissible(self._table.entries[key], reserved=reason == "Reserved")
            count += 1
        return key, count

    def mark_inadmissible(self, key: str, reason: BoundReason) -> None:
        """Make a workload and all others with the same reason inadmissible without a cycle."""
        self._table.mark_inadmissible(self._table.entries[key], reserved=reason == "Reserved")

    def reject(self, key: str) -> None:
        """Make a workload that lacks quota inadmissible, as requeue() does after its nomination."""
        entry = self._table.entries[key]
        self._table.own(entry.shape).was_inadmissible = True
        self._table.mark_inadmissible(entry, reserved=False)

    def requeue(self, decision: Decision) -> None:
        """Add back a workload that was not admitted (requeueIfNotPresent); see the table of the module."""
        workload, strict = decision.head.workload, self.spec.queueing_strategy == "StrictFIFO"
        reason = decision.requeue_reason
        self._last_assignments[workload.key] = decision.last_assignment, self._generation
        if decision.last_assignment.pending_flavors:
            self._unfinished_scans.add(workload.key)
        else:
            self._unfinished_scans.discard(workload.key)
        if reason == "PendingPreemption" and not strict:
            self._sticky_preemptor = workload.key
        active = reason != "NamespaceMismatch" if strict else reason in _REQUEUED_ACTIVE
        if active or workload.key in self._unfinished_scans:
            self._insert(workload)
        elif reason in _REQUEUED_INADMISSIBLE:
            entry = self._insert(workload)
            self._table.own(entry.shape).was_inadmissible = True
            self._table.mark_inadmissible(entry, reserved=reason == "Reserved")
        else:
            self._hold_alone(workload)

    def queue_inadmissible_workloads(
        self,
        headroom: HeadroomBound | None = None,
        selects: Callable[[str], bool] = _selects_all,
        now: float = inf,
    ) -> list[Rank]:
        """Make all inadmissible workloads active after a change, except those that `headroom` rejects.

        `selects`: returns whether the queue selects a namespace; the workloads of others remain inadmissible, as do
        those that begin after `now`. Returns the first rank of each shape with exceptions by `headroom`.
        """
        self._generation = object()
        alone, self._inadmissible_alone = self._inadmissible_alone, {}
        selected = {name: selects(name) for name in {workload.namespace for workload in alone.values()}}
        for key, workload in alone.items():
            if selected[workload.namespace] and workload.begin_at <= now:
                self._note_change(workload, added=False)
                self._insert(workload)
            else:
                self._inadmissible_alone[key] = workload
        return self._table.activate(lambda shape: headroom is not None and self._is_rejected(shape, headroom))

    def count_before(self, key: str, ranks: Iterable[Rank]) -> int:
        """Return how many of the ranks come before that of a workload."""
        own = self._table.entries[key].rank
        return sum(rank < own for rank in ranks)

    def _is_rejected(self, shape: ShapeGroup, headroom: HeadroomBound) -> bool:
        """Return whether all inadmissible workloads of a shape would certainly be rejected again."""
        if not shape.was_inadmissible or shape.alternatives is None:
            return False
        walltime = 0.0
        if not shape.inadmissible:
            walltimes = [group.walltime for group in shape.by_walltime.values() if group.inadmissible]
            if not walltimes:
                return False
            walltime = min(walltimes)
        return bool(headroom.inadmissible_reason(self._bound(shape, shape.alternatives, headroom), walltime))

    def _bound(self, shape: ShapeGroup, alternatives: FlavorAlternatives, headroom: HeadroomBound) -> ShapeBound:
        """Return the bound of a shape with these alternatives, and keep it."""
        if self._headroom is not headroom:
            self._headroom, self._bounds = headroom, {}
        bound = self._bounds.get(shape.number)
        if bound is None:
            bound = headroom.shape_bound(self.spec.name, shape.priority, alternatives)
            self._bounds[shape.number] = bound
        return bound

    def _rank(self, workload: Workload) -> Rank:
        timestamp = workload.queue_order_timestamp(requeue_from_eviction=self._requeue_from_eviction)
        backfill_key = self._backfill_key(workload.walltime, timestamp)
        return -workload.priority, backfill_key, timestamp, workload.uid, workload.key

    def _insert(self, workload: Workload) -> PendingEntry:
        rank = self._rank(workload)
        self._note_change(workload, rank, added=True)
        return self._table.insert(workload, rank, self._local_queue(workload))

    def _local_queue(self, workload: Workload) -> str:
        """Return the key of a workload's LocalQueue, if admission follows usage; otherwise ""."""
        return workload.local_queue_key if self.spec.usage_based_admission else ""

    def _remove(self, key: str) -> Workload | None:
        entry = self._table.remove(key)
        if entry is None:
            return None
        self._note_change(entry.workload, entry.rank, added=False)
        return entry.workload

    def _hold_alone(self, workload: Workload) -> None:
        """Make a workload inadmissible for a reason of its own."""
        self._inadmissible_alone[workload.key] = workload
        self._note_change(workload, added=True)

    def _remove_alone(self, key: str) -> Workload | None:
        workload = self._inadmissible_alone.pop(key, None)
        if workload is not None:
            self._note_change(workload, added=False)
        return workload

"""The planner's state: everything that events change and that a scheduling pass uses.

The live controller, the simulator and a checkpoint share this one value. Functions operate on it:

    events.py            applies events of queues, nodes and workloads; decides nothing
    scheduling_pass.py   decides which workloads start and stop
    sample_paths.py      simulates a copy
    explain.py           explains why a workload waits
    checkpoint.py        writes and restores what a restart would lose

Times are seconds of any one clock.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH
from zonewise_scheduler.backfill.reservations.cohort_index import CohortIndex
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.reservations.timeline import Timeline
from zonewise_scheduler.backfill.state.admission_fair_sharing import AdmissionFairSharing
from zonewise_scheduler.backfill.state.begin_times import BeginTimes
from zonewise_scheduler.backfill.state.pending_queue import PendingQueue
from zonewise_scheduler.backfill.state.queue_router import (
    InadmissibleWorkload,
    QueueConfiguration,
    QueueRouter,
    with_required_checks,
)
from zonewise_scheduler.backfill.state.running_workloads import RunningWorkloads
from zonewise_scheduler.backfill.types import StopOrder
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.reservations.timeline import RunningWorkload
    from zonewise_scheduler.backfill.types import Reservation, StopReason
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import LocalQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

NO_CONFIGURATION = QueueConfiguration(())
MIN_RETRY_PAUSE = 1.0
"""Minimum time in seconds between a pass and one that only retries workloads for which no start was found."""


@dataclass(eq=False, slots=True)
class PlannerState:
    """Queues, nodes, workloads and reservations."""

    snapshot: Snapshot
    policy: BackfillPolicy
    settings: QuotaSettings
    pending_queues: dict[str, PendingQueue]
    """Pending queues by ClusterQueue name."""
    router: QueueRouter
    cohort_index: CohortIndex
    fair_sharing: AdmissionFairSharing | None = None
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The ClusterQueue of each workload in a pending queue, by key."""
    inadmissible: dict[str, InadmissibleWorkload] = field(default_factory=dict[str, InadmissibleWorkload])
    """Workloads in no pending queue, by key."""
    running_workloads: RunningWorkloads = field(default_factory=RunningWorkloads)
    reservations: ReservationTable = field(default_factory=ReservationTable)
    active_queues: dict[str, None] = field(default_factory=dict[str, None])
    """Queues in which the next pass looks for a head; ordered."""
    freed_queues: set[str] = field(default_factory=set[str])
    """Queues that may use capacity freed since the last pass."""
    must_check_reservations: bool = False
    """Whether a change since the last pass may have made a reservation infeasible."""
    must_retry: bool = False
    """Whether a change since the last retry may have given a start to a workload for which none was found."""
    begin_times: BeginTimes = field(default_factory=BeginTimes)
    """The begin times of the pending workloads that begin after the last pass."""
    unreserved: dict[str, bool] = field(default_factory=dict[str, bool])
    """Workloads that should get an advance reservation, by key: whether no start was found since the last retry."""
    next_retry: float = 0.0
    """Earliest time of the next retry."""
    unreported_stops: list[StopOrder] = field(default_factory=list[StopOrder])
    """Stop orders that are not part of any Plan yet."""
    configuration: QueueConfiguration = NO_CONFIGURATION
    """Configuration as of the last reconfiguration."""
    removed_queues: set[str] = field(default_factory=set[str])
    """Queues that are no longer configured; they remain until their workloads have finished."""
    now: float = 0.0
    """The time of the last pass."""
    cycles: int = 0
    """Number of cycles that have begun."""
    assumed: set[str] | None = None
    """Keys of admitted workloads whose admissions have not been observed yet, so they are not preempted. None:
    admissions and preemptions take effect at once."""
    young: dict[str, float] = field(default_factory=dict[str, float])
    """Time until which each recently started workload is not preempted, by key in the order of the starts."""
    headroom: HeadroomBound | None = None
    """The headroom bound of the last pass; see pass_headroom()."""

    @property
    def running(self) -> Mapping[str, RunningWorkload]:
        """The workloads that have an admission, by key."""
        return self.running_workloads.by_key

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, str]] | None:
        """Labels by namespace; None: every queue accepts any namespace."""
        return self.configuration.namespaces

    @property
    def reservations_by_start(self) -> list[Reservation]:
        """The reservations, the earliest first."""
        return sorted(self.reservations.by_key.values(), key=lambda reservation: reservation.start)

    @property
    def wake_at(self) -> float:
        """Time of the next pass if no event comes first: at a reserved start, a retry, or the next sample of usage."""
        starts = (reservation.start for reservation in self.reservations.by_key.values())
        earliest = min((start for start in starts if start > self.now), default=inf)
        earliest = min(earliest, next(iter(self.young.values()), inf))
        earliest = min(earliest, self.begin_times.first)
        has_without_start = any(queue.has_without_start for queue in self.pending_queues.values())
        if self.must_retry and (self.unreserved or has_without_start):
            earliest = min(earliest, max(self.next_retry, self.now + MIN_RETRY_PAUSE))
        return earliest if self.fair_sharing is None else min(earliest, self.fair_sharing.next_sample_at)

    def latest_start(self, workload: Workload) -> float:
        """Return the latest start, in seconds, that may be reserved now for a pending workload."""
        since = workload.queue_order_timestamp(requeue_from_eviction=self.settings.requeue_from_eviction)
        return self.policy.latest_start(self.now, since)

    def pending_workload(self, key: str) -> Workload | None:
        """Return a workload in a pending queue; None if it is in none."""
        queue = self.pending.get(key)
        return None if queue is None else self.pending_queues[queue].heap.get(key)

    def timeline(self, reservations: Iterable[Reservation]) -> Timeline:
        """Return the timeline from the last pass on, with these reservations."""
        return Timeline(self.now, self.snapshot.copy(), self.running_workloads, reservations)

    def copy(self, depth: int = UNLIMITED_DEPTH) -> PlannerState:
        """Return an independent copy; `depth`: maximum number of reservations of each queue to include."""
        other = copy(self)
        other.policy = self.policy._replace(depth=min(self.policy.depth, depth))
        other.snapshot = self.snapshot.copy()
        other.snapshot.preemption_graph = self.snapshot.preemption_graph.copy()
        other.reservations = ReservationTable(self.reservations.first_per_queue(depth))
        other.pending_queues = {name: queue.copy(other.policy) for name, queue in self.pending_queues.items()}
        other.pending, other.inadmissible = dict(self.pending), dict(self.inadmissible)
        other.running_workloads = self.running_workloads.copy()
        other.active_queues, other.freed_queues = dict(self.active_queues), set(self.freed_queues)
        other.young = dict(self.young)
        other.begin_times, other.unreserved = self.begin_times.copy(), dict(self.unreserved)
        other.assumed = None if self.assumed is None else set(self.assumed)
        other.unreported_stops, other.removed_queues = list(self.unreported_stops), set(self.removed_queues)
        other.fair_sharing = None if self.fair_sharing is None else self.fair_sharing.copy()
        other.headroom = None
        return other


def new_state(
    snapshot: Snapshot,
    policy: BackfillPolicy,
    settings: QuotaSettings = DEFAULT_SETTINGS,
    local_queues: Iterable[LocalQueue] | None = None,
) -> PlannerState:
    """Return a state in which the workloads of the snapshot run; it owns the snapshot from now on.

    `local_queues`: if None, workloads are submitted to ClusterQueues regardless of the LocalQueues they name.
    """
    sharing = settings.admission_fair_sharing
    state = PlannerState(
        snapshot,
        policy,
        settings,
        {name: PendingQueue(node.spec, policy, settings) for name, node in snapshot.cluster_queues.items()},
        QueueRouter(local_queues),
        CohortIndex(snapshot),
        None if sharing is None else AdmissionFairSharing(sharing),
    )
    for name, workloads in snapshot.workloads_by_queue.items():
        spec = snapshot.cluster_queues[name].spec
        for key, workload in workloads.items():
            workloads[key] = with_required_checks(state.router.with_default_walltime(workload, spec), spec)
            state.running_workloads.add(workloads[key])
            review_running(state, workloads[key])
    if state.fair_sharing is not None:
        state.fair_sharing.update_snapshot(snapshot, state.router)
    return state


def pass_headroom(state: PlannerState) -> HeadroomBound:
    """Return the headroom bound of a pass, alongside the reservations if the policy makes any.

    It is kept for later passes, since the same shapes recur.
    """
    future = state.reservations if state.policy.reserves else None
    if state.headroom is None or not state.headroom.applies_to(state.snapshot, future):
        state.headroom = HeadroomBound(state.snapshot, state.settings, future)
    state.headroom.invalidate()
    return state.headroom


# --- changes that events and passes share


def release_reservation(state: PlannerState, key: str) -> None:
    """Release the reservation of a pending workload, if it has one; other reservations may move forward."""
    if key in state.reservations.by_key:
        queue = state.reservations.by_key[key].queue
        state.freed_queues.update(state.cohort_index.queues_sharing_quota(queue))
        state.reservations.release(key)
        state.must_retry = True


def note_begin_time(state: PlannerState, workload: Workload) -> None:
    """Record when a pending workload begins, and whether the next pass is to reserve a start for it in advance."""
    key = workload.key
    state.begin_times.discard(key)
    state.unreserved.pop(key, None)
    if workload.begin_at <= state.now:
        return
    state.begin_times.add(key, workload.begin_at)
    queue = state.pending_queues[state.pending[key]]
    if queue.heap.spec.advance_reservations and state.policy.reserves and key not in state.reservations.by_key:
        state.unreserved[key] = False


def review_running(state: PlannerState, workload: Workload) -> None:
    """Stop a running workload that may not continue; record whether it still lacks a topology assignment."""
    reason = state.router.stop_reason(workload, state.snapshot.cluster_queue_of(workload).spec)
    state.running_workloads.track_placement(workload, state.snapshot.tas_snapshot)
    if reason is not None:
        stop(state, workload, reason)


def stop(state: PlannerState, workload: Workload, reason: StopReason) -> None:
    """Stop a running workload for a reason other than preemption."""
    if mark_stopping(state, workload, reason):
        state.unreported_stops.append(StopOrder(workload, reason))


def mark_stopping(state: PlannerState, workload: Workload, reason: str) -> bool:
    """Mark a running workload as stopping; return False if it was marked already."""
    if workload.key in state.running_workloads.stopping:
        return False
    stopping = state.running_workloads.mark_stopping(workload.key, Eviction(reason, state.now))
    state.snapshot.workloads_by_queue[state.snapshot.cluster_queue_of(workload).name][workload.key] = stopping
    return True

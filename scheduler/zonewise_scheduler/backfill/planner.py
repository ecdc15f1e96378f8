"""The planner: what waits and runs, and what to do next.

It is led event by event by the same verbs, live and on the virtual clock. A decision is cycles of the quota
(quota.cycle), one head of each ClusterQueue at a time, until nothing more can start: so all is decided that can be
decided, not one workload of a queue.

Time comes in at two places. Whose turn it is: in each queue first whoever is promised a start that has come, then
those that have waited long enough to be promised one, then the others by the rules (queue.time.rules). One of the
former that cannot start now is promised a start. And who may start: nobody who would delay a promise (promises).
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.admission_fair_sharing import AdmissionFairSharing
from zonewise_scheduler.backfill.cohort_index import CohortIndex
from zonewise_scheduler.backfill.pending_queue import PendingQueue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.queue_router import (
    InadmissibleWorkload,
    QueueConfiguration,
    QueueRouter,
    rebuild_snapshot,
    same_requirements,
    same_state,
    with_required_checks,
)
from zonewise_scheduler.backfill.reservation import ReservationTable
from zonewise_scheduler.backfill.running_workloads import RunningWorkloads
from zonewise_scheduler.backfill.scheduling_pass import SchedulingPass
from zonewise_scheduler.backfill.timeline import Timeline
from zonewise_scheduler.backfill.types import StopOrder
from zonewise_scheduler.quota.api.workload_types import DEFAULT_SETTINGS, Eviction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from zonewise_scheduler.backfill.timeline import RunningWorkload
    from zonewise_scheduler.backfill.types import Plan, Reservation, StopReason
    from zonewise_scheduler.quota.api.queue_types import LocalQueue
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings, Workload
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


class Planner:
    """Workloads in ClusterQueues; times are seconds of any one clock."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: BackfillPolicy,
        settings: QuotaSettings = DEFAULT_SETTINGS,
        local_queues: Iterable[LocalQueue] | None = None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Take the queues, and what runs in them since its admission; the snapshot is the planner's from now on.

        `local_queues` None: workloads are submitted to ClusterQueues, whatever LocalQueues they name; `namespaces`:
        labels by name, None where they do not matter.
        """
        self.snapshot = snapshot
        self.settings = settings
        self.policy = policy
        self.reservations = ReservationTable(self, settings)
        self.pending_queues = {
            name: PendingQueue(node.spec, policy, settings) for name, node in snapshot.cluster_queues.items()
        }
        self.active_queues: dict[str, None] = {}
        """Queues in which something may have its turn; ordered."""
        self.namespaces = namespaces
        self.router = QueueRouter(local_queues)
        self.fair_sharing = (
            None if settings.admission_fair_sharing is None else AdmissionFairSharing(settings.admission_fair_sharing)
        )
        self._trees = CohortIndex(snapshot)
        self._where: dict[str, str] = {}
        """The queue of each workload that waits in a line."""
        self._aside: dict[str, InadmissibleWorkload] = {}
        self.running_workloads = RunningWorkloads()
        self._stops: list[StopOrder] = []
        """Of which nobody was told yet."""
        self._cycles = 0
        self._queues = QueueConfiguration(())
        """Of the last reset."""
        self._gone: set[str] = set()
        """Queues that are not there any more, but for those that run in them."""
        self._doubt = False
        """Whether there may be promises that cannot be kept any more."""
        self._now = 0.0
        """Of the last decision."""
        self._changed: set[str] = set()
        """Queues of trees in which something came free."""
        for name, running in snapshot.workloads_by_queue.items():
            spec = snapshot.cluster_queues[name].spec
            for key, one in running.items():
                running[key] = with_required_checks(self.router.with_default_walltime(one, spec), spec)
                self.running_workloads.add(running[key])
                self._mind(running[key])

    def copy(self, depth: int = UNLIMITED_DEPTH) -> Planner:
        """Return another that goes on from here on its own; `depth`: with no more reservations of a queue than so."""
        other = copy(self)
        other.policy = self.policy._replace(depth=min(self.policy.depth, depth))
        other.snapshot = self.snapshot.copy()
        other.snapshot.preemption_graph = self.snapshot.preemption_graph.copy()
        other.reservations = ReservationTable(other, self.settings)
        other.reservations.restore(self.reservations.first_per_queue(depth))
        other.pending_queues = {name: line.copy(other.policy) for name, line in self.pending_queues.items()}
        other.active_queues, other._where, other._aside = dict(self.active_queues), dict(self._where), dict(self._aside)
        other._stops = list(self._stops)
        other.running_workloads, other._gone, other._changed = (
            self.running_workloads.copy(),
            set(self._gone),
            set(self._changed),
        )
        other.fair_sharing = None if self.fair_sharing is None else self.fair_sharing.copy()
        return other

    # --- what happens

    def submit(self, workload: Workload, queue: str = "") -> None:
        """Let a workload wait, or take in its new state.

        It waits in the line of the ClusterQueue that its LocalQueue leads to, or where LocalQueues do not matter, of
        `queue`; or aside, where it may not (plan.entrance).
        """
        key = workload.key
        line = self.router.cluster_queue(workload, queue)
        why = self.router.inadmissible_message(workload, queue, self.pending_queues)
        if self._where.get(key, line) != line or (why and key in self._where):
            self.withdraw(key)
        self._aside.pop(key, None)
        if why:
            self._aside[key] = InadmissibleWorkload(workload, queue, why)
            return
        workload = self.router.with_default_walltime(workload, self.pending_queues[line].heap.spec)
        if (old := self.pending_queues[line].heap.get(key)) is not None:
            if same_state(old, workload):
                return
            if not same_requirements(old, workload):
                self.release_reservation(key)
            if old.priority != workload.priority:
                self._start_anew(key, line)
        self._where[key] = line
        self.pending_queues[line].push_or_update(workload)
        self.active_queues[line] = None

    def withdraw(self, key: str) -> None:
        """Forget a waiting workload; raise KeyError if it does not wait."""
        if self._aside.pop(key, None) is not None:
            return
        queue = self._where.pop(key)
        self.pending_queues[queue].heap.delete(key)
        self.release_reservation(key)
        self._start_anew(key, queue)

    def update(self, workload: Workload) -> None:
        """Take in the new state of a workload, whether it waits or runs; raise KeyError if it does neither.

        One that runs keeps the admission that it has here. It may need less (reclaimable pods), have another priority,
        be deactivated, have checks that have failed, or nodes that have, instead of which it gets others.
        """
        run = self.running_workloads.by_key.get(workload.key)
        if run is not None:
            own, was = (
                self.router.with_default_walltime(workload, self.snapshot.cluster_queue_of(run.workload).spec),
                run.workload,
            )
            own = replace(own, admission=was.admission, eviction=was.eviction or workload.eviction)
            if not same_state(own, was):
                self._exchange(own)
        else:
            aside = self._aside.get(workload.key)
            self.submit(workload, self._where[workload.key] if aside is None else aside.queue)

    def checks_passed(self, key: str, now: float) -> None:
        """Take note that a workload has passed its admission checks, and runs from now on; its latest end is known.

        Raises KeyError if it has no quota.
        """
        workload = self.running_workloads.by_key[key].workload
        if workload.admission is not None and workload.admission.pending_checks:
            admission = workload.admission._replace(pending_checks=(), admitted_at=now)
            self._exchange(replace(workload, admission=admission))

    def finish(self, key: str) -> None:
        """Take note that a running workload has ended, and all its pods are gone; raise KeyError if it does not run."""
        self._leave(key)
        self.snapshot.preemption_graph.forget(key)

    def evict(self, key: str, eviction: Eviction) -> None:
        """Take note that the pods of a running workload are gone; it waits again. Raises KeyError if it runs not."""
        workload = self._leave(key)
        queue = self.snapshot.cluster_queue_of(workload).name
        self.submit(replace(workload, admission=None, eviction=eviction, failed_checks=()), queue)

    def reconfigure(self, configuration: QueueConfiguration, placements: TopologySnapshot | None = None) -> None:
        """Take in other queues, cohorts, flavors or LocalQueues, or other nodes.

        What runs is counted on; who waits keeps his place, and his promise as far as it can be kept. `places`: of other
        nodes or topologies, with nothing in them; None: they are as they were.
        """
        waiting = [
            (one, queue) for key, queue in self._where.items() if (one := self.pending_queues[queue].heap.get(key))
        ]
        waiting += [(one.workload, one.queue) for one in self._aside.values()]
        running = [run.workload for run in self.running_workloads]
        self.snapshot, self._gone = rebuild_snapshot(self.snapshot, configuration, running, placements)
        self.namespaces, self.router = configuration.namespaces, QueueRouter(configuration.local_queues)
        self._queues, self._trees = configuration, CohortIndex(self.snapshot)
        specs = {name: node.spec for name, node in self.snapshot.cluster_queues.items() if name not in self._gone}
        self.pending_queues = {name: PendingQueue(spec, self.policy, self.settings) for name, spec in specs.items()}
        promised = {key: self._where[key] for key in self.reservations.by_key}
        self._where, self._aside, self.active_queues = {}, {}, {}
        for one, queue in waiting:
            self.submit(one, queue)
        for key, queue in promised.items():
            if self._where.get(key) != queue or queue in self.snapshot.inactive:
                self.reservations.release(key)
        for one in running:
            self._mind(one)
        if self.fair_sharing is not None:
            self.fair_sharing.update_snapshot(self.snapshot, self.router)
        self.nodes_changed()

    def nodes_changed(self) -> None:
        """Take note that there may be other nodes, or more or less room on them, in the same places."""
        self._changed.update(self.pending_queues)
        self._doubt = True

    # --- what is

    @property
    def running(self) -> Mapping[str, RunningWorkload]:
        """Those that have an admission, by key."""
        return self.running_workloads.by_key

    @property
    def stopping(self) -> Set[str]:
        """The keys of those that were told to stop, and run still."""
        return self.running_workloads.stopping

    @property
    def pending(self) -> Mapping[str, str]:
        """The queue of each workload that waits in a line, by key."""
        return self._where

    @property
    def inadmissible(self) -> Mapping[str, InadmissibleWorkload]:
        """Those that wait outside of all lines, by key."""
        return self._aside

    @property
    def reservations_by_start(self) -> list[Reservation]:
        """What is promised, by start."""
        return sorted(self.reservations.by_key.values(), key=lambda one: one.start)

    def timeline(self, reservations: Iterable[Reservation]) -> Timeline:
        """Return what will be, where these are promised."""
        return Timeline(self._now, self.snapshot.copy(), self.running_workloads, reservations)

    # --- what to do

    def schedule(self, now: float) -> Plan:
        """Decide all that can be decided now."""
        self._now = now
        for workload in self.running_workloads.extend_overrun(now):
            self._changed.update(self._trees.queues_affected_by(workload))
            self.reservations.invalidate()
        if not all(self.snapshot.workloads_by_queue[name] for name in self._gone):
            self.reconfigure(self._queues)
        if self._doubt:
            self._repair()
        if self.fair_sharing is not None and self.fair_sharing.sample(now, self.snapshot):
            self.fair_sharing.update_snapshot(self.snapshot, self.router)
            self.active_queues.update(
                (name, None) for name, line in self.pending_queues.items() if line.heap.spec.usage_based_admission
            )
        if self._changed:
            self._wake()
            self.reservations.bring_forward(now)
        for promise in self.reservations.by_key.values():
            if promise.start <= now:
                self.active_queues[promise.queue] = None
        return SchedulingPass(self, now).run()

    def next_cycle(self) -> int:
        """Return the number of the cycle that begins."""
        self._cycles += 1
        return self._cycles

    def record_admission(self, workload: Workload) -> None:
        """Take note that a workload has its admission; it is in the snapshot."""
        self._where.pop(workload.key, None)
        self.reservations.remove_started(workload.key)
        self.running_workloads.add(workload)
        if self.fair_sharing is not None and self.snapshot.cluster_queue_of(workload).spec.usage_based_admission:
            self.fair_sharing.add_entry_penalty(workload)
            self.fair_sharing.update_snapshot(self.snapshot, self.router, [workload.local_queue_key])

    def release_reservation(self, key: str) -> None:
        """Promise nothing to a waiting workload any more; others may come forward."""
        if key not in self.reservations.by_key:
            return
        self._changed.update(self._trees.queues_sharing_quota(self.reservations.by_key[key].queue))
        self.reservations.release(key)

    def record_placement(self, workload: Workload) -> None:
        """Take note that one that had its quota has its places; it is in the snapshot."""
        self.running_workloads.update(workload)
        self.reservations.invalidate()
        self._doubt = True

    def mark_stopping(self, workload: Workload, reason: str) -> bool:
        """Take note that one that runs is told to stop; tell whether that is new."""
        if workload.key in self.running_workloads.stopping:
            return False
        queue = self.snapshot.cluster_queue_of(workload).name
        self.snapshot.workloads_by_queue[queue][workload.key] = self.running_workloads.mark_stopping(
            workload.key, Eviction(reason, self._now)
        )
        return True

    def stop(self, workload: Workload, reason: StopReason) -> None:
        """Have one that runs stop, though nobody needs what it has."""
        if self.mark_stopping(workload, reason):
            self._stops.append(StopOrder(workload, reason))

    def drain_stops(self) -> tuple[StopOrder, ...]:
        """Return those that are to stop and are not gone yet, each once."""
        found, self._stops = self._stops, []
        return tuple(one for one in found if one.workload.key in self.running_workloads.stopping)

    @property
    def wake_at(self) -> float:
        """When to decide again, should nothing happen before: at a promised start, or the next sample of usage."""
        promised = min((one.start for one in self.reservations.by_key.values() if one.start > self._now), default=inf)
        return promised if self.fair_sharing is None else min(promised, self.fair_sharing.next_sample_at)

    def _start_anew(self, key: str, queue: str) -> None:
        """Forget whom a waiting workload has preempted, and who it; that may have kept others from preempting."""
        if self.snapshot.preemption_graph.forget(key):
            self._changed.update(self._trees.queues_sharing_quota(queue))

    def _leave(self, key: str) -> Workload:
        """Take out one that runs; return it."""
        workload = self.running_workloads.remove(key).workload
        self._changed.update(self._trees.queues_affected_by(workload))
        self.snapshot.remove_workload(workload)
        self.reservations.workload_ended(workload)
        return workload

    def _exchange(self, workload: Workload) -> None:
        """Take in the new state of one that runs."""
        old = self.running_workloads.by_key[workload.key].workload
        self._changed.update(self._trees.queues_affected_by(old))
        if old.priority != workload.priority:
            self.snapshot.preemption_graph.forget(workload.key)
        self.snapshot.remove_workload(old)
        self.snapshot.add_workload(workload)
        self.running_workloads.update(workload)
        self._mind(workload)
        self._doubt = True

    def _mind(self, workload: Workload) -> None:
        """Have one that runs stop where it may not go on, and be placed where it lacks places."""
        reason = self.router.stop_reason(workload, self.snapshot.cluster_queue_of(workload).spec)
        self.running_workloads.track_placement(workload, self.snapshot.tas_snapshot)
        if reason is not None:
            self.stop(workload, reason)

    def _repair(self) -> None:
        """Find other starts for those whose promises cannot be kept; who gets none has his turn again by time."""
        self._doubt = False
        self.reservations.invalidate()
        for promise in self.reservations.replace_infeasible() if self.reservations.by_key else ():
            line = self.pending_queues[promise.queue]
            if (workload := line.heap.get(promise.workload.key)) is not None:
                line.push_or_update(workload)
                self.active_queues[promise.queue] = None

    def _wake(self) -> None:
        for name in self.pending_queues:
            if name in self._changed:
                self.pending_queues[name].heap.queue_inadmissible_workloads()
                self.active_queues[name] = None
        self._changed.clear()

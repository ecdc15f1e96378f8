"""Workloads for the planner, and a virtual clock that drives it; times are in seconds."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.backfill.policies import extended_deadline
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, LocalQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan, Reservation

CPU = FlavorResource("all", "cpu")


class Submission(NamedTuple):
    """A workload to submit, and its true run time."""

    workload: Workload
    queue: str
    run: float


def queue(
    name: str, cpus: int, *, cohort: str = "", preemption: ClusterQueuePreemption | None = None, **fields: Any
) -> ClusterQueue:
    """Return a queue with a CPU quota in one flavor."""
    quota = resource_group(FlavorQuotas("all", (("cpu", ResourceQuota(cpus, **fields)),)))
    return ClusterQueue(name, (quota,), cohort, preemption=preemption or ClusterQueuePreemption())


def submission(
    name: str, cpus: int, run: float, *, at: float = 0, limit: float | None = None, queue: str = "q", priority: int = 0
) -> Submission:
    """Return a workload of one pod that requests CPUs; by default its walltime is its run time."""
    limit = run if limit is None else limit
    pods = (PodSet(pods=1, requests={"cpu": cpus}),)
    return Submission(Workload("", name, pods, name, priority=priority, created_at=at, walltime=limit), queue, run)


def make_workload(
    name: str, cpus: int, run: float = 10, *, at: float = 0, local: str = "", priority: int = 0
) -> Workload:
    """Return a namespaced workload with one pod that requests CPUs, and with a walltime."""
    found = submission(name, cpus, run, at=at, priority=priority).workload
    return replace(found, namespace="ns", queue_name=local)


def local(name: str, **fields: Any) -> LocalQueue:
    """Return a LocalQueue of the queue "q" unless another is given."""
    return LocalQueue("ns", name, fields.pop("leads", "q"), **fields)


def make_planner(
    queues: Sequence[ClusterQueue],
    policy: BackfillPolicy,
    local_queues: Sequence[LocalQueue] | None = None,
    **settings: Any,
) -> PlannerState:
    """Return the state of queues with no running workloads."""
    return new_state(Snapshot(queues), policy, DEFAULT_SETTINGS._replace(**settings), local_queues)


class Story:
    """The history of workloads."""

    def __init__(
        self, planner: PlannerState, *, lazy: bool = False, watch: Callable[[PlannerState, float], None] | None = None
    ) -> None:
        """`lazy`: an arrival that does not fit causes no pass, as in a pool. `watch` is called after each pass."""
        self.planner = planner
        self._watch = watch
        self._lazy = lazy
        self.starts: dict[str, float] = {}
        """Start of the last run of each workload."""
        self.reservations: dict[str, list[tuple[float, Reservation]]] = {}
        """The reservations of each pending workload, with the times at which they were made."""
        self.reserved_starts: list[tuple[str, list[float], float]] = []
        """Key, successive reserved starts, and start of each workload."""
        self.plans: list[tuple[float, Plan]] = []
        self.usage: list[tuple[float, dict[str, int]]] = []
        """CPUs used in each queue after each pass."""
        self._ends: list[tuple[float, int, str]] = []
        """Ordered by true end, then by start."""
        self._deadlines: dict[str, float] = {}
        """Deadlines of started workloads. As in a pool, each event extends those that have passed."""
        self._serial = 0

    def play(self, submissions: Iterable[Submission]) -> Story:
        """Submit and end all workloads. Arrivals precede early ends at the same time; begin times come last."""
        submissions = list(submissions)
        begins = sorted({submission.workload.begin_at for submission in submissions} - {0.0})
        arrivals = sorted(submissions, key=lambda submission: submission.workload.created_at)
        self._run_times = {submission.workload.key: submission.run for submission in arrivals}
        self._serials: dict[str, int] = {}
        while arrivals or self._ends or begins:
            at = min(arrivals[0].workload.created_at if arrivals else inf, self._ends[0][0] if self._ends else inf)
            if begins and begins[0] < at:
                self._settle(begins[0])
                self._schedule(begins.pop(0))
                continue
            self._settle(at)
            if arrivals and arrivals[0].workload.created_at == at:
                submission = arrivals.pop(0)
                events.submit(self.planner, submission.workload, submission.queue)
                if self._fits(submission) or not self._lazy:
                    self._schedule(at)
                continue
            _, serial, key = heappop(self._ends)
            if self._serials.get(key) == serial and key in self.planner.running:
                events.finish(self.planner, key)
            self._schedule(at)
        return self

    def _fits(self, submission: Submission) -> bool:
        available = self.planner.snapshot.cluster_queues[submission.queue].available(CPU)
        pod_sets = submission.workload.pod_sets
        return all(pod_set.requests["cpu"] * pod_set.pods <= available for pod_set in pod_sets)

    def _settle(self, now: float) -> None:
        """End the workloads whose deadline has come if they end exactly then; extend the other deadlines."""
        for key in [key for key, deadline in self._deadlines.items() if deadline <= now]:
            run = self.planner.running.get(key)
            if run is None:
                del self._deadlines[key]
                continue
            self._deadlines[key] = extended_deadline(self.starts[key], run.workload.max_duration, now)
            if self.starts[key] + self._run_times[key] <= now:
                events.finish(self.planner, key)

    def _schedule(self, now: float) -> None:
        while True:
            plan = schedule(self.planner, now)
            self.plans.append((now, plan))
            for workload in plan.admitted:
                self._serial += 1
                key = workload.key
                self.starts[key] = now
                reserved_starts = [reservation.start for _, reservation in self.reservations.pop(key, [])]
                self.reserved_starts.append((key, reserved_starts, now))
                self._serials[key] = self._serial
                self._deadlines[key] = now + workload.max_duration
                heappush(self._ends, (now + self._run_times[key], self._serial, key))
            for reservation in self.planner.reservations_by_start:
                reservations = self.reservations.setdefault(reservation.workload.key, [])
                if not reservations or reservations[-1][1].start != reservation.start:
                    reservations.append((now, reservation))
            for victim in plan.victims:
                events.evict(self.planner, victim.workload.key, Eviction("Preempted", now))
            if not plan.victims:
                break
        if self._watch is not None:
            self._watch(self.planner, now)
        self.usage.append((now, {name: self._used_cpus(name) for name in self.planner.snapshot.cluster_queues}))

    def _used_cpus(self, queue: str) -> int:
        workloads = self.planner.snapshot.workloads_by_queue[queue].values()
        return sum(workload.usage.get(CPU, 0) for workload in workloads)


def story(
    queues: Sequence[ClusterQueue], submissions: Iterable[Submission], policy: BackfillPolicy, *, lazy: bool = False
) -> Story:
    """Run workloads through queues."""
    return Story(new_state(Snapshot(queues), policy), lazy=lazy).play(submissions)

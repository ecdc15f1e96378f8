"""Workloads for the planner, and a virtual clock that drives it; times are seconds."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.planner_state import new_state
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, LocalQueue
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, FlavorResource, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.types import Plan, Reservation

CPU = FlavorResource("all", "cpu")


class Submission(NamedTuple):
    """A workload that is submitted, and its true run time."""

    workload: Workload
    queue: str
    run: float


def queue(
    name: str, cpus: int, *, cohort: str = "", preemption: ClusterQueuePreemption | None = None, **fields: Any
) -> ClusterQueue:
    """A queue with a quota of CPUs of one flavor."""
    quota = resource_group(FlavorQuotas("all", (("cpu", ResourceQuota(cpus, **fields)),)))
    return ClusterQueue(name, (quota,), cohort, preemption=preemption or ClusterQueuePreemption())


def submission(
    name: str, cpus: int, run: float, *, at: float = 0, limit: float | None = None, queue: str = "q", priority: int = 0
) -> Submission:
    """A workload of one pod that requests CPUs; its walltime is its run time unless given."""
    limit = run if limit is None else limit
    pods = (PodSet(pods=1, requests={"cpu": cpus}),)
    return Submission(Workload("", name, pods, name, priority=priority, created_at=at, walltime=limit), queue, run)


def make_workload(
    name: str, cpus: int, run: float = 10, *, at: float = 0, local: str = "", priority: int = 0
) -> Workload:
    """A workload of a namespace, with one pod that requests CPUs and a walltime."""
    found = submission(name, cpus, run, at=at, priority=priority).workload
    return replace(found, namespace="ns", queue_name=local)


def local(name: str, **fields: Any) -> LocalQueue:
    """A LocalQueue of the queue "q", unless another is given."""
    return LocalQueue("ns", name, fields.pop("leads", "q"), **fields)


def make_planner(
    queues: Sequence[ClusterQueue],
    policy: BackfillPolicy,
    local_queues: Sequence[LocalQueue] | None = None,
    **settings: Any,
) -> PlannerState:
    """The state of queues in which nothing runs."""
    return new_state(Snapshot(queues), policy, DEFAULT_SETTINGS._replace(**settings), local_queues)


class Story:
    """The history of workloads."""

    def __init__(
        self, planner: PlannerState, *, lazy: bool = False, watch: Callable[[PlannerState, float], None] | None = None
    ) -> None:
        """`lazy`: an arrival that does not fit causes no pass, as in a pool; `watch` is called after each pass."""
        self.planner = planner
        self._watch = watch
        self._lazy = lazy
        self.starts: dict[str, float] = {}
        """Of the last run of each workload."""
        self.reservations: dict[str, list[tuple[float, Reservation]]] = {}
        """The reservations of each pending workload, and when they were made."""
        self.reserved_starts: list[tuple[str, list[float], float]] = []
        """Key, successive reserved starts and start of each workload."""
        self.steps: list[tuple[float, Plan]] = []
        self.usage: list[tuple[float, dict[str, int]]] = []
        """CPUs used in each queue, after each pass."""
        self._ends: list[tuple[float, float, str, int]] = []
        """By true end, then arrival."""
        self._serial = 0

    def play(self, submissions: Iterable[Submission]) -> Story:
        """Submit and end all workloads; at one time, arrivals precede early ends."""
        left = sorted(submissions, key=lambda one: one.workload.created_at)
        self._runs = {one.workload.key: one.run for one in left}
        self._begun: dict[str, int] = {}
        while left or self._ends:
            at = min(left[0].workload.created_at if left else inf, self._ends[0][0] if self._ends else inf)
            if left and left[0].workload.created_at == at:
                self._settle(at)
                one = left.pop(0)
                events.submit(self.planner, one.workload, one.queue)
                if self._fits(one) or not self._lazy:
                    self._decide(at)
                continue
            self._settle(at)
            _, _, key, serial = heappop(self._ends)
            if self._begun.get(key) == serial and key in self.planner.running:
                events.finish(self.planner, key)
            self._decide(at)
        return self

    def _fits(self, one: Submission) -> bool:
        free = self.planner.snapshot.cluster_queues[one.queue].available(CPU)
        return all(pods.requests["cpu"] * pods.pods <= free for pods in one.workload.pod_sets)

    def _settle(self, now: float) -> None:
        """End the workloads whose deadline has come at this very time."""
        for key, run in list(self.planner.running.items()):
            if run.deadline <= now and self.starts[key] + self._runs[key] <= now:
                events.finish(self.planner, key)

    def _decide(self, now: float) -> None:
        while True:
            step = schedule(self.planner, now)
            self.steps.append((now, step))
            for one in step.admitted:
                self._serial += 1
                self.starts[one.key] = now
                told = [promise.start for _, promise in self.reservations.pop(one.key, [])]
                self.reserved_starts.append((one.key, told, now))
                self._begun[one.key] = self._serial
                heappush(self._ends, (now + self._runs[one.key], one.created_at, one.key, self._serial))
            for promise in self.planner.reservations_by_start:
                told = self.reservations.setdefault(promise.workload.key, [])
                if not told or told[-1][1].start != promise.start:
                    told.append((now, promise))
            for victim in step.victims:
                events.evict(self.planner, victim.workload.key, Eviction("Preempted", now))
            if not step.victims:
                break
        if self._watch is not None:
            self._watch(self.planner, now)
        used = {name: self._used(name) for name in self.planner.snapshot.cluster_queues}
        self.usage.append((now, used))

    def _used(self, queue: str) -> int:
        running = self.planner.snapshot.workloads_by_queue[queue].values()
        return sum(one.usage.get(CPU, 0) for one in running)


def story(
    queues: Sequence[ClusterQueue], submissions: Iterable[Submission], policy: BackfillPolicy, *, lazy: bool = False
) -> Story:
    """Play workloads through queues."""
    return Story(new_state(Snapshot(queues), policy), lazy=lazy).play(submissions)

"""Random events: usage always equals that of the running workloads, and every workload ends eventually."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import CPU, local, make_workload, queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint, restore_checkpoint
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(depth=2),
    BackfillPolicy(depth=UNLIMITED_DEPTH),
    BackfillPolicy(5.0, shortest_first=True),
    BackfillPolicy(12.0, 1.0, 1.0, shortest_first=True, age_weight=0.5),
    BackfillPolicy(reserve_after=float("inf")),
]
NAMES = "abc"
SETTINGS = DEFAULT_SETTINGS._replace(
    admission_fair_sharing=AdmissionFairSharingConfig(usage_half_life_time=10.0, usage_sampling_interval=2.0)
)
STOPS = st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])
LOCALS = tuple(local(name, leads=name) for name in NAMES)


class Change(NamedTuple):
    """An event of the queues or of a single workload."""

    queues: QueueConfiguration | None = None
    of: int = 0
    """The index of the workload among those that were submitted."""
    fields: tuple[tuple[str, object], ...] = ()
    restart: bool = False


def spec(name: str, cpus: int = 5, **fields: object) -> ClusterQueue:
    preemption = ClusterQueuePreemption("LowerPriority", "Any")
    checks = (AdmissionCheckStrategyRule("capacity"),) if name == "c" else ()
    cluster_queue = queue(name, cpus, cohort="team", preemption=preemption)._replace(
        admission_checks=checks, usage_based_admission=name == "b"
    )
    return cluster_queue._replace(**fields)


ALL_QUEUES = QueueConfiguration(tuple(map(spec, NAMES)), local_queues=LOCALS)


@st.composite
def queue_changes(draw: st.DrawFn) -> Change:
    names = draw(st.sets(st.sampled_from(NAMES)))
    specs = tuple(spec(name, draw(st.integers(0, 8)), stop_policy=draw(STOPS)) for name in sorted(names))
    locals_ = tuple(local_queue._replace(stop_policy=draw(STOPS)) for local_queue in LOCALS if draw(st.booleans()))
    return Change(QueueConfiguration(specs, local_queues=locals_))


FIELDS: list[tuple[str, object]] = [
    ("priority", 1), ("priority", 0), ("active", False), ("active", True), ("walltime", 3.0),
    ("failed_checks", ("capacity",)), ("failed_checks", ()),
]  # fmt: skip


@st.composite
def workload_changes(draw: st.DrawFn) -> Change:
    return Change(of=draw(st.integers(0, 9)), fields=(draw(st.sampled_from(FIELDS)),))


CHANGES = st.lists(st.one_of(queue_changes(), workload_changes(), st.just(Change(restart=True)), st.just(Change())))


class World:
    """Workloads and a planner, advanced second by second."""

    def __init__(self, policy: BackfillPolicy, settings: QuotaSettings) -> None:
        self.queues = ALL_QUEUES
        self.planner = new_state(Snapshot(ALL_QUEUES.cluster_queues), policy, settings, LOCALS)
        self.known: dict[str, Workload] = {}
        self.ends: dict[str, float] = {}
        self.unfinished: set[str] = set()
        """Keys of the workloads that have not ended."""
        self.stop_counts: Counter[str] = Counter()
        """How often the planner stopped each running workload."""
        self.stopping: set[str] = set()
        """Keys of the workloads that will be gone in the next second."""

    def come(self, one: Workload) -> None:
        self.known[one.key] = one
        self.unfinished.add(one.key)
        events.submit(self.planner, one)

    def change(self, one: Change) -> None:
        if one.restart:
            self.restart()
        elif one.queues is not None:
            self.queues = one.queues
            events.reconfigure(self.planner, one.queues)
        elif one.fields and self.known:
            key = list(self.known)[one.of % len(self.known)]
            if key in self.unfinished:
                self.known[key] = replace(self.known[key], **dict(one.fields))
                events.update(self.planner, self.known[key])

    def restart(self) -> None:
        old, checkpoint = self.planner, make_checkpoint(self.planner)
        running = [self.seen(run.workload) for run in old.running.values()]
        specs = [node.spec for node in old.snapshot.cluster_queues.values()]
        queues = self.queues.local_queues
        self.planner = new_state(Snapshot(specs, workloads=running), old.policy, old.settings, queues)
        for key in (*old.pending, *old.inadmissible):
            events.submit(self.planner, self.known[key])
        events.reconfigure(self.planner, self.queues)
        restore_checkpoint(checkpoint, self.planner, old.now)

    def seen(self, one: Workload) -> Workload:
        """Return a workload as the API server stores it: it is evicted if the planner stopped it."""
        return one if one.key in self.stopping else replace(one, eviction=None)

    def pass_on(self, now: float) -> Plan:
        """End the workloads that are due, evict those stopped in the previous second, and run a pass."""
        for key, run in list(self.planner.running.items()):
            if key in self.stopping:
                events.evict(self.planner, key, Eviction("Preempted", now))
            elif run.workload.admission is not None and run.workload.admission.pending_checks:
                events.checks_passed(self.planner, key, now)
                self.ends[key] = now + 2
            elif self.ends[key] <= now:
                events.finish(self.planner, key)
                self.unfinished.discard(key)
        step = schedule(self.planner, now)
        for one in step.admitted:
            self.stop_counts[one.key] = 0
            self.ends[one.key] = now + 2
        self.stopping = {victim.workload.key for victim in (*step.victims, *step.stopped)}
        self.stop_counts.update(self.stopping)
        return step

    def check(self) -> None:
        """Check that usage is that of running workloads, and that each workload has one state and at most one stop."""
        planner = self.planner
        states = [*planner.running, *planner.pending, *planner.inadmissible]
        assert sorted(states) == sorted(self.unfinished)
        assert max(self.stop_counts.values(), default=0) <= 1
        for name, node in planner.snapshot.cluster_queues.items():
            running = planner.snapshot.workloads_by_queue[name].values()
            assert node.usage.get(CPU, 0) == sum(one.usage[CPU] for one in running)
            assert all(planner.running[one.key].workload is one for one in running)
        assert {reservation.workload.key for reservation in planner.reservations_by_start} <= planner.pending.keys()


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from(NAMES), st.integers(0, 1)), max_size=10),
    CHANGES,
)
def test_every_workload_runs_once_the_queues_are_restored(
    policy: BackfillPolicy, arrivals: list[tuple[int, int, str, int]], changes: list[Change]
) -> None:
    world = World(policy, SETTINGS)
    for now in range(max(len(arrivals), len(changes))):
        if now < len(arrivals):
            cpus, limit, name, priority = arrivals[now]
            world.come(make_workload(f"{now}", cpus, limit + 2, at=now, local=name, priority=priority))
        if now < len(changes):
            world.change(changes[now])
        world.pass_on(now)
        world.check()
    world.change(Change(ALL_QUEUES))
    for one in range(len(arrivals)):
        world.change(Change(of=one, fields=(("active", True), ("failed_checks", ()))))
    for now in range(100, 400):
        world.pass_on(now)
        world.check()
        if not world.unfinished:
            break
    assert not world.unfinished

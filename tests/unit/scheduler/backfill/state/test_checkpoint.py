"""Reservations and usage survive a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import CPU, Story, make_planner, make_workload, queue
from support.tas_clusters import Host, job, pods_of, snapshot_of
from support.tas_clusters import preempting_queue as placed_queue
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, check, queue_lists, submission_lists
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint, restore_checkpoint
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.queue_types import AdmissionCheckStrategyRule, ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload


def restarted(planner: PlannerState, snapshot: Snapshot) -> PlannerState:
    """Return the state after a restart at the time of the last pass, from queues, workloads and the checkpoint."""
    for run in planner.running.values():
        snapshot.add_workload(run.workload)
    restored = new_state(snapshot, planner.policy, planner.settings)
    for key, name in planner.pending.items():
        workload = planner.pending_workload(key)
        assert workload is not None
        events.submit(restored, workload, name)
    restore_checkpoint(json.loads(json.dumps(make_checkpoint(planner), allow_nan=False)), restored, planner.now)
    return restored


def as_plain(reservations: Sequence[Reservation]) -> list[object]:
    """Return reservations with all their fields; workloads are represented by their keys."""
    return [
        (
            one.workload.key,
            one.workload.admission,
            one.queue,
            one.start,
            one.waits_for,
            [each.key for each in one.victims],
        )
        for one in reservations
    ]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=40)
@given(queue_lists(preemption=True), submission_lists(), st.sets(st.integers(0, 40)))
def test_a_restart_keeps_every_reservation(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], when: set[int]
) -> None:
    """Whenever the restart happens, no reservation moves to a later start."""
    played = Story(new_state(Snapshot(specs), policy), watch=lambda _, __: again())

    def again() -> None:
        if len(played.plans) in when:
            before = as_plain(played.planner.reservations_by_start)
            played.planner = restarted(played.planner, Snapshot(specs))
            assert as_plain(played.planner.reservations_by_start) == before

    check(played.play(submissions), specs)


def test_topology_assignments_are_restored() -> None:
    """No other workload can be assigned the reserved topology domain in the meantime."""
    spec, hosts = placed_queue("a", 99), [Host("one", "x", 2), Host("two", "x", 2)]
    planner = new_state(snapshot_of([spec], hosts), BackfillPolicy())
    for name, limit in (("short", 5), ("long", 10)):
        events.submit(planner, replace(job(name, pods_of(2)), walltime=limit), "a")
        schedule(planner, 0)
    events.submit(planner, replace(job("waits", pods_of(2), created=1), walltime=10), "a")
    schedule(planner, 1)
    other = restarted(planner, snapshot_of([spec], hosts))
    assert as_plain(other.reservations_by_start) == as_plain(planner.reservations_by_start)
    schedule(other, 2)
    assert as_plain(other.reservations_by_start) == as_plain(planner.reservations_by_start)


def test_unknown_starts_and_admission_checks_are_restored() -> None:
    spec = queue("q", 4)._replace(admission_checks=(AdmissionCheckStrategyRule("capacity"),))
    planner = make_planner([spec], BackfillPolicy())
    events.submit(planner, make_workload("runs", 4), "q")
    events.submit(planner, make_workload("waits", 4, at=1), "q")
    schedule(planner, 1)
    other = restarted(planner, Snapshot([spec]))
    assert [reservation.start for reservation in other.reservations_by_start] == [inf]
    assert as_plain(other.reservations_by_start) == as_plain(planner.reservations_by_start)
    events.checks_passed(other, "ns/runs", 3)
    schedule(other, 3)
    assert [reservation.start for reservation in other.reservations_by_start] == [13]


def test_a_restored_victim_is_not_preempted_again() -> None:
    """The condition Evicted shows that the workload stops; the checkpoint records which workload preempts it."""
    spec = queue("q", 4, preemption=ClusterQueuePreemption("LowerPriority"))
    planner = make_planner([spec], BackfillPolicy())
    events.submit(planner, make_workload("low", 4), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("high", 4, at=1, priority=1), "q")
    assert len(schedule(planner, 1).victims) == 1
    other = restarted(planner, Snapshot([spec]))
    assert as_plain(other.reservations_by_start) == as_plain(planner.reservations_by_start)
    assert other.running_workloads.stopping == {"ns/low"}
    assert schedule(other, 2).victims == ()
    events.finish(other, "ns/low")
    assert [one.key for one in schedule(other, 3).admitted] == ["ns/high"]


def test_the_reservation_of_a_workload_that_is_no_longer_pending_is_not_restored() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 4), "q")
    events.submit(planner, make_workload("waits", 4, at=1), "q")
    schedule(planner, 1)
    checkpoint = make_checkpoint(planner)
    other = make_planner([queue("q", 4)], BackfillPolicy())
    restore_checkpoint(checkpoint, other, 1)
    assert other.reservations_by_start == []


def test_an_infeasible_reservation_moves_to_another_start() -> None:
    """The quota is smaller than before the restart."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 4, run=10), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("wide", 3, run=10, at=1), "q")
    schedule(planner, 1)
    other = restarted(planner, Snapshot([queue("q", 2)]))
    schedule(other, 2)
    assert other.reservations_by_start == []
    other = restarted(planner, Snapshot([queue("q", 3)]))
    schedule(other, 2)
    assert [reservation.start for reservation in other.reservations_by_start] == [10]


def test_usage_of_local_queues_is_restored() -> None:
    spec = queue("q", 4)._replace(usage_based_admission=True)
    decay = AdmissionFairSharingConfig(usage_half_life_time=100, usage_sampling_interval=10)
    planner = make_planner([spec], BackfillPolicy(), admission_fair_sharing=decay)
    events.submit(planner, make_workload("one", 4, local="a", run=50), "q")
    schedule(planner, 0)
    schedule(planner, 20)
    other = restarted(planner, Snapshot([spec]))
    assert other.snapshot.local_queue_usage == planner.snapshot.local_queue_usage
    assert schedule(other, 25).wake_at == schedule(planner, 25).wake_at == 30


def reserving_planner() -> PlannerState:
    """Return a planner in which two workloads use all CPUs and a third has a reservation."""
    planner = make_planner([queue("q", 10)], BackfillPolicy())
    for name, cpus, run in (("short", 6, 100), ("long", 2, 1000), ("waits", 8, 100)):
        events.submit(planner, make_workload(name, cpus, run), "q")
    schedule(planner, 0)
    return planner


def successor(planner: PlannerState, waiting: Workload, checkpoint: Checkpoint) -> PlannerState:
    """Return the planner of the next leader, which observes the waiting workload in its present state."""
    other = make_planner([queue("q", 10)], BackfillPolicy())
    for run in planner.running.values():
        events.adopt(other, run.workload)
    events.submit(other, waiting, "q")
    restore_checkpoint(checkpoint, other, planner.now)
    return other


def test_a_workload_resized_during_the_restart_starts_with_the_quota_that_it_needs() -> None:
    planner = reserving_planner()
    resized = replace(make_workload("waits", 8, 100), pod_sets=(PodSet(pods=2, requests={"cpu": 5}),))
    other = successor(planner, resized, make_checkpoint(planner))
    events.finish(other, "ns/short")
    assert schedule(other, 100).admitted == ()
    assert [(one.workload.usage, one.start) for one in other.reservations_by_start] == [({CPU: 10}, 1000)]


@pytest.mark.parametrize(("walltime", "starts"), [(100.0, [100]), (200.0, [])])
def test_a_reservation_is_restored_only_for_the_walltime_that_it_was_made_for(
    walltime: float, starts: list[float]
) -> None:
    planner = reserving_planner()
    other = successor(planner, make_workload("waits", 8, walltime), make_checkpoint(planner))
    assert [one.start for one in other.reservations_by_start] == starts


def test_a_checkpoint_of_an_earlier_version_is_restored() -> None:
    """Such a checkpoint does not record what a workload required."""
    planner = reserving_planner()
    checkpoint = make_checkpoint(planner)
    for reservation in checkpoint["reservations"]:
        reservation.pop("requirements", None)
    other = successor(planner, make_workload("waits", 8, 100), checkpoint)
    assert as_plain(other.reservations_by_start) == as_plain(planner.reservations_by_start)


@pytest.mark.parametrize("name", ["a", "workers"])
def test_a_reservation_of_an_earlier_version_is_not_restored_for_renamed_pod_sets(name: str) -> None:
    planner = reserving_planner()
    checkpoint = make_checkpoint(planner)
    for reservation in checkpoint["reservations"]:
        reservation.pop("requirements", None)
    renamed = replace(make_workload("waits", 8, 100), pod_sets=(PodSet(name, requests={"cpu": 8}),))
    other = successor(planner, renamed, checkpoint)
    schedule(other, 1)
    assert [list(one.workload.admitted_pod_sets) for one in other.reservations_by_start] == [[name]]

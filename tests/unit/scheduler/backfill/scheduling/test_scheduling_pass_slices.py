"""A workload slice gets its quota in place of the slice that it replaces, now or at its reserved start."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from support.planner_stories import make_planner, queue, submission
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan


def submit(planner: PlannerState, name: str, cpus: int, run: float, replaces: str = "", priority: int = 0) -> None:
    workload = submission(name, cpus, run).workload
    key = f"{workload.namespace}/{replaces}" if replaces else ""
    events.submit(planner, replace(workload, replaces=key, priority=priority), "q")


def started(plan: Plan) -> list[str]:
    return [workload.name for workload in plan.admitted]


def used(planner: PlannerState) -> dict[str, int]:
    """Return the CPUs of each running workload; they are the usage of the queue."""
    running = {run.workload.name: sum(run.workload.usage.values()) for run in planner.running.values()}
    assert sum(running.values()) == sum(planner.snapshot.cluster_queues["q"].usage.values())
    return running


def growing(cpus: int, policy: BackfillPolicy | None = None) -> PlannerState:
    """Return a planner of 10 CPUs with a slice of 4, another workload of 4, and a slice that replaces the first."""
    planner = make_planner([queue("q", 10)], policy or BackfillPolicy())
    submit(planner, "old", 4, 1000)
    submit(planner, "other", 4, 50)
    assert started(schedule(planner, 0)) == ["old", "other"]
    submit(planner, "new", cpus, 1000, replaces="old")
    return planner


def test_a_slice_needs_only_its_additional_quota() -> None:
    planner = growing(6)
    plan = schedule(planner, 1)
    assert (started(plan), plan.victims) == (["new"], ())
    assert used(planner) == {"other": 4, "new": 6}


def test_a_slice_is_reserved_with_the_quota_of_the_one_that_it_replaces() -> None:
    """It starts when the other workload ends, and nothing that runs longer takes its quota until then."""
    planner = growing(9)
    assert started(schedule(planner, 1)) == []
    [reservation] = planner.reservations_by_start
    assert (reservation.start, reservation.preempts) == (50, ())
    submit(planner, "short", 2, 40)
    submit(planner, "long", 2, 400)
    assert started(schedule(planner, 2)) == ["short"]
    explanation = explain(planner, "/new", 3)
    assert (explanation.waits_for, explanation.replaces) == (("/short", "/other"), "/old")
    assert "replaces /old, whose pods run on; needs 0.005 CPUs of flavor" in explanation_message(explanation)
    for key, at in (("/short", 42), ("/other", 50)):
        events.finish(planner, key)
        plan = schedule(planner, at)
    assert started(plan) == ["new"]
    assert used(planner) == {"new": 9}


def test_a_start_as_reserved_also_ends_the_slice_that_it_replaces() -> None:
    """Its reservation is of a time at which the replaced slice still runs."""
    planner = growing(9)
    schedule(planner, 1)
    copy = planner.copy()
    events.finish(copy, "/other")
    assert started(schedule(copy, 50)) == ["new"]
    assert used(planner) == {"old": 4, "other": 4}, "the copy is independent"


def test_a_slice_does_not_wait_for_the_one_that_it_replaces() -> None:
    """Nothing declares a walltime, so all starts are unknown."""
    planner = make_planner([queue("q", 10)], BackfillPolicy())
    for name in ("old", "other"):
        submit(planner, name, 4, float("inf"))
    schedule(planner, 0)
    submit(planner, "new", 9, float("inf"), replaces="old")
    schedule(planner, 1)
    assert explain(planner, "/new", 2).waits_for == ("/other",)


def test_a_slice_preempts_others_but_not_the_one_that_it_replaces() -> None:
    spec = queue("q", 10, preemption=ClusterQueuePreemption(within_cluster_queue="LowerPriority"))
    planner = make_planner([spec], BackfillPolicy())
    submit(planner, "old", 4, 1000, priority=1)
    submit(planner, "other", 4, 500)
    schedule(planner, 0)
    submit(planner, "new", 8, 1000, replaces="old", priority=2)
    plan = schedule(planner, 100)
    assert [victim.workload.name for victim in plan.victims] == ["other"]
    events.evict(planner, "/other", Eviction("Preempted", 100))
    assert started(schedule(planner, 101)) == ["new"]
    assert used(planner) == {"new": 8}


def test_a_slice_starts_its_job_anew_if_the_one_that_it_replaces_is_evicted() -> None:
    """Until the pods of the evicted one have ended, both hold quota."""
    planner = growing(6)
    events.update(planner, replace(planner.running["/old"].workload, active=False))
    assert [order.workload.name for order in schedule(planner, 1).stopped] == ["old"]
    assert used(planner) == {"old": 4, "other": 4}
    events.finish(planner, "/old")
    assert started(schedule(planner, 2)) == ["new"]
    assert used(planner) == {"other": 4, "new": 6}

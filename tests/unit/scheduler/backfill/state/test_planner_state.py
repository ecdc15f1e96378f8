"""The planner's state: when the next pass is due, and copies."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from support.planner_stories import make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import (
    PlannerState,
    mark_stopping,
    new_state,
    pass_headroom,
    release_reservation,
    stop,
)
from zonewise_scheduler.backfill.types import Reservation, StopOrder
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue import headroom_bound

# --- the next pass


@pytest.mark.parametrize(
    ("starts", "young", "wake_at"),
    [
        ((), (), inf),
        ((inf,), (), inf),
        ((5.0, 10.0), (), inf),
        ((10.5, 30.0), (), 10.5),
        ((30.0, 5.0, 20.0), (), 20.0),
        ((20.0,), (15.0, 16.0), 15.0),
        ((20.0,), (25.0,), 20.0),
        ((), (12.0,), 12.0),
    ],
)
def test_the_next_pass_is_due_at_the_first_start_or_end_of_a_minimum_run_time(
    starts: tuple[float, ...], young: tuple[float, ...], wake_at: float
) -> None:
    """A reserved start that has passed or passes now does not set a wake time; a usage sample does."""
    for sharing in (None, AdmissionFairSharingConfig(usage_half_life_time=100.0, usage_sampling_interval=7.0)):
        planner = make_planner([queue("q", 4)], BackfillPolicy(), admission_fair_sharing=sharing)
        schedule(planner, 10.0)
        for number, start in enumerate(starts):
            workload = make_workload(f"w{number}", 4)
            planner.reservations.record(Reservation(workload, Head(workload, "q"), start))
        planner.young = {f"ns/y{number}": until for number, until in enumerate(young)}
        assert planner.wake_at == (wake_at if sharing is None else min(wake_at, 17.0))


# --- running workloads


def test_a_workload_is_stopped_only_once() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("one", 4), "q")
    (one,) = schedule(planner, 3.0).admitted
    stop(planner, one, "Deactivated")
    stop(planner, one, "NodeFailures")
    assert planner.unreported_stops == [StopOrder(one, "Deactivated")]
    assert not mark_stopping(planner, one, "Preempted")
    stopping = planner.running["ns/one"].workload
    assert stopping.eviction == Eviction("Deactivated", 3.0)
    assert planner.snapshot.workloads_by_queue["q"]["ns/one"] is stopping


def test_a_state_begins_with_the_workloads_of_its_snapshot() -> None:
    """A workload that may not continue is stopped in the first pass."""
    runs = [
        replace(make_workload(name, 1, 10.0), active=active, admission=Admission("q", (), 2.0))
        for name, active in (("good", True), ("bad", False))
    ]
    planner = new_state(Snapshot([queue("q", 4)], workloads=runs), BackfillPolicy())
    assert {key: run.deadline for key, run in planner.running.items()} == {"ns/good": 12.0, "ns/bad": 12.0}
    assert [(order.workload.key, order.reason) for order in schedule(planner, 3.0).stopped] == [
        ("ns/bad", "Deactivated")
    ]


# --- copies


def busy(*, observed: bool = True) -> PlannerState:
    """Return a planner: one workload runs until 10 s, three wait with later reservations, and one is inadmissible."""
    planner = make_planner(
        [queue("q", 4)],
        BackfillPolicy(depth=UNLIMITED_DEPTH),
        admission_fair_sharing=AdmissionFairSharingConfig(usage_half_life_time=100.0, usage_sampling_interval=7.0),
    )
    planner.assumed = None if observed else set()
    events.submit(planner, make_workload("lost", 4), "away")
    for number in range(4):
        events.submit(planner, make_workload(f"w{number}", 4, at=number), "q")
        schedule(planner, number)
    return planner


def test_pending_workload_finds_only_workloads_of_pending_queues() -> None:
    planner = busy()
    pending = {name: planner.pending_workload(f"ns/{name}") for name in ("w0", "w1", "w3", "lost", "unknown")}
    assert {name: workload.name for name, workload in pending.items() if workload is not None} == {
        "w1": "w1",
        "w3": "w3",
    }


@pytest.mark.parametrize(
    ("name", "starts", "freed"), [("w1", [20.0, 30.0], {"q"}), ("w3", [10.0, 20.0], {"q"}), ("w0", None, set[str]())]
)
def test_a_released_reservation_frees_quota_for_others(name: str, starts: list[float] | None, freed: set[str]) -> None:
    """Releasing the reservation of a workload that has none frees nothing."""
    planner = busy()
    release_reservation(planner, f"ns/{name}")
    expected = [10.0, 20.0, 30.0] if starts is None else starts
    assert [reservation.start for reservation in planner.reservations_by_start] == expected
    assert planner.freed_queues == freed


def summary(planner: PlannerState) -> tuple[object, ...]:
    return (
        list(planner.pending),
        list(planner.inadmissible),
        [(run.workload.key, run.deadline) for run in planner.running_workloads],
        [(reservation.workload.key, reservation.start) for reservation in planner.reservations_by_start],
        {name: dict(node.usage) for name, node in planner.snapshot.cluster_queues.items()},
        planner.assumed,
        planner.young,
        list(planner.active_queues),
        planner.freed_queues,
        planner.unreported_stops,
        planner.snapshot.preemption_graph.forbidden("ns/w1"),
    )


@pytest.mark.parametrize("observed", [True, False])
def test_a_copy_is_independent(observed: bool) -> None:
    """Whichever of the two continues, the other is unchanged and then makes the same decisions."""
    planner = busy(observed=observed)
    copied = planner.copy()
    before = summary(planner)
    assert summary(copied) == before
    after: list[tuple[object, ...]] = []
    for going, other in ((copied, planner), (planner, None)):
        events.finish(going, "ns/w0")
        events.withdraw(going, "ns/lost")
        going.snapshot.preemption_graph.add("ns/w2", "ns/w1")
        going.snapshot.preemption_graph.add("ns/w1", "ns/w2")
        schedule(going, 4.0)
        events.submit(going, make_workload("new", 1, at=5), "q")
        after.append(summary(going))
        assert other is None or summary(other) == before
    assert after[0] == after[1]


@pytest.mark.parametrize(("depth", "starts"), [(1, [10.0]), (2, [10.0, 20.0]), (8, [10.0, 20.0, 30.0])])
def test_a_copy_has_the_earliest_reservations(depth: int, starts: list[float]) -> None:
    planner = busy()
    copied = planner.copy(depth)
    assert [reservation.start for reservation in copied.reservations_by_start] == starts
    assert copied.policy.depth == depth
    assert planner.copy(depth).copy().policy.depth == depth
    assert [reservation.start for reservation in planner.reservations_by_start] == [10.0, 20.0, 30.0]


@pytest.mark.parametrize(
    ("must_retry", "next_retry", "wake_at"),
    [(False, 50.0, inf), (True, 50.0, 50.0), (True, 10.5, 11.0), (True, 0.0, 11.0)],
)
def test_the_next_pass_is_due_at_the_next_retry(must_retry: bool, next_retry: float, wake_at: float) -> None:
    """It is at least a second after the last pass, and only due if a workload waits for a retry."""
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    planner.now, planner.must_retry, planner.next_retry = 10.0, must_retry, next_retry
    assert planner.wake_at == inf
    planner.pending_queues["q"].keep_without_start(make_workload("wide", 9))
    assert planner.wake_at == wake_at


# --- the headroom bound


def test_the_headroom_bound_is_kept_until_the_snapshot_changes_or_shapes_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    kept = pass_headroom(planner)
    assert pass_headroom(planner) is kept
    assert pass_headroom(planner.copy()) is not kept
    kept.alternatives(Head(make_workload("w", 4), "q"))
    monkeypatch.setattr(headroom_bound, "MAX_SHAPES", 0)
    assert pass_headroom(planner) is not kept
    monkeypatch.undo()
    kept = pass_headroom(planner)
    events.reconfigure(planner, planner.configuration._replace(cluster_queues=(queue("q", 8),)))
    assert pass_headroom(planner) is not kept


def test_a_kept_headroom_bound_sees_what_an_end_has_freed() -> None:
    """The first end frees too little, so the bound rejects the waiting workload. The second one frees enough."""
    planner = make_planner([queue("q", 4)], policy_named("greedy"))
    for number, cpus in enumerate((1, 3, 3)):
        events.submit(planner, make_workload(f"w{number}", cpus), "q")
        schedule(planner, float(number))
    started: list[str] = []
    for now, key in enumerate(list(planner.running), 3):
        events.finish(planner, key)
        started += [workload.name for workload in schedule(planner, float(now)).admitted]
    assert (started, planner.pending) == (["w2"], {})

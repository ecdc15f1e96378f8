"""Reservations of sample paths, compared with those of the planner."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from support.planner_stories import CPU, Story, make_planner, queue, submission
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill.forecast.quota_reservations import QuotaReservations
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue


def tables(planner: PlannerState) -> tuple[ReservationTable, QuotaReservations]:
    """Return the planner's reservations, both exact and by quota only."""
    reservations = planner.reservations.by_key.values()
    exact, by_quota = ReservationTable(reservations), QuotaReservations(reservations, planner.now, 0.0)
    for table in (exact, by_quota):
        table.begin_cycle(planner, planner.now)
    return exact, by_quota


def admitted(workload: Workload, queue: str, now: float) -> Workload:
    cpus = workload.total_requests[0].requests["cpu"]
    return replace(
        workload, admission=Admission(queue, (PodSetAdmission("main", {"cpu": "all"}, {"cpu": cpus}, 1),), now)
    )


def starts_of(table: ReservationTable) -> dict[str, float]:
    return {key: reservation.start for key, reservation in table.by_key.items()}


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=30)  # compares the tables after every pass
@given(queue_lists(preemption=False), submission_lists(most=9))
def test_with_one_flavor_the_reservations_are_the_exact_ones(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    """Both reserve and delay the same starts, and both leave as much for other workloads."""

    def ask(planner: PlannerState, now: float) -> None:
        for key, name in planner.pending.items():
            workload = planner.pending_workload(key)
            assert workload is not None
            exact, by_quota = tables(planner)
            start = admitted(workload, name, now)
            if starts_of(exact).get(key, inf) > now:
                assert bool(exact.delayed_reservation(start, ())) == bool(by_quota.delayed_reservation(start, ()))
            assert exact.reserve(Head(workload, name), planner) == by_quota.reserve(Head(workload, name), planner)
            assert starts_of(exact) == starts_of(by_quota)
        exact, by_quota = tables(planner)
        for table in (exact, by_quota):
            table.bring_forward(planner, now)
        assert starts_of(exact) == starts_of(by_quota)

    Story(new_state(Snapshot(specs), policy), watch=ask).play(submissions)


def waiting(*submissions: Submission, queues: list[ClusterQueue] | None = None) -> PlannerState:
    """Return a state after passes at 0, with the workloads pending or running on 8 CPUs."""
    planner = make_planner([queue("q", 8)] if queues is None else queues, BackfillPolicy(depth=2))
    for each in submissions:
        events.submit(planner, each.workload, each.queue)
        schedule(planner, 0)
    return planner


def test_starts_and_ends_count_without_a_new_profile() -> None:
    """As in an exact table, a start uses the amount left beside the reservation, and its end returns it."""
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10))
    _, table = tables(planner)
    first, short, long = (
        admitted(submission(name, 2, limit).workload, "q", 0) for name, limit in (("first", 30), ("s", 10), ("l", 30))
    )
    assert table.delayed_reservation(long, ()) == ""
    table.record_start(first, ())
    assert [table.delayed_reservation(one, ()) for one in (short, long)] == ["", "/wide"]
    table.workload_ended(first)
    assert table.delayed_reservation(long, ()) == ""


def test_the_reservations_of_a_queue_follow_each_change() -> None:
    """The table lists them as an exact table does."""
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10), submission("last", 7, 10))
    exact, table = tables(planner)
    assert [one.workload.key for one in table.by_queue()["q"]] == ["/wide", "/last"]
    assert table.by_queue().keys() == exact.by_queue().keys() == {"q"}
    for gate in (exact, table):
        gate.release("/wide")
    assert [one.workload.key for one in table.by_queue()["q"]] == ["/last"]
    assert table.by_queue() == exact.by_queue()


def test_the_latest_end_is_the_first_reserved_start_without_enough_quota() -> None:
    """From 10 s on, 2 of 8 CPUs are left beside the reservation."""
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10))
    for table in tables(planner):
        assert [table.latest_end("q", CPU, amount, None) for amount in (0, 2, 3)] == [inf, inf, 10.0]
        version = table.version
        table.release("/wide")
        table.begin_cycle(planner, 0)
        assert table.version > version
        assert table.latest_end("q", CPU, 8, None) == inf


def test_a_reservation_whose_quota_is_gone_moves() -> None:
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10))
    late = admitted(submission("late", 6, 50).workload, "q", 0)
    _, table = tables(planner)
    table.record_start(late, ())
    assert table.replace_infeasible(planner) == []
    assert starts_of(table) == {"/wide": 50}
    table.release("/wide")
    assert table.by_key == {}


def test_after_an_overrun_reservations_move_in_the_order_in_which_they_were_made() -> None:
    """As in an exact table, the second reservation does not take the reserved time of the first."""
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10), submission("next", 6, 10))
    assert planner.running_workloads.extend_overrun(12)
    planner.now = 12
    for table in tables(planner):
        assert starts_of(table) == {"/wide": 10, "/next": 20}
        assert table.replace_infeasible(planner) == []
        assert starts_of(table) == {"/wide": 72, "/next": 82}


def test_a_reservation_that_cannot_be_brought_forward_keeps_its_start() -> None:
    """The reservation still counts: an overrun by itself does not move it to a later start."""
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10), submission("next", 6, 10))
    planner.running_workloads.extend_overrun(12)
    planner.now = 12
    long = admitted(submission("long", 3, 9).workload, "q", 12)
    for table in tables(planner):
        table.bring_forward(planner, 12)
        assert starts_of(table) == {"/wide": 10, "/next": 20}
        table.release("/wide")
        table.begin_cycle(planner, 12)
        assert table.delayed_reservation(long, ()) == "/next"


def test_ends_are_merged_by_the_time_from_now_on() -> None:
    """Reservations are also checked before the first cycle of a sample path."""
    now = 1e9
    planner = make_planner([queue("q", 8)], BackfillPolicy(depth=2))
    for each in (submission("short", 4, 700), submission("long", 4, 90_000), submission("wide", 4, 10)):
        events.submit(planner, each.workload, each.queue)
        schedule(planner, now)
    table = QuotaReservations(planner.reservations.by_key.values(), now, 0.1)
    assert table.replace_infeasible(planner) == []
    assert starts_of(table) == {"/wide": now + 700}
    late = admitted(submission("late", 4, 50_000).workload, "q", now + 700)
    table.begin_cycle(planner, now + 700)
    assert table.delayed_reservation(late, ()) == "/wide"


def test_a_workload_of_several_pod_sets_counts_in_its_first_flavors() -> None:
    flavors = (FlavorQuotas(name, (("cpu", ResourceQuota(4)),)) for name in ("first", "second"))
    planner = waiting(queues=[queue("q", 8)._replace(resource_groups=(resource_group(*flavors),))])
    table = QuotaReservations((), 0.0, 0.0)
    pods = (PodSet(name="leader", requests={"cpu": 1}), PodSet(name="workers", pods=3, requests={"cpu": 1}))
    fits, wide = (
        Workload("", name, (*pods[:1], pods[1]._replace(pods=count)), walltime=5)
        for name, count in (("fits", 3), ("wide", 4))
    )
    assert table.reserve(Head(fits, "q"), planner) == 0.0
    assert starts_of(table) == {"/fits": 0}
    assert table.reserve(Head(wide, "q"), planner) is None


def test_a_reservation_moves_forward_once_something_ends_early() -> None:
    planner = waiting(submission("a", 5, 10), submission("wide", 6, 10))
    _, table = tables(planner)
    planner.reservations = table
    events.finish(planner, "/a")
    table.bring_forward(planner, 4)
    assert starts_of(table) == {"/wide": 4}

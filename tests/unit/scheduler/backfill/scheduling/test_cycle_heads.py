"""Skipping heads that would certainly be rejected again gives the same result as nominating them all."""

from __future__ import annotations

from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Any, Literal
from unittest import mock

import pytest
from hypothesis import given, settings

from support.planner_stories import Story, make_planner, make_workload, queue, submission
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.recording.plan_document import plan_document
from zonewise_scheduler.backfill.scheduling import cycle_heads
from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
from zonewise_scheduler.backfill.scheduling.pass_state import PassState
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue


def outcome(specs: list[ClusterQueue], submissions: list[Submission], policy: BackfillPolicy) -> list[Any]:
    """Return the decisions of each pass, and the number of cycles after each pass."""
    cycles: list[int] = []
    story = Story(new_state(Snapshot(specs), policy), watch=lambda planner, _: cycles.append(planner.cycles))
    plans = story.play(submissions).plans
    return [[(now, plan_document(plan)) for now, plan in plans], cycles]


@pytest.mark.parametrize("preemption", [False, True])
@pytest.mark.parametrize("policy", [*POLICIES, policy_named("greedy"), policy_named("fifo")], ids=str)
def test_skipped_heads_change_no_decision(policy: BackfillPolicy, preemption: bool) -> None:
    @settings(max_examples=10)
    @given(queue_lists(preemption=preemption), submission_lists())
    def compare(specs: list[ClusterQueue], submissions: list[Submission]) -> None:
        with mock.patch.object(cycle_heads, "_bound_reason", return_value=""):
            nominated = outcome(specs, submissions, policy)
        assert outcome(specs, submissions, policy) == nominated

    compare()


@pytest.mark.parametrize("exact", [True, False])
def test_a_postponed_workload_is_not_nominated_until_quota_may_suffice_in_time(exact: bool) -> None:
    """Its start may be at most half of its wait away. Others of its queue start. Forecasts never nominate it."""
    planner = make_planner([queue("q", 4)], BackfillPolicy(1000.0, 0.0, 0.0, 0.5))
    events.submit(planner, make_workload("runs", 3, 90), "q")
    events.submit(planner, make_workload("wide", 4, 10), "q")
    decisions = schedule(planner, 0, known=None if exact else KnownAdmissions()).decisions
    assert set(decisions) == ({"ns/runs", "ns/wide"} if exact else {"ns/runs"})
    nominated: dict[int, bool] = {}
    for now in (10, 50, 59, 60):
        events.submit(planner, make_workload(f"small-{now}", 1, 5, at=now), "q")
        plan = schedule(planner, now, known=None if exact else KnownAdmissions())
        nominated[now] = "ns/wide" in plan.decisions
        assert [workload.name for workload in plan.admitted] == [f"small-{now}"]
        events.finish(planner, f"ns/small-{now}")
    assert nominated == {10: False, 50: False, 59: False, 60: exact}
    assert [reservation.start for reservation in planner.reservations_by_start] == [90]


def test_a_workload_is_postponed_without_a_nomination_only_once_a_start_was_found_for_it() -> None:
    """Another one with the same requirements has been postponed before."""
    planner = make_planner([queue("q", 4)], BackfillPolicy(1000.0, 0.0, 0.0, 0.5))
    for name, cpus, run in (("runs", 3, 90), ("wide", 4, 10)):
        events.submit(planner, make_workload(name, cpus, run), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("second", 4, 10, at=10), "q")
    assert [set(schedule(planner, now).decisions) for now in (10, 11)] == [{"ns/second"}, set()]


def test_a_postponed_workload_that_is_nominated_with_others_is_not_searched_again() -> None:
    """It affects the cycle of the small one, so it is nominated. Its start may be at most half of its wait away."""
    planner = make_planner(
        [queue("q", 3, cohort="c"), queue("r", 1, cohort="c")], BackfillPolicy(1000.0, 0.0, 0.0, 0.5)
    )
    for name, cpus, run, where in (("runs", 2, 90, "q"), ("wide", 4, 10, "q"), ("small-0", 1, 99, "r")):
        events.submit(planner, make_workload(name, cpus, run), where)
    schedule(planner, 0)
    searched: dict[int, bool] = {}
    for before, now in pairwise((0, 10, 59, 60)):
        events.submit(planner, make_workload(f"small-{now}", 1, 5, at=now), "r")
        events.finish(planner, f"ns/small-{before}")
        with mock.patch.object(planner.reservations, "reserve", wraps=planner.reservations.reserve) as reserve:
            plan = schedule(planner, now)
        assert plan.decisions["ns/wide"].status == "waiting"
        searched[now] = reserve.called
    assert searched == {10: False, 59: False, 60: True}
    assert [reservation.start for reservation in planner.reservations_by_start] == [90]


def test_after_a_reconfiguration_no_start_is_searched_for_if_quota_shows_that_it_is_too_late() -> None:
    """The pass knows no postponed workloads then. A running workload without a walltime prevents every known start."""
    specs = [queue("q", 4)]
    planner = make_planner(specs, BackfillPolicy(1000.0, 0.0, 0.0, 0.5))
    events.submit(planner, make_workload("a", 3, inf), "q")
    schedule(planner, 0)
    for name, cpus in (("b", 4), ("c", 3)):
        events.submit(planner, make_workload(name, cpus, 10), "q")
    for now in (10, 20):
        with mock.patch.object(planner.reservations, "reserve", wraps=planner.reservations.reserve) as reserve:
            plan = schedule(planner, now)
        assert not reserve.called
        assert {plan.decisions[key].status for key in ("ns/b", "ns/c")} == {"waiting"}
        events.reconfigure(planner, planner.configuration._replace(cluster_queues=tuple(specs)))


def test_a_postponed_workload_counts_as_an_earlier_head_in_a_sample_path() -> None:
    """Two CPUs are available. The second head of q, behind the postponed one, precedes that of r, which borrows."""
    planner = make_planner(
        [queue("q", 3, cohort="c"), queue("r", 1, cohort="c")], BackfillPolicy(1000.0, 0.0, 0.0, 0.5)
    )
    for name, cpus, run in (("runs", 2, 900), ("wide", 4, 10)):
        events.submit(planner, make_workload(name, cpus, run), "q")
    schedule(planner, 0, known=KnownAdmissions())
    for name, at, where in (("small", 10, "q"), ("first", 11, "r"), ("second", 12, "r")):
        events.submit(planner, make_workload(name, 1, 5, at=at), where)
    admitted = schedule(planner, 20, known=KnownAdmissions()).admitted
    assert {workload.name for workload in admitted} == {"small", "first"}


@pytest.mark.parametrize("reclaim", ["Never", "Any"])
def test_a_rejected_head_is_not_nominated_again(reclaim: str) -> None:
    """Two CPUs become free. Of eight workloads, only the two that fit are nominated, in two queues of a cohort."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort="Any" if reclaim == "Any" else "Never")
    planner = make_planner(
        [queue(name, 4, cohort="team", preemption=preemption) for name in "ab"], policy_named("greedy")
    )
    for name in "ab":
        events.submit(planner, submission(f"{name}-runs", 3, 50, queue=name).workload, name)
        events.submit(planner, submission(f"{name}-ends", 1, 10, queue=name).workload, name)
    assert len(schedule(planner, 0).admitted) == 4
    sizes = {"wide": 8, "broad": 7, "large": 6, "small": 1}
    for at, (size, cpus) in enumerate(sizes.items()):
        for name in "ab":
            events.submit(planner, submission(f"{name}-{size}", cpus, 10, at=at, queue=name).workload, name)
    assert schedule(planner, 5).admitted == ()
    for name in "ab":
        events.finish(planner, f"/{name}-ends")
    before = planner.cycles
    plan = schedule(planner, 10)
    assert {workload.name for workload in plan.admitted} == {"a-small", "b-small"}
    assert set(plan.decisions) == {"/a-small", "/b-small"}
    assert planner.cycles - before == 5  # the last cycle finds no head


@pytest.mark.parametrize(
    ("start", "seconds"), [(None, inf), (25.0, 15.0), (10.5, 0.5), (inf, inf), (10.0, None), (7.0, None)]
)
def test_only_the_time_before_its_reserved_start_is_checked(start: float | None, seconds: float | None) -> None:
    """From its reserved start on, a head is nominated in any case."""
    planner = make_planner([queue("q", 4)], policy_named("easy"))
    schedule(planner, 10.0)
    head = submission("one", 4, 5).workload
    events.submit(planner, head, "q")
    if start is not None:
        planner.reservations.record(Reservation(head, Head(head, "q"), start))
    pass_state = PassState(planner, HeadroomBound(planner.snapshot, planner.settings, planner.reservations))
    with mock.patch.object(PendingWorkloads, "inadmissible_reason", return_value="Reserved") as asked:
        key, reason = cycle_heads.head_rejection(pass_state, "q")
    assert (key, reason) == ("/one", "" if seconds is None else "Reserved")
    assert [call.args for call in asked.mock_calls] == (
        [] if seconds is None else [("/one", pass_state.headroom, seconds)]
    )


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("policy", ["easy", "fifo", DEFAULT_POLICY])
def test_a_workload_starts_once_its_queue_selects_its_namespace(
    policy: str, strategy: Literal["BestEffortFIFO", "StrictFIFO"], exact: bool
) -> None:
    """Until then it has no reservation and holds back no workload of another namespace."""
    selecting = queue("q", 4)._replace(
        namespace_selector=(Requirement("team", "In", ("a",)),), queueing_strategy=strategy
    )
    planner = make_planner([selecting], policy_named(policy))
    events.reconfigure(planner, QueueConfiguration((selecting,), namespaces={"ns": {"team": "b"}, "": {"team": "a"}}))
    events.submit(planner, make_workload("other", 4), "q")
    events.submit(planner, submission("own", 4, 10, at=1).workload, "q")
    assert [workload.key for workload in schedule(planner, 1, known=None if exact else KnownAdmissions()).admitted] == [
        "/own"
    ]
    assert not planner.reservations_by_start
    events.finish(planner, "/own")
    assert schedule(planner, 2, known=None if exact else KnownAdmissions()).admitted == ()
    events.reconfigure(planner, QueueConfiguration((selecting,), namespaces={"ns": {"team": "a"}}))
    assert [workload.key for workload in schedule(planner, 3, known=None if exact else KnownAdmissions()).admitted] == [
        "ns/other"
    ]

"""The passes of sample paths, compared with those of the planner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_planner, queue, submission
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill.policies import BackfillPolicy, policy_named
from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

RECLAIM = ClusterQueuePreemption(reclaim_within_cohort="Any")


def team(*cpus: int) -> list[ClusterQueue]:
    return [queue(name, size, cohort="team", preemption=RECLAIM) for name, size in zip("abc", cpus, strict=False)]


def submitted(specs: list[ClusterQueue], *submissions: Submission, policy: str = "greedy") -> PlannerState:
    planner = make_planner(specs, policy_named(policy))
    for each in submissions:
        events.submit(planner, each.workload, each.queue)
    return planner


def started(planner: PlannerState, *, exact: bool) -> list[str]:
    return [workload.name for workload in schedule(planner, 0, known=None if exact else KnownAdmissions()).admitted]


@pytest.mark.parametrize("exact", [True, False])
def test_queues_start_their_workloads_one_at_a_time(exact: bool) -> None:
    """Workloads within their own quota are first, then priority and time decide; queue b has no quota of its own."""
    planner = submitted(
        team(4, 0, 4),
        submission("a1", 2, 9, queue="a", at=3),
        submission("a2", 2, 9, queue="a", at=4),
        submission("b1", 1, 9, queue="b", at=1),
        submission("b2", 1, 9, queue="b", at=2, priority=1),
        submission("c1", 2, 9, queue="c", at=2),
    )
    assert started(planner, exact=exact) == ["c1", "a1", "b2", "a2", "b1"]


@pytest.mark.parametrize("exact", [True, False])
def test_pod_sets_that_borrow_only_together_are_behind_those_that_do_not_borrow(exact: bool) -> None:
    pods = (PodSet(name="leader", requests={"cpu": 2}), PodSet(name="workers", requests={"cpu": 1}))
    planner = submitted(team(2, 2, 2), submission("b", 2, 9, queue="b", at=5))
    events.submit(planner, Workload("", "a", pods, walltime=9), "a")
    assert started(planner, exact=exact) == ["b", "a"]


@pytest.mark.parametrize("exact", [True, False])
def test_a_rejected_first_workload_counts_as_the_head_of_its_queue(exact: bool) -> None:
    """Its next workload comes after the later head of the other queue; the first one would certainly be rejected."""
    specs = [spec._replace(preemption=ClusterQueuePreemption()) for spec in team(1, 1, 4)]
    planner = submitted(specs, submission("c", 5, 9, queue="c"), submission("d", 1, 9, queue="c"))
    assert started(planner, exact=exact) == ["c", "d"]
    for each in (
        submission("a-wide", 2, 9, queue="a", at=1),
        submission("a", 1, 9, queue="a", at=2),
        submission("b", 1, 9, queue="b", at=3),
    ):
        events.submit(planner, each.workload, each.queue)
    assert started(planner, exact=exact) == []
    events.finish(planner, "/d")
    assert started(planner, exact=exact) == ["b"]


def test_a_head_for_which_too_little_is_left_is_not_nominated() -> None:
    """Thirty heads fit until the first one starts. A cycle nominates them all, a sample path only that one."""
    names = [f"q{index:02}" for index in range(30)]
    nominated: list[int] = []
    for exact in (True, False):
        planner = make_planner(
            [queue(name, 1, cohort="team", preemption=RECLAIM) for name in names], policy_named("greedy")
        )
        for name in names:
            events.submit(planner, submission(name, 30, 9, queue=name).workload, name)
            schedule(planner, 0)
        events.finish(planner, "/q00")
        plan = schedule(planner, 1, known=None if exact else KnownAdmissions())
        assert [workload.name for workload in plan.admitted] == ["q01"]
        nominated.append(len(plan.decisions))
    assert nominated == [29, 1]


@pytest.mark.parametrize("exact", [True, False])
def test_a_queue_on_hold_starts_nothing(exact: bool) -> None:
    """Its workload is due, and one of the same shape has started in the other queue."""
    specs = [spec._replace(stop_policy="Hold") if spec.name == "b" else spec for spec in team(4, 4)]
    planner = submitted(specs, submission("a", 1, 9, queue="a"), submission("b", 1, 9, queue="b"), policy="easy")
    assert started(planner, exact=exact) == ["a"]


def test_a_due_head_that_lacks_quota_gets_its_reservation_without_a_nomination() -> None:
    """The planner nominates it and makes the same reservation. Another one of its shape would be inadmissible too."""
    reserved: list[list[float]] = []
    for exact in (True, False):
        planner = submitted(team(4), submission("running", 3, 9, queue="a"), policy="easy")
        assert started(planner, exact=exact) == ["running"]
        for name in ("due", "other"):
            events.submit(planner, submission(name, 2, 9, queue="a", at=1).workload, "a")
        plan = schedule(planner, 1, known=None if exact else KnownAdmissions())
        assert [key for key in plan.decisions if key == "/due"] == (["/due"] if exact else [])
        assert sorted(planner.pending_queues["a"].heap.inadmissible) == ["/due", "/other"]
        reserved.append([reservation.start for reservation in planner.reservations_by_start])
    assert reserved == [[9.0], [9.0]]


def test_a_due_head_of_another_namespace_gets_no_reservation() -> None:
    """It lacks quota too, since the other queue uses 6 of 8 CPUs."""
    specs = [spec._replace(namespace_selector=None) if spec.name == "a" else spec for spec in team(4, 4)]
    planner = submitted(specs, submission("b", 6, 9, queue="b"), policy="easy")
    assert started(planner, exact=False) == ["b"]
    events.submit(planner, submission("due", 3, 9, queue="a").workload, "a")
    plan = schedule(planner, 0, known=KnownAdmissions())
    assert [decision.status for decision in plan.decisions.values()] == ["inadmissible"]
    assert not planner.reservations.by_key


@given(
    st.sampled_from([*POLICIES, BackfillPolicy(overtaking=False)]), queue_lists(preemption=False), submission_lists()
)
def test_in_queues_that_share_no_quota_a_sample_path_decides_like_the_planner(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    specs = [spec._replace(cohort_name="") for spec in specs]
    exact, other = (new_state(Snapshot(specs), policy) for _ in range(2))
    for each in submissions:
        for planner in (exact, other):
            events.submit(planner, each.workload, each.queue)
        now = each.workload.created_at
        plans = [schedule(exact, now), schedule(other, now, known=KnownAdmissions())]
        assert len({frozenset(workload.key for workload in plan.admitted) for plan in plans}) == 1
        assert plans[0].wake_at == plans[1].wake_at
        if len(exact.running) > 2:
            first = next(iter(exact.running))
            for planner in (exact, other):
                events.finish(planner, first)

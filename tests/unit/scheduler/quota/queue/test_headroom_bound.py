"""Headroom bounds: they skip only nominations that would fail, and change no decision."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import Story, Submission, make_planner, queue, story, submission
from support.quota_strategies import CPU, cpu_queue, pending_workload, running_workload, snapshots
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner, nominate
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue import headroom_bound
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound, preemptible_usage
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason

ALL = CPU._replace(flavor="all")
PREEMPTIONS = st.builds(
    ClusterQueuePreemption,
    st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"]),
    st.sampled_from(["Never", "LowerPriority", "Any"]),
    st.sampled_from(["Never", "LowerPriority"]),
)


def reason_of(
    headroom: HeadroomBound, queue: str, priority: int, walltime: float, alternatives: FlavorAlternatives
) -> BoundReason:
    """Return why a workload is certainly inadmissible."""
    return headroom.inadmissible_reason(headroom.shape_bound(queue, priority, alternatives), walltime)


@given(snapshots(), st.integers(1, 12), st.integers(0, 4), st.integers(0, 9), st.booleans())
def test_nomination_fails_beyond_the_bound(
    snapshot: Snapshot, amount: int, priority: int, created: int, fair_sharing: bool
) -> None:
    """The test covers every queue and every preemption policy, with no flavors left to try."""
    settings = QuotaSettings(fair_sharing=fair_sharing)
    headroom = HeadroomBound(snapshot, settings)
    for name in snapshot.cluster_queues:
        head = Head(pending_workload("new", amount, priority, float(created)), name)
        alternatives = headroom.alternatives(head)
        assert alternatives is not None
        if reason_of(headroom, name, priority, 1.0, alternatives):
            assignment, targets = nominate(flavor_assigner(snapshot, head, settings))
            assert assignment.representative_mode != FlavorAssignmentMode.FIT
            assert not targets
            indices = assignment.last_tried_flavor_idx.values()
            assert all(index == -1 for by_resource in indices for index in by_resource.values())


@pytest.mark.parametrize(
    ("policy", "preemptible"),
    [
        ("Never", [0, 0, 0, 0]),
        ("", [0, 0, 0, 0]),
        ("LowerPriority", [0, 0, 1, 1 + 2]),
        ("LowerOrNewerEqualPriority", [0, 1, 1 + 2, 1 + 2 + 4]),
    ],
)
def test_usage_of_lower_priorities_is_preemptible(policy: Any, preemptible: list[int]) -> None:
    """For priorities from 0 on: equal priorities count only if the policy includes them, higher ones never do."""
    snapshot = Snapshot([cpu_queue("q", 9, ClusterQueuePreemption(policy))])
    for priority, amount in ((1, 1), (2, 2), (3, 4)):
        snapshot.add_workload(running_workload(f"w{priority}", "q", CPU, amount, priority))
    assert [preemptible_usage(snapshot.cluster_queues["q"], priority, CPU) for priority in range(4)] == preemptible


@st.composite
def queues(draw: st.DrawFn) -> list[ClusterQueue]:
    preemptions = draw(st.lists(PREEMPTIONS, min_size=3, max_size=3))
    return [
        queue(name, draw(st.integers(2, 6)), cohort=draw(st.sampled_from(["team", "team", ""])), preemption=preemption)
        for name, preemption in zip("abc", preemptions, strict=True)
    ]


@st.composite
def queues_with_two_flavors(draw: st.DrawFn) -> list[ClusterQueue]:
    """Only some have a second flavor."""
    specs: list[ClusterQueue] = []
    for spec in draw(queues()):
        second = FlavorQuotas("more", (("cpu", ResourceQuota(draw(st.integers(0, 5)))),))
        flavors = (*spec.resource_groups[0].flavors, *([second] if draw(st.booleans()) else []))
        specs.append(spec._replace(resource_groups=(resource_group(*flavors),)))
    return specs


@st.composite
def submissions(draw: st.DrawFn) -> list[Submission]:
    """Draw few shapes, so that most workloads have a shape that was inadmissible before."""
    return [
        submission(
            f"{serial:02}",
            draw(st.sampled_from([1, 3, 5])),
            draw(st.integers(1, 9)),
            at=draw(st.integers(0, 12)),
            queue=draw(st.sampled_from("abc")),
            priority=draw(st.integers(0, 2)),
        )
        for serial in range(draw(st.integers(1, 16)))
    ]


@given(queues(), submissions())
def test_bounds_change_no_decision(specs: list[ClusterQueue], jobs: list[Submission]) -> None:
    """The comparison is with a nomination of every active workload, without reservations.

    With reservations, skipping a workload saves its queue a cycle. The next cycle may then differ in the order of
    queues.
    """
    policy = BackfillPolicy(reserve_after=float("inf"))
    with_bounds = story(specs, jobs, policy)
    with patch.object(PendingWorkloads, "inadmissible_reason", return_value=""):
        without_bounds = story(specs, jobs, policy)
    assert with_bounds.starts == without_bounds.starts
    assert with_bounds.usage == without_bounds.usage
    assert [[victim.workload.key for victim in step.victims] for _, step in with_bounds.plans] == [
        [victim.workload.key for victim in step.victims] for _, step in without_bounds.plans
    ]


@pytest.mark.parametrize(
    "policy", [BackfillPolicy(), BackfillPolicy(depth=UNLIMITED_DEPTH), BackfillPolicy(2, shortest_first=True)], ids=str
)
@given(queues_with_two_flavors(), submissions(), st.booleans())
def test_a_skipped_workload_is_inadmissible_for_the_stated_reason(
    policy: BackfillPolicy, specs: list[ClusterQueue], jobs: list[Submission], fair_sharing: bool
) -> None:
    """The reason is quota, or a reservation of another workload."""
    planner = make_planner(specs, policy, fair_sharing=fair_sharing)
    mark_inadmissible, time = PendingWorkloads.mark_inadmissible, [0.0]

    def check_and_mark(pending: PendingWorkloads, key: str, reason: BoundReason) -> None:
        workload = pending.get(key)
        assert workload is not None
        head = Head(workload, pending.spec.name)
        gate = planner.reservations
        (decision,) = run_cycle(planner.snapshot.copy(), [head], planner.settings, time[0], gate=gate)
        assert decision.status == "waiting"
        assert decision.requeue_reason in {"NoQuota": ("NoFit", "NoCandidates"), "Reserved": ("Reserved",)}[reason]
        mark_inadmissible(pending, key, reason)

    class TimedStory(Story):
        def _schedule(self, now: float) -> None:
            time[0] = now
            super()._schedule(now)

    with patch.object(PendingWorkloads, "mark_inadmissible", check_and_mark):
        TimedStory(planner).play(jobs)


def test_an_inadmissible_workload_is_nominated_again_only_with_enough_headroom() -> None:
    """A new workload is nominated at once, so that it gets a reason."""
    small = [submission(f"s{i}", 2, 1 + i) for i in range(3)]
    played = story([queue("q", 6)], [*small, submission("big", 5, 5)], BackfillPolicy(reserve_after=float("inf")))
    nominated_at = [now for now, step in played.plans if "/big" in step.decisions]
    assert nominated_at == [0.0, 3.0]
    assert played.starts["/big"] == 3.0


class FewCpus:
    """From 4 s on, two CPUs are available, or four to a workload that preempts in its own queue."""

    now = 0.0
    version = 0

    def latest_end(self, queue: str, key: FlavorResource, amount: int, priority: int | None) -> float:
        assert (queue, key) == ("q", CPU)
        return 4.0 if amount > (2 if priority is None else 4) else inf


@pytest.mark.parametrize(
    ("amount", "topology", "reclaim", "cohort", "reason"),
    [
        (2, "", "Any", "c", ""),
        (3, "", "Any", "c", "Reserved"),
        (6, "", "Any", "c", "Reserved"),
        (7, "", "Never", "c", "NoQuota"),
        (4, "racks", "Never", "c", ""),
        (5, "racks", "Never", "c", "Reserved"),
        (5, "racks", "", "c", "Reserved"),
        (5, "racks", "Any", "c", ""),
        (5, "racks", "Any", "", "Reserved"),
        (4, "racks", "Any", "", ""),
    ],
)
def test_reservations_leave_less_than_is_available(
    amount: int, topology: str, reclaim: Any, cohort: str, reason: BoundReason
) -> None:
    """A workload without a placement may preempt in its own queue or, if that queue reclaims, in any queue."""
    preemption = ClusterQueuePreemption(reclaim_within_cohort=reclaim)
    flavors = [ResourceFlavor("any", topology_name=topology), ResourceFlavor("other", topology_name="racks")]
    snapshot = Snapshot([cpu_queue("q", 6, preemption, cohort)], resource_flavors=flavors)
    headroom = HeadroomBound(snapshot, QuotaSettings(), FewCpus())
    assert reason_of(headroom, "q", 0, 5.0, (((CPU, amount),),)) == reason
    without = Snapshot([cpu_queue("q", 6, preemption, cohort)])
    reserved = reason_of(HeadroomBound(without, QuotaSettings(), FewCpus()), "q", 0, 5.0, (((CPU, amount),),))
    assert reserved == ("NoQuota" if amount > 6 else "Reserved" if amount > 2 else "")


@pytest.mark.parametrize(
    ("reclaim", "fair_sharing", "affects"),
    [
        ("Any", False, False),
        ("Any", True, True),
        ("Never", False, True),
        ("LowerPriority", False, True),
        ("", False, True),
    ],
)
def test_an_inadmissible_head_affects_others_unless_its_queue_reclaims_all(
    reclaim: Any, *, fair_sharing: bool, affects: bool
) -> None:
    snapshot = Snapshot([cpu_queue("q", 6, ClusterQueuePreemption(reclaim_within_cohort=reclaim))])
    assert HeadroomBound(snapshot, QuotaSettings(fair_sharing=fair_sharing)).affects_cycle("q") == affects


@pytest.mark.parametrize(
    ("preemption", "fair_sharing", "bounds"),
    [
        (ClusterQueuePreemption(), False, (2, 2)),
        (ClusterQueuePreemption("LowerPriority"), False, (2, 5)),
        (ClusterQueuePreemption("LowerPriority", "Any"), False, (4, 5)),
        (ClusterQueuePreemption("LowerPriority", "Any"), True, (UNLIMITED, UNLIMITED)),
        (ClusterQueuePreemption("LowerPriority", "Any", "LowerPriority"), False, (UNLIMITED, UNLIMITED)),
    ],
)
def test_the_maximum_that_a_workload_can_have(
    preemption: ClusterQueuePreemption, bounds: tuple[int, int], *, fair_sharing: bool
) -> None:
    """The priorities are 0 and 1. The queue uses 3 of 5, its cohort 4 of 8, and the tree 9 of 11."""
    cohorts = [Cohort("root"), Cohort("left", "root")]
    queues = [
        cpu_queue("q", 5, preemption, "left"),
        cpu_queue("near", 3, cohort="left"),
        cpu_queue("far", 3, cohort="root"),
    ]
    snapshot = Snapshot(queues, cohorts)
    for name, amount in (("q", 3), ("near", 1), ("far", 5)):
        snapshot.add_workload(running_workload(name, name, CPU, amount))
    headroom = HeadroomBound(snapshot, QuotaSettings(fair_sharing=fair_sharing))
    for priority, bound in enumerate(bounds):
        for amount, reason in ((bound, ""), (bound + 1, "NoQuota")):
            assert reason_of(headroom, "q", priority, 5.0, (((CPU, amount),),)) == reason


@pytest.mark.parametrize(
    ("near", "far", "bound"), [(3, 3, 5), (8, 3, 5), (3, 8, 5), (0, 11, 8), (8, 0, 5), (0, 0, 11), (1, 0, 10)]
)
def test_an_idle_queue_that_reclaims_can_have_the_unused_quota_of_its_subtree(near: int, far: int, bound: int) -> None:
    """These are its own 5 CPUs, or the unused CPUs of its cohort of 8, or those of the tree of 11."""
    queues = [
        cpu_queue("q", 5, ClusterQueuePreemption(reclaim_within_cohort="Any"), "left"),
        cpu_queue("near", 3, cohort="left"),
        cpu_queue("far", 3, cohort="root"),
    ]
    snapshot = Snapshot(queues, [Cohort("root"), Cohort("left", "root")])
    for name, amount in (("near", near), ("far", far)):
        if amount:
            snapshot.add_workload(running_workload(name, name, CPU, amount))
    headroom = HeadroomBound(snapshot, QuotaSettings())
    for amount, reason in ((bound, ""), (bound + 1, "NoQuota")):
        assert reason_of(headroom, "q", 0, 5.0, (((CPU, amount),),)) == reason


@pytest.mark.parametrize(("walltime", "reason"), [(3.0, ""), (4.0, ""), (4.5, "Reserved"), (inf, "Reserved")])
def test_a_workload_may_run_until_a_reserved_start(walltime: float, reason: BoundReason) -> None:
    headroom = HeadroomBound(Snapshot([cpu_queue("q", 6)]), QuotaSettings(), FewCpus())
    assert reason_of(headroom, "q", 0, walltime, (((CPU, 3),),)) == reason


def test_a_workload_may_run_for_as_long_as_in_the_best_of_its_flavors() -> None:
    """The first flavor has too few CPUs from 4 s on."""
    other = CPU._replace(flavor="other")
    spec = ClusterQueue("q", tuple(
        resource_group(FlavorQuotas(key.flavor, ((key.resource, ResourceQuota(6)),))) for key in (CPU, other)
    ))  # fmt: skip
    future = FewCpus()
    headroom = HeadroomBound(Snapshot([spec]), QuotaSettings(), future)

    def latest_end(_queue: str, key: FlavorResource, _amount: int, _priority: int | None) -> float:
        return 4.0 if key == CPU else 9.0

    with patch.object(future, "latest_end", latest_end):
        for walltime, reason in ((5.0, ""), (9.5, "Reserved")):
            assert reason_of(headroom, "q", 0, walltime, (((CPU, 3),), ((other, 3),))) == reason


@pytest.mark.parametrize(("limit", "applies"), [(1, False), (2, True), (3, True)])
def test_bounds_apply_to_one_snapshot_and_its_reservations_until_they_have_many_shapes(
    limit: int, *, applies: bool
) -> None:
    snapshot, future = Snapshot([cpu_queue("q", 6)]), FewCpus()
    headroom = HeadroomBound(snapshot, QuotaSettings(), future)
    for amount in (1, 2):
        reason_of(headroom, "q", 0, 5.0, (((CPU, amount),),))
    with patch.object(headroom_bound, "MAX_SHAPES", limit):
        assert headroom.applies_to(snapshot, future) is applies
        assert not headroom.applies_to(Snapshot([cpu_queue("q", 6)]), future)
        assert not headroom.applies_to(snapshot, FewCpus())
        assert not headroom.applies_to(snapshot, None)


@pytest.mark.parametrize("changes", [0, 1, 2])
def test_bounds_are_computed_again_once_reservations_have_changed(changes: int) -> None:
    """`changes`: the number of earlier changes of the snapshot."""
    future = FewCpus()
    headroom = HeadroomBound(Snapshot([cpu_queue("q", 6)]), QuotaSettings(), future)
    for _ in range(changes):
        headroom.invalidate()
    assert reason_of(headroom, "q", 0, 5.0, (((CPU, 3),),)) == "Reserved"
    with patch.object(future, "latest_end", return_value=inf):
        assert reason_of(headroom, "q", 0, 5.0, (((CPU, 3),),)) == "Reserved"
        future.version += 1
        assert reason_of(headroom, "q", 0, 5.0, (((CPU, 3),),)) == ""


@pytest.mark.parametrize("within", ["Never", "LowerPriority"])
@pytest.mark.parametrize(("limit", "bounds"), [(None, (9, 9)), (1, (9, 5))])
def test_queues_share_bounds_only_if_they_can_have_the_same(
    within: Any, limit: int | None, bounds: tuple[int, int]
) -> None:
    """Of two queues with 4 and 5 CPUs, the first borrows up to a limit; it preempts workloads of its own if it may."""
    specs = [
        queue("limited", 4, cohort="c", borrowing_limit=limit, preemption=ClusterQueuePreemption(within)),
        queue("free", 5, cohort="c"),
    ]
    headroom = HeadroomBound(Snapshot(specs), QuotaSettings())
    for name, bound in zip(("free", "limited"), bounds, strict=True):
        for amount, reason in ((bound, ""), (bound + 1, "NoQuota")):
            assert reason_of(headroom, name, 0, 5.0, (((ALL, amount),),)) == reason


def test_a_queue_beyond_its_quota_admits_requests_of_0() -> None:
    snapshot = Snapshot([cpu_queue("q", 2)])
    snapshot.add_workload(running_workload("w", "q", CPU, 5))
    headroom = HeadroomBound(snapshot, QuotaSettings())
    assert [reason_of(headroom, "q", 0, 5.0, (((CPU, amount),),)) for amount in (0, 1)] == ["", "NoQuota"]


def test_only_usage_of_the_resource_is_preemptible() -> None:
    """Priorities, even large ones, are compared by value."""
    preemption = ClusterQueuePreemption("LowerOrNewerEqualPriority")
    snapshot = Snapshot([cpu_queue("q", 9, preemption)])
    snapshot.add_workload(running_workload("cpu", "q", CPU, 2, 1000))
    snapshot.add_workload(running_workload("gpu", "q", CPU._replace(resource="gpu"), 4, -1000))
    assert preemptible_usage(snapshot.cluster_queues["q"], int("1000"), CPU) == 2

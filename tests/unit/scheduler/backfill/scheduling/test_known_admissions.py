"""Starts of sample paths without a nomination, compared with those that nominations lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_planner, submission
from unit.scheduler.backfill.reservations.test_reservation import NAMES, POLICIES, submission_lists
from zonewise_scheduler.backfill.policies import BackfillPolicy, policy_named
from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, FlavorFungibility
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.scheduling.pass_state import PassState
    from zonewise_scheduler.backfill.types import Plan


class NoKnownAdmissions(KnownAdmissions):
    """Nominates every head."""

    def start(self, pass_state: PassState, name: str, key: str) -> bool:
        return False


def two_flavors(
    name: str,
    fast: int,
    slow: int,
    *,
    borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch",
    within: Literal["Never", "LowerPriority"] = "Never",
) -> ClusterQueue:
    group = resource_group(
        FlavorQuotas("fast", (("cpu", ResourceQuota(fast)),)), FlavorQuotas("slow", (("cpu", ResourceQuota(slow)),))
    )
    return ClusterQueue(
        name,
        (group,),
        "team",
        flavor_fungibility=FlavorFungibility(when_can_borrow=borrow),
        preemption=ClusterQueuePreemption(within),
    )


def admissions(plan: Plan) -> list[tuple[str, object]]:
    return [(workload.key, workload.admission) for workload in plan.admitted]


def test_the_second_workload_of_a_shape_starts_without_a_nomination() -> None:
    planner = make_planner([two_flavors("q", 2, 2)], policy_named("greedy"))
    for name in "abc":
        events.submit(planner, submission(name, 1, 9).workload, "q")
    plan = schedule(planner, 0, known=KnownAdmissions())
    assert [workload.key for workload in plan.admitted] == ["/a", "/b", "/c"]
    assert set(plan.decisions) == {"/a", "/c"}, "the flavor of c is not known yet"


@pytest.mark.parametrize("borrow", ["MayStopSearch", "TryNextFlavor"])
def test_a_flavor_that_must_be_borrowed_ends_the_scan_only_if_the_queue_says_so(
    borrow: Literal["MayStopSearch", "TryNextFlavor"],
) -> None:
    """The queue has one CPU of the first flavor, and the other queue lends another one."""
    planner = make_planner([two_flavors("q", 1, 2, borrow=borrow), two_flavors("lender", 1, 0)], policy_named("greedy"))
    for name in "ab":
        events.submit(planner, submission(name, 1, 9).workload, "q")
    plan = schedule(planner, 0, known=KnownAdmissions())
    flavors = [dict(workload.admission.pod_sets[0].flavors)["cpu"] for workload in plan.admitted if workload.admission]
    assert flavors == ["fast", "fast" if borrow == "MayStopSearch" else "slow"]


@given(
    st.sampled_from([*POLICIES, BackfillPolicy(overtaking=False)]),
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.integers(0, 5),
            st.sampled_from(["MayStopSearch", "TryNextFlavor"]),
            st.sampled_from(["Never", "LowerPriority"]),
        ),
        min_size=len(NAMES),
        max_size=len(NAMES),
    ),
    submission_lists(),
)
def test_a_start_without_a_nomination_is_the_one_that_the_nomination_leads_to(
    policy: BackfillPolicy,
    quotas: list[tuple[int, int, Literal["MayStopSearch", "TryNextFlavor"], Literal["Never", "LowerPriority"]]],
    submissions: list[Submission],
) -> None:
    specs = [
        two_flavors(name, fast, slow, borrow=borrow, within=within)
        for name, (fast, slow, borrow, within) in zip(NAMES, quotas, strict=True)
    ]
    planners = [(new_state(Snapshot(specs), policy), known()) for known in (KnownAdmissions, NoKnownAdmissions)]
    for each in submissions:
        plans: list[Plan] = []
        for planner, known in planners:
            events.submit(planner, each.workload, each.queue)
            plans.append(schedule(planner, each.workload.created_at, known=known))
            if len(planner.running) > 2:
                events.finish(planner, next(iter(planner.running)))
        assert admissions(plans[0]) == admissions(plans[1])
        assert plans[0].wake_at == plans[1].wake_at

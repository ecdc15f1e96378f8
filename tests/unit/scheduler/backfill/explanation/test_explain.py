"""Explanations: one scenario for each kind of reason."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from support.planner_stories import Submission, make_workload, queue, submission
from support.tas_clusters import Host, job, pods_of, snapshot_of
from support.tas_clusters import preempting_queue as placed_queue
from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.taints import Taint
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.explanation import Explanation, QuotaShortage
from zonewise_scheduler.backfill.explanation.message import explanation_message, format_duration
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.backfill.types import ReservedStart
from zonewise_scheduler.controller.status.pending_note import pending_reason
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.state.planner_state import PlannerState


def explain_after(
    key: str, *submissions: Submission, queues: Sequence[ClusterQueue] = (), policy: str = "greedy", now: float = 0
) -> Explanation:
    """Explain a workload after all were submitted at their times; the default is one queue of 8 CPUs."""
    return explain(state_after(*submissions, queues=queues, policy=policy), key, now)


def state_after(*submissions: Submission, queues: Sequence[ClusterQueue] = (), policy: str = "greedy") -> PlannerState:
    planner = new_state(Snapshot(queues or [queue("q", 8000)]), policy_named(policy, 0.0))
    for one in submissions:
        events.submit(planner, one.workload, one.queue)
        schedule(planner, one.workload.created_at)
    return planner


# --- quotas


def test_a_queue_without_cohort_lacks_quota() -> None:
    """Of two running workloads, the explanation names the one that must end."""
    explanation = explain_after("/c", submission("a", 2000, 10), submission("b", 5000, 30), submission("c", 4000, 10))
    lack = QuotaShortage("all", "cpu", 4000, 1000, "nominal", "q", 8000)
    assert explanation == Explanation("/c", "q", 1, 0, shortages=(lack,), waits_for=("/b",), start=30)
    assert explanation_message(explanation) == (
        "needs 4 CPUs of flavor all; ClusterQueue q has 1 of its 8 left; waits for /b to end; "
        "could start in 30 s unless others start first"
    )


def test_all_workloads_that_must_end_are_named() -> None:
    explanation = explain_after(
        "/d",
        *(submission(name, 2000, run) for name, run in (("a", 10), ("b", 40), ("c", 20))),
        submission("d", 7000, 1),
    )
    assert explanation.waits_for == ("/a", "/c", "/b")
    assert explanation.start == 40


def test_of_many_workloads_that_end_by_the_start_only_the_necessary_ones_are_named() -> None:
    """The last two free 6 CPUs; the workload would fit without the end of the first two."""
    sizes = (("a", 1000, 10), ("b", 1000, 20), ("c", 1000, 30), ("d", 5000, 40))
    explanation = explain_after("/e", *(submission(*size) for size in sizes), submission("e", 6000, 1))
    assert (explanation.waits_for, explanation.start) == (("/c", "/d"), 40)


def test_a_borrowing_limit_binds() -> None:
    team = [queue("q", 4000, cohort="team", borrowing_limit=2000), queue("other", 8000, cohort="team")]
    explanation = explain_after("/b", submission("a", 5000, 10), submission("b", 1500, 10), queues=team)
    assert explanation.shortages == (QuotaShortage("all", "cpu", 1500, 1000, "borrowing", "q", 2000),)
    assert explanation_message(explanation).startswith(
        "needs 1.5 CPUs of flavor all; q may borrow 2 at most, and has 1 left; "
    )


def test_a_borrowing_limit_binds_if_the_cohort_has_exactly_as_much() -> None:
    """The borrowing limit is as close as the cohort's quota, so it is named even if nothing is borrowed."""
    for lending_limit, use in ((1000, 500), (1000, 0), (4000, 500), (4000, 0)):
        team = [
            queue("q", 4000, cohort="team", borrowing_limit=2000, lending_limit=lending_limit),
            queue("other", 8000, cohort="team"),
        ]
        explanation = explain_after(
            "/b",
            submission("x", 6000, 10, queue="other"),
            submission("a", use, 10),
            submission("b", 6000 - use + 1, 10),
            queues=team,
        )
        lack = QuotaShortage("all", "cpu", 6001 - use, 6000 - use, "borrowing", "q", 2000, exceeds_max_quota=not use)
        assert explanation.shortages == (lack,)


@pytest.mark.parametrize(("others", "use"), [(8000, 6001), (1999, 0)])
def test_a_cohort_binds_if_it_has_less_than_may_be_borrowed(others: int, use: int) -> None:
    """The cohort has one thousandth of a CPU less, either now or even when it is empty."""
    team = [queue("q", 4000, cohort="team", borrowing_limit=2000), queue("other", others, cohort="team")]
    explanation = explain_after("/b", submission("x", use, 10, queue="other"), submission("b", 6000, 10), queues=team)
    lack = QuotaShortage("all", "cpu", 6000, 5999, "cohort", "team", 4000 + others, exceeds_max_quota=not use)
    assert explanation.shortages == (lack,)


def test_a_cohort_lacks_quota_that_another_queue_does_not_lend() -> None:
    team = [queue("q", 4000, cohort="team"), queue("other", 8000, cohort="team", lending_limit=2000)]
    explanation = explain_after("/b", submission("a", 5000, 10), submission("b", 3000, 10), queues=team)
    assert explanation.shortages == (QuotaShortage("all", "cpu", 3000, 1000, "cohort", "team", 6000, not_lent=6000),)
    assert explanation_message(explanation).startswith(
        "needs 3 CPUs of flavor all; cohort team has 1 of its 6 left, and 6 more that its queues do not lend; "
    )


@pytest.mark.parametrize(
    ("cpus", "available", "not_lent", "exceeds_max_quota"), [(3000, 1000, 5000, False), (7000, 6000, 6000, True)]
)
@pytest.mark.parametrize("nested", [False, True])
def test_quota_not_lent_counts_what_is_unused_or_all_of_it_if_the_empty_tree_is_too_small(
    cpus: int, available: int, not_lent: int, exceeds_max_quota: bool, nested: bool
) -> None:
    """The other queue uses 1 of the 6 CPUs that it does not lend. It is in the same cohort or in one below it."""
    specs = [
        queue("q", 4000, cohort="team"),
        queue("other", 8000, cohort="sub" if nested else "team", lending_limit=2000),
    ]
    planner = new_state(Snapshot(specs, [Cohort("sub", parent_name="team")]), policy_named("greedy", 0.0))
    for one in (
        submission("x", 1000, 10, queue="other"),
        submission("a", 5000, 10),
        submission("b", cpus, 10),
    ):
        events.submit(planner, one.workload, one.queue)
        schedule(planner, 0)
    lack = QuotaShortage("all", "cpu", cpus, available, "cohort", "team", 6000, not_lent, exceeds_max_quota)
    assert explain(planner, "/b", 0).shortages == (lack,)


def test_quota_not_lent_is_not_named_if_a_borrowing_limit_binds() -> None:
    team = [
        queue("q", 4000, cohort="team", borrowing_limit=1000),
        queue("other", 8000, cohort="team", lending_limit=2000),
    ]
    explanation = explain_after("/b", submission("a", 4000, 10), submission("b", 2000, 10), queues=team)
    assert explanation.shortages == (QuotaShortage("all", "cpu", 2000, 1000, "borrowing", "q", 1000),)


def test_without_a_cohort_a_borrowing_limit_does_not_count() -> None:
    explanation = explain_after(
        "/b", submission("a", 3000, 10), submission("b", 2000, 10), queues=[queue("q", 4000, borrowing_limit=500)]
    )
    assert explanation.shortages == (QuotaShortage("all", "cpu", 2000, 1000, "nominal", "q", 4000),)


def test_a_queue_that_uses_more_than_its_quota_has_nothing_left() -> None:
    """Its quota was reduced while a workload ran."""
    planner = state_after(submission("a", 8000, 10), submission("b", 2000, 10))
    events.reconfigure(planner, QueueConfiguration((queue("q", 4000),)))
    assert explain(planner, "/b", 0).shortages == (QuotaShortage("all", "cpu", 2000, 0, "nominal", "q", 4000),)


@pytest.mark.parametrize(
    ("spec", "lack", "clause"),
    [
        (
            {},
            QuotaShortage("all", "cpu", 9000, 8000, "nominal", "q", 8000, exceeds_max_quota=True),
            "ClusterQueue q has 8",
        ),
        (
            {"cohort": "team", "borrowing_limit": 0},
            QuotaShortage("all", "cpu", 9000, 8000, "borrowing", "q", 0, exceeds_max_quota=True),
            "q may borrow 0 at most, and has 8",
        ),
        (
            {"cohort": "team"},
            QuotaShortage("all", "cpu", 9000, 8000, "cohort", "team", 8000, exceeds_max_quota=True),
            "cohort team has 8",
        ),
    ],
)
def test_a_request_over_the_max_quota_never_starts(spec: dict[str, Any], lack: QuotaShortage, clause: str) -> None:
    explanation = explain_after("/a", submission("a", 9000, 10), queues=[queue("q", 8000, **spec)])
    assert explanation == Explanation("/a", "q", 1, 0, shortages=(lack,), never_fits=True)
    assert (
        explanation_message(explanation)
        == f"needs 9 CPUs of flavor all; {clause}; cannot start even when all other workloads have ended"
    )


def test_a_workload_behind_a_reserved_one_without_a_walltime_fits_later() -> None:
    """The reserved workload holds its CPUs for an unknown time, but not for ever."""
    explanation = explain_after(
        "/c",
        submission("a", 6000, inf),
        submission("b", 3000, inf),
        submission("c", 8000, inf),
        policy="easy",
    )
    assert not explanation.never_fits
    assert explanation.waits_for == ("/a",)
    assert explanation.start == inf
    assert explanation_message(explanation).endswith("has 2 of its 8 left; waits for /a to end")


def test_without_a_walltime_the_start_is_unknown() -> None:
    explanation = explain_after("/b", submission("a", 8000, inf), submission("b", 1000, 10))
    assert (explanation.waits_for, explanation.start) == (("/a",), inf)
    assert explanation_message(explanation).endswith("ClusterQueue q has 0 of its 8 left; waits for /a to end")


# --- flavors


def flavored(**flavors: int) -> tuple[ClusterQueue, ...]:
    quotas = (FlavorQuotas(name, (("cpu", ResourceQuota(cpus)),)) for name, cpus in flavors.items())
    return (ClusterQueue("q", (resource_group(*quotas),)),)


def test_each_flavor_has_its_own_reason() -> None:
    specs = flavored(spot=8000, plain=2000)
    flavors = [ResourceFlavor("spot", node_taints=(Taint("spot", "", "NoSchedule"),)), ResourceFlavor("plain")]
    planner = new_state(Snapshot(specs, resource_flavors=flavors), policy_named("greedy"))
    one = submission("a", 3000, 10)
    events.submit(planner, one.workload, "q")
    schedule(planner, 0)
    explanation = explain(planner, "/a", 0)
    assert explanation.never_fits
    assert explanation_message(explanation) == (
        "flavor spot: taint spot:NoSchedule is not tolerated; needs 3 CPUs of flavor plain; ClusterQueue q has 2; "
        "cannot start even when all other workloads have ended"
    )


def test_flavors_that_were_tried_before_one_that_fits_have_their_reasons() -> None:
    """The job fits in the second flavor but would delay a reservation in it."""
    specs = flavored(spot=8000, plain=8000)
    flavors = [ResourceFlavor("spot", node_taints=(Taint("spot", "", "NoSchedule"),)), ResourceFlavor("plain")]
    planner = new_state(Snapshot(specs, resource_flavors=flavors), policy_named("easy"))
    for at, (name, cpus, run) in enumerate((("runs", 6000, 10), ("waits", 8000, 10), ("long", 2000, 20))):
        events.submit(planner, submission(name, cpus, run, at=at).workload, "q")
    schedule(planner, 2)
    message = explanation_message(explain(planner, "/long", 2))
    assert message.startswith("flavor spot: taint spot:NoSchedule is not tolerated; would delay /waits, ")


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "rdma/hca", "mellanox.com/hca"])
def test_a_resource_without_quota(resource: str) -> None:
    """The flavors of the other resources may be tried before this resource or after it (hash_resource_name)."""
    one = submission("a", 1000, 10)
    pods = (PodSet(requests={"cpu": 1000, resource: 1}),)
    explanation = explain_after("/a", one._replace(workload=replace(one.workload, pod_sets=pods)))
    assert pending_reason(explanation) == "NoMatchingFlavor"
    assert (
        explanation_message(explanation)
        == f"{resource}: the queue has no quota for it; cannot start even when all other workloads have ended"
    )


# --- topology


def test_no_domain_has_capacity() -> None:
    hosts = [Host("n1", "r1", 4000), Host("n2", "r2", 4000)]
    planner = new_state(snapshot_of([placed_queue("q", 8000)], hosts), policy_named("greedy"))
    for index, size in enumerate((3000, 2000, 3000)):
        events.submit(planner, replace(job(f"j{index}", pods_of(size), created=index), walltime=10 * (index + 1)), "q")
        schedule(planner, index)
    explanation = explain(planner, "ns/j2", 5)
    assert explanation.placement_failure is not None
    assert explanation.placement_failure.flavor == "all"
    assert (explanation.shortages, explanation.unsuitable_flavors) == ((), ())
    assert (explanation.waits_for, explanation.start) == (("ns/j0",), 10)
    assert explanation_message(explanation).startswith(
        'flavor all: topology "racks" doesn\'t allow to fit any of 1 pod(s). '
    )


# --- time


def test_a_workload_that_would_delay_a_reservation_does_not_start() -> None:
    planner = state_after(
        submission("a", 5000, 10), submission("b", 8000, 10), submission("c", 2000, 20), policy="easy"
    )
    explanation = explain(planner, "/c", 0)
    assert explanation.delayed_reservation == ReservedStart("/b", planner.reservations.by_key["/b"].start)
    assert (explanation.shortages, explanation.start, explanation.reserved) == ((), 20, False)
    assert explanation_message(explanation) == (
        "would delay /b, which is reserved to start in 10 s at the latest; waits for /b to end; "
        "could start in 20 s unless others start first"
    )


def test_a_reserved_workload_knows_its_start() -> None:
    planner = state_after(submission("a", 5000, 10), submission("b", 8000, 10), policy="easy")
    explanation = explain(planner, "/b", 3)
    assert (explanation.waits_for, explanation.start, explanation.reserved) == (("/a",), 10, True)
    assert explanation_message(explanation).endswith("; waits for /a to end; is reserved to start in 7 s at the latest")


def test_a_reservation_with_an_unknown_start() -> None:
    explanation = explain_after("/b", submission("a", 5000, inf), submission("b", 8000, 10), policy="easy")
    assert explanation_message(explanation).endswith(
        "is reserved to start at an unknown time, since workloads without a walltime must end first"
    )


# --- order


def test_behind_the_head_of_a_strict_queue() -> None:
    explanation = explain_after(
        "/c", submission("a", 5000, 10), submission("b", 8000, 10), submission("c", 1000, 1), policy="fifo"
    )
    assert explanation == Explanation("/c", "q", 2, 0, blocked_by="/b")
    assert explanation_message(explanation) == "/b is before it in ClusterQueue q and must start first"


def test_a_workload_of_a_namespace_that_a_strict_queue_does_not_select_is_no_head() -> None:
    selecting = queue("q", 8000)._replace(
        namespace_selector=(Requirement("team", "In", ("a",)),), queueing_strategy="StrictFIFO"
    )
    planner = new_state(Snapshot([selecting]), policy_named("greedy", 0.0))
    events.reconfigure(planner, QueueConfiguration((selecting,), namespaces={"ns": {"team": "b"}, "": {"team": "a"}}))
    first, second = submission("first", 8000, 10), submission("second", 8000, 10)
    for workload in (make_workload("other", 8000), first.workload, second.workload):
        events.submit(planner, workload, "q")
    assert [workload.key for workload in schedule(planner, 0).admitted] == ["/first"]
    explanation = explain(planner, "/second", 0)
    assert (explanation.blocked_by, explanation.waits_for) == ("", ("/first",))


@pytest.mark.parametrize("names", ["az", "za"])
def test_the_head_of_a_strict_queue_is_not_behind_itself(names: str) -> None:
    """Keys are compared by value, not by identity, and the order of the names does not matter."""
    first, second = names
    planner = state_after(
        submission("runs", 5000, 10),
        submission(first, 8000, 10, at=1),
        submission(second, 1000, 1, at=2),
        policy="fifo",
    )
    assert [explain(planner, "".join(["/", name]), 2).blocked_by for name in names] == ["", f"/{first}"]


@pytest.mark.parametrize("name", ["high", "zenith"])
@pytest.mark.parametrize(("now", "is_behind"), [(-1.0, False), (0.0, True), (float("2"), True)])
def test_behind_a_preemptor_from_its_start_on(name: str, now: float, is_behind: bool) -> None:
    """Only a workload that could otherwise start is behind the preemptor; another one lacks quota."""
    specs = [queue("q", 8000, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = state_after(
        submission("a", 4000, 10),
        submission(name, 8000, 10, priority=1),
        submission("small", 1000, 1),
        submission("wide", 8000, 1),
        queues=specs,
    )
    assert explain(planner, "/small", now).blocked_by == (f"/{name}" if is_behind else "")
    assert explain(planner, "/wide", now).blocked_by == ""
    assert explain(planner, f"/{name}", now).blocked_by == ""


def test_a_preemptor_waits_for_its_victims() -> None:
    specs = [queue("q", 8000, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = state_after(
        submission("a", 8000, 10),
        submission("high", 8000, 10, priority=1),
        submission("z", 1000, 1, priority=1),
        queues=specs,
    )
    explanation = explain(planner, "/high", 0)
    assert (explanation.victims, explanation.start, explanation.reserved) == (("/a",), 0, True)
    assert explanation_message(explanation).endswith("has to preempt /a; is reserved to start now")
    assert explain(planner, "/z", 0).delayed_reservation is not None or explain(planner, "/z", 0).blocked_by == "/high"


def test_a_gated_workload_preempts_nothing() -> None:
    specs = [queue("q", 8000, preemption=ClusterQueuePreemption("LowerPriority"))]
    high = submission("high", 8000, 10, priority=1)
    explanation = explain_after(
        "/high",
        submission("a", 8000, 10),
        high._replace(workload=replace(high.workload, preemption_gated=True)),
        queues=specs,
    )
    assert explanation.gated
    assert "would have to preempt: its preemption gate is closed" in explanation_message(explanation)


def test_a_stopped_queue_admits_nothing() -> None:
    explanation = explain_after("/a", submission("a", 1000, 1), queues=[queue("q", 8000)._replace(stop_policy="Hold")])
    assert explanation == Explanation("/a", "q", 1, 0, queue_message="ClusterQueue q is inactive: stopPolicy is Hold")
    assert explanation_message(explanation) == "ClusterQueue q is inactive: stopPolicy is Hold"


@pytest.mark.parametrize("cpus", [1000, 9000])
def test_a_stopped_queue_or_a_failed_check_is_the_whole_reason(cpus: int) -> None:
    """The reason is the same whether or not quota is available."""
    one = submission("a", cpus, 1)
    stopped = explain_after("/a", one, queues=[queue("q", 8000)._replace(stop_policy="Hold")])
    assert stopped == Explanation("/a", "q", 1, 0, queue_message="ClusterQueue q is inactive: stopPolicy is Hold")
    failed = explain_after("/a", one._replace(workload=replace(one.workload, failed_checks=("budget",))))
    assert failed == Explanation("/a", "q", 1, 0, failed_checks=("budget",))


def test_a_queue_is_not_for_all_namespaces() -> None:
    explanation = explain_after(
        "/a", submission("a", 1000, 1), queues=[queue("q", 8000)._replace(namespace_selector=None)]
    )
    assert explanation_message(explanation) == "ClusterQueue q is not for namespace "


def test_an_inadmissible_workload_has_a_message() -> None:
    one = submission("a", 1000, 1)
    explanation = explain_after("/a", one._replace(workload=replace(one.workload, active=False)))
    assert (explanation.position, explanation_message(explanation)) == (0, "it is deactivated")


def test_failed_checks_are_named() -> None:
    one = submission("a", 1000, 1)
    explanation = explain_after("/a", one._replace(workload=replace(one.workload, failed_checks=("budget", "safety"))))
    assert explanation == Explanation("/a", "q", 1, 0, failed_checks=("budget", "safety"))
    assert explanation_message(explanation) == "its admission checks budget and safety have failed"


def test_without_any_reason_the_next_pass_decides() -> None:
    planner = state_after()
    events.submit(planner, submission("a", 1000, 1).workload, "q")
    assert (
        explanation_message(explain(planner, "/a", 0))
        == "is number 1 in ClusterQueue q; the next scheduling pass decides"
    )


def test_workloads_of_one_shape_have_the_same_reason() -> None:
    planner = state_after(submission("a", 8000, 10), *(submission(name, 2000, 10) for name in "bcd"))
    explanations = [explain(planner, key, 0) for key in ("/b", "/c", "/d")]
    assert [explanation.position for explanation in explanations] == [1, 2, 3]
    assert len({explanation._replace(key="", position=0) for explanation in explanations}) == 1


def test_a_workload_that_is_not_pending_has_no_explanation() -> None:
    with pytest.raises(KeyError):
        explain_after("/a", submission("a", 1000, 1))


def test_durations_have_at_most_two_units() -> None:
    told = [format_duration(one) for one in (0, 59.6, 90, 3600, 7830, 86400 * 3 + 4 * 3600 + 59)]
    assert told == ["0 s", "1 min", "1 min 30 s", "1 h", "2 h 10 min", "3 d 4 h"]

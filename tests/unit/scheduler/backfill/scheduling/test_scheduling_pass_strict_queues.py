"""In a StrictFIFO queue no workload starts before the head, however many passes there are."""

from __future__ import annotations

from typing import Literal

import pytest

from support.planner_stories import make_planner, queue, submission
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
from zonewise_scheduler.backfill.scheduling.pass_state import MIN_RUN_TIME
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group

PASSES = 4
STRICT = queue("q", 4)._replace(queueing_strategy="StrictFIFO")


def known(*, exact: bool) -> KnownAdmissions | None:
    """Return no known admissions for passes of the planner, and an empty collection for those of a sample path."""
    return None if exact else KnownAdmissions()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("policy", ["greedy", "easy", "easy-sjbf", "depth-2", "conservative"])
def test_the_head_blocks_its_queue_even_if_it_can_never_start(policy: str, exact: bool) -> None:
    planner = make_planner([STRICT], policy_named(policy))
    for submitted in (submission("a-wide", 9, 10, limit=10), submission("b-small", 1, 10, at=1, limit=20)):
        events.submit(planner, submitted.workload, "q")
    assert [schedule(planner, now, known=known(exact=exact)).admitted for now in range(PASSES)] == [()] * PASSES
    events.withdraw(planner, "/a-wide")
    assert [workload.key for workload in schedule(planner, PASSES, known=known(exact=exact)).admitted] == ["/b-small"]


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("policy", ["greedy", "easy", "easy-sjbf", "depth-2", "conservative"])
def test_no_workload_overtakes_a_reserved_head(policy: str, exact: bool) -> None:
    planner = make_planner([STRICT], policy_named(policy))
    events.submit(planner, submission("runs", 3, 30, limit=30).workload, "q")
    assert [workload.key for workload in schedule(planner, 0, known=known(exact=exact)).admitted] == ["/runs"]
    for submitted in (submission("a-wide", 4, 10, limit=10), submission("b-small", 1, 20, at=1, limit=20)):
        events.submit(planner, submitted.workload, "q")
    assert [schedule(planner, now, known=known(exact=exact)).admitted for now in range(1, PASSES)] == [()] * (
        PASSES - 1
    )
    events.finish(planner, "/runs")
    assert [workload.key for workload in schedule(planner, PASSES, known=known(exact=exact)).admitted] == ["/a-wide"]


@pytest.mark.parametrize("exact", [True, False])
def test_the_head_tries_its_other_flavors_in_the_same_pass(exact: bool) -> None:
    """In the first flavor, it would delay a reservation of its cohort."""
    one, two = (FlavorQuotas(name, (("cpu", ResourceQuota(size)),)) for name, size in (("one", 6), ("two", 7)))
    strict = STRICT._replace(resource_groups=(resource_group(one, two),), cohort_name="c")
    small = queue("small", 3)._replace(
        resource_groups=(resource_group(one._replace(quotas=(("cpu", ResourceQuota(3)),))),), cohort_name="c"
    )
    planner = make_planner([small, strict], policy_named("easy"))
    for now, name, cpus, limit, to in ((0, "runs", 4, 14, "q"), (1, "wide", 8, 3, "small"), (2, "head", 4, 99, "q")):
        events.submit(planner, submission(name, cpus, limit, at=now, limit=limit).workload, to)
        plan = schedule(planner, now, known=known(exact=exact))
    assert [workload.key for workload in plan.admitted] == ["/head"]


@pytest.mark.parametrize("reclaim", ["Never", "LowerPriority", "Any"])
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_a_waiting_head_holds_its_quota_in_each_cycle(
    strategy: Literal["StrictFIFO", "BestEffortFIFO"], reclaim: Literal["Never", "LowerPriority", "Any"]
) -> None:
    """Others of its cohort borrow this quota only if the head can always reclaim it, or if its queue is not strict."""
    holder = queue("holder", 5, cohort="c", preemption=ClusterQueuePreemption(reclaim_within_cohort=reclaim))
    queues = [holder._replace(queueing_strategy=strategy), queue("borrower", 10, cohort="c")]
    planner = make_planner(queues, policy_named("greedy"))
    jobs = (("runs", 3, 0, "holder"), ("head", 3, 1, "holder"), ("own", 10, 0, "borrower"), ("small", 1, 2, "borrower"))
    for name, cpus, at, to in jobs:
        events.submit(planner, submission(name, cpus, 10, at=at).workload, to)
    admitted = [workload.key for now in range(PASSES) for workload in schedule(planner, now).admitted]
    may_borrow = reclaim == "Any" or strategy == "BestEffortFIFO"
    assert sorted(admitted) == ["/own", "/runs", *(["/small"] if may_borrow else [])]
    events.finish(planner, "/runs")
    assert "/head" in [workload.key for workload in schedule(planner, PASSES).admitted]


def test_a_head_holds_its_quota_while_its_victims_are_young() -> None:
    """Otherwise, the next workload would borrow this quota, and would have to be preempted too."""
    owner = queue("owner", 2, cohort="c", preemption=ClusterQueuePreemption(reclaim_within_cohort="Any"))
    queues = [owner._replace(queueing_strategy="StrictFIFO"), queue("borrower", 0, cohort="c")]
    planner = make_planner(queues, policy_named("greedy"))
    planner.assumed = set()
    for name, cpus, to in (("runs", 1, "owner"), ("first", 1, "borrower"), ("second", 1, "borrower")):
        events.submit(planner, submission(name, cpus, 1000, limit=1000).workload, to)
    assert [workload.key for workload in schedule(planner, 0.0).admitted] == ["/runs", "/first"]
    events.submit(planner, submission("head", 2, 1000, at=1, limit=1000).workload, "owner")
    events.finish(planner, "/runs")
    assert not schedule(planner, 1.0).admitted
    planner.assumed.clear()  # the starts are observed
    assert [victim.workload.key for victim in schedule(planner, MIN_RUN_TIME).victims] == ["/first"]

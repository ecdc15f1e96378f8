"""The order in which a policy examines pending jobs, compared with a definition that sorts all jobs."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.pool_jobs import cpus, job
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.pool.easy import backfilled
from zonewise_scheduler.backfill.pool.job import queue_order
from zonewise_scheduler.backfill.pool.pending_order import PendingOrder
from zonewise_scheduler.backfill.pool.pool_state import PoolDecision, PoolState
from zonewise_scheduler.backfill.pool.shadow import Shadow

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pool.job import Job

HOUR = 3600.0
POLICIES = [
    *map(policy_named, (DEFAULT_POLICY, "easy", "easy-sjbf", "greedy")),
    BackfillPolicy(reserve_after=float("inf"), shortest_first=True),
]


@st.composite
def pending_jobs(draw: st.DrawFn) -> list[Job]:
    walltimes = st.sampled_from([1.0, HOUR, 2 * HOUR, 10 * HOUR, inf])
    fields = st.tuples(st.integers(0, 4), walltimes, st.sampled_from([0.0, HOUR, 90 * HOUR]), st.integers(-1, 2))
    return [
        job(serial, size, walltime, submitted, priority=priority)
        for serial, (size, walltime, submitted, priority) in enumerate(draw(st.lists(fields, max_size=12)))
    ]


def fits(one: Job, available: int) -> bool:
    return (available - one.request) & one.guards == one.guards


def by_definition(policy: BackfillPolicy, jobs: list[Job], now: float, available: int, shadow: Shadow) -> list[Job]:
    """Return, in the policy's order, the jobs that fit and end by the shadow time or fit beside the reserved job."""
    started: list[Job] = []
    start, extra = shadow
    for one in sorted(
        jobs, key=lambda one: (-one.priority, policy.backfill_key(one.walltime, one.submitted), *queue_order(one))
    ):
        ends_before = one.walltime < inf and now + one.walltime <= start
        if fits(one, available) and (ends_before or fits(one, extra)):
            started.append(one)
            available -= one.request
            extra -= 0 if ends_before else one.request
    return started


@given(pending_jobs(), st.sampled_from(POLICIES), st.integers(0, 8), st.integers(0, 4), st.sampled_from([0, HOUR, inf]))
def test_jobs_are_backfilled_as_if_all_were_sorted_and_tried(
    jobs: list[Job], policy: BackfillPolicy, free: int, extra: int, until: float
) -> None:
    now, shadow = 100 * HOUR, Shadow(100 * HOUR + until, cpus(extra))
    groups = PendingOrder(policy, jobs).fitting(cpus(free))
    assert list(backfilled(groups, now, cpus(free), shadow, ())) == by_definition(policy, jobs, now, cpus(free), shadow)


@given(pending_jobs(), st.sampled_from(POLICIES), st.sets(st.integers(0, 11)))
def test_excluded_jobs_use_no_amounts(jobs: list[Job], policy: BackfillPolicy, serials: set[int]) -> None:
    excluded = [one for one in jobs if one.serial in serials]
    rest = [one for one in jobs if one not in excluded]
    shadow = Shadow(101 * HOUR, cpus(2))
    groups = PendingOrder(policy, jobs).fitting(cpus(6))
    started = list(backfilled(groups, 100 * HOUR, cpus(6), shadow, excluded))
    assert started == by_definition(policy, rest, 100 * HOUR, cpus(6), shadow)


@given(pending_jobs(), st.sampled_from(POLICIES), st.lists(st.sampled_from([0, 1, 7, 20, 91, 200]), max_size=3))
def test_jobs_are_due_at_their_age_in_the_order_of_the_queue(
    jobs: list[Job], policy: BackfillPolicy, hours: list[int]
) -> None:
    order = PendingOrder(policy, jobs)
    for hour in sorted(hours):
        now = hour * HOUR
        due = [one for one in jobs if now - one.submitted >= policy.reserve_age(one.walltime)]
        assert list(order.due(now)) == sorted(due, key=queue_order)


@given(pending_jobs(), st.sampled_from(POLICIES), st.data())
def test_an_updated_order_equals_a_new_one_of_the_remaining_jobs(
    jobs: list[Job], policy: BackfillPolicy, data: st.DataObject
) -> None:
    """Jobs are added and removed before and after they are due; a copy does not change with its original."""
    order = PendingOrder(policy)
    left: list[Job] = []
    for one in jobs:
        order.add(one)
        left.append(one)
        list(order.due(95 * HOUR if data.draw(st.booleans()) else 0.0))
        if data.draw(st.booleans()):
            removed = data.draw(st.sampled_from(left))
            left.remove(removed)
            before, names = order.copy(), everything(order)
            order.remove(removed)
            assert everything(before) == names
    assert everything(order) == everything(PendingOrder(policy, left))


def everything(order: PendingOrder) -> tuple[list[Job], list[Job]]:
    """Return all jobs in backfill order without a reservation, and those that are due in the end."""
    now = 1000 * HOUR
    whole = cpus(100)
    copy = order.copy()
    return list(backfilled(copy.fitting(whole), now, whole, Shadow(inf, whole), ())), list(copy.due(now))


def test_a_due_job_is_removed_ahead_of_hundreds_added_later() -> None:
    """Those jobs are due too, but no decision has examined them yet."""
    first = job(0, 1, HOUR, 10.0)
    late = [job(serial, 1, HOUR) for serial in range(1, 401)]
    order = PendingOrder(policy_named("easy"), [first])
    assert list(order.due(10.0)) == [first]
    for one in late:
        order.add(one)
    order.remove(first)
    assert list(order.due(10.0)) == late


def test_groups_that_do_not_fit_are_not_examined() -> None:
    """With a thousand wide jobs pending, a decision examines only the two groups that fit."""
    order = PendingOrder(POLICIES[0], [job(serial, 1 + serial % 8, HOUR) for serial in range(1000)])
    assert [group.request for group in order.fitting(cpus(2))] == [1, 2]


def test_a_state_reuses_the_order_across_decisions() -> None:
    """A decision adds only the jobs that were submitted since the last one; each policy has its own order."""
    state = PoolState(cpus(8))
    for serial in range(3):
        state.submit(job(serial, 2, HOUR))
    order = state.pending_order(POLICIES[0])
    state.submit(job(3, 2, HOUR))
    state.apply(PoolDecision((state.pending[0],)), 0.0)
    assert state.pending_order(POLICIES[0]) is order
    assert everything(order) == everything(PendingOrder(POLICIES[0], state.pending))
    state.submit(job(4, 2, HOUR))
    state.apply(PoolDecision((state.pending[-1],)), 0.0)
    assert everything(state.pending_order(POLICIES[0])) == everything(PendingOrder(POLICIES[0], state.pending))
    assert state.pending_order(POLICIES[1]) is not order
    for policy in (POLICIES[0], POLICIES[1]):
        assert state.pending_order(policy).policy == policy
    assert state.copy().pending_order(POLICIES[1]) is not state.pending_order(POLICIES[1])

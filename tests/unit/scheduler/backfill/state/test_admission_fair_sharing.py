"""Admission fair sharing: the LocalQueues of a ClusterQueue share the admitted resources by their weights."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import local, make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.admission_fair_sharing import AdmissionFairSharing
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.usage_ledger import UsageLedgerEntry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.backfill.state.planner_state import PlannerState


SPEC = queue("q", 8000)._replace(usage_based_admission=True)
LARGE = queue("q", 24_000)._replace(usage_based_admission=True)
"""This queue is large enough that whole jobs approximate any share."""
DECAY = AdmissionFairSharingConfig(usage_half_life_time=200.0, usage_sampling_interval=10.0)
GREEDY = BackfillPolicy(reserve_after=inf)


def planner(*names: str, decay: AdmissionFairSharingConfig | None = DECAY) -> PlannerState:
    return make_planner([SPEC], GREEDY, [local(name) for name in names], admission_fair_sharing=decay)


def shares(weights: Sequence[float], sizes: Sequence[tuple[int, int]], until: float) -> list[float]:
    """Return the CPU-seconds admitted to two LocalQueues that always have pending jobs of (CPUs, seconds)."""
    names = [local(name, fair_weight=weight) for name, weight in zip("ab", weights, strict=True)]
    plan = make_planner([LARGE], GREEDY, names, admission_fair_sharing=DECAY)
    given = {"a": 0.0, "b": 0.0}
    come = {"a": 0, "b": 0}
    ends: list[tuple[float, str]] = []
    now = 0.0
    while now < until:
        for name in "ab":
            while sum(key.startswith(f"ns/{name}") for key in plan.pending) < 12:
                cpus, run = sizes[come[name] % len(sizes)]
                events.submit(plan, make_workload(f"{name}{come[name]:04}", cpus * 1000, run, at=now, local=name))
                come[name] += 1
        step = schedule(plan, now)
        for one in step.admitted:
            heappush(ends, (now + one.walltime, one.key))
            given[one.queue_name] += one.walltime * one.total_requests[0].requests["cpu"]
        now = min(step.wake_at, ends[0][0] if ends else inf)
        while ends and ends[0][0] <= now:
            events.finish(plan, heappop(ends)[1])
    return list(given.values())


SIZES = st.lists(st.tuples(st.integers(2, 4), st.integers(20, 40)), min_size=1, max_size=5)


@settings(max_examples=5)
@given(SIZES, st.sampled_from([(1.0, 1.0), (2.0, 1.0), (1.0, 3.0)]))
def test_shares_follow_the_weights(sizes: list[tuple[int, int]], weights: tuple[float, float]) -> None:
    """The shares hold for jobs of any size, as long as both queues always have pending jobs."""
    one, other = shares(weights, sizes, 2000)
    assert one / weights[0] == pytest.approx(other / weights[1], rel=0.15)


def test_lower_usage_precedes_earlier_arrival() -> None:
    """Half of the usage is forgotten after each half-life."""
    plan = planner("a", "b")
    events.submit(plan, make_workload("first", 8000, local="a", run=100))
    schedule(plan, 0)
    for now in range(10, 101, 10):
        assert schedule(plan, now).wake_at == now + DECAY.usage_sampling_interval
    usages = plan.snapshot.local_queue_usage
    penalty = DECAY.alpha_rate(DECAY.usage_sampling_interval) * 0.5**0.5
    assert usages["ns/a"] == pytest.approx(8 * (1 - 0.5**0.5 + penalty))
    events.submit(plan, make_workload("again", 8000, local="a", at=1))
    events.submit(plan, make_workload("other", 8000, local="b", at=2))
    events.finish(plan, "ns/first")
    assert [one.key for one in schedule(plan, 100).admitted] == ["ns/other"]
    before = plan.snapshot.local_queue_usage["ns/a"]
    schedule(plan, 300)
    assert plan.snapshot.local_queue_usage["ns/a"] == pytest.approx(before / 2)


def test_a_sample_is_due_an_interval_after_the_last_one() -> None:
    """The first pass only begins the first interval; a late sample also moves the following ones."""
    sharing, snapshot = AdmissionFairSharing(DECAY), Snapshot([SPEC])
    sampled = {now: sharing.sample(now, snapshot) for now in (1000, 1003, 1009.5, 1010, 1012, 1020, 1035, 1044, 1045)}
    assert [now for now, was_due in sampled.items() if was_due] == [1010, 1020, 1035, 1045]
    assert sharing.next_sample_at == 1055
    assert sharing.copy().next_sample_at == inf


def test_usage_is_the_sum_over_all_pods_in_cpus_bytes_and_pieces() -> None:
    """Requests of CPU count in thousandths, those of other resources do not. The penalty is a share of the request."""
    requests = {"accelerator": 2, "cpu": 1250, "memory": 5000}
    pods = tuple(PodSet(name, pods=1, requests=requests) for name in ("main", "workers"))
    flavors = dict.fromkeys(requests, "all")
    admission = Admission("q", tuple(PodSetAdmission(item.name, flavors, requests, 1) for item in pods))
    workload = replace(make_workload("one", 1, local="a"), pod_sets=pods, admission=admission)
    sharing, snapshot = AdmissionFairSharing(DECAY), Snapshot([SPEC], workloads=[workload])
    sharing.sample(0.0, snapshot)
    sharing.charge_admission(workload, snapshot, 5.0)
    share = DECAY.alpha_rate(DECAY.usage_sampling_interval) + DECAY.alpha_rate(5.0)
    assert sharing.usage_by_local_queue["ns/a"].consumed == pytest.approx(
        {"accelerator": 4 * share, "cpu": 2.5 * share, "memory": 10_000 * share}
    )


def test_a_burst_of_admissions_counts_before_the_next_sample() -> None:
    """An admission counts at once, so one pass admits workloads of both queues alternately."""
    plan = planner("a", "b")
    for at in range(8):
        events.submit(plan, make_workload(f"a{at}", 1000, local="a", at=at))
        events.submit(plan, make_workload(f"b{at}", 1000, local="b", at=at + 100))
    started = [one.key for one in schedule(plan, 200).admitted]
    assert sorted(started) == sorted([f"ns/a{at}" for at in range(4)] + [f"ns/b{at}" for at in range(4)])


def test_a_workload_that_ends_before_a_sample_counts() -> None:
    """Otherwise, the usage of many short workloads would be 0 whenever it is sampled."""
    plan = planner("a", "b")
    schedule(plan, 0)
    events.submit(plan, make_workload("short", 8000, local="a", run=1))
    schedule(plan, 1)
    events.finish(plan, "ns/short")
    schedule(plan, 10)
    penalty = DECAY.alpha_rate(DECAY.usage_sampling_interval) + DECAY.alpha_rate(1)
    assert plan.snapshot.local_queue_usage["ns/a"] == pytest.approx(8 * penalty * (1 - DECAY.alpha_rate(9)))


def test_an_admission_that_was_not_carried_out_does_not_count() -> None:
    plan = planner("a", "b")
    plan.assumed = set()
    events.submit(plan, make_workload("one", 8000, local="a", run=1))
    schedule(plan, 0)
    charged = plan.snapshot.local_queue_usage["ns/a"]
    assert charged > 0
    events.forget(plan, "ns/one")
    assert plan.snapshot.local_queue_usage["ns/a"] == 0
    schedule(plan, 0)
    assert plan.snapshot.local_queue_usage["ns/a"] == charged
    events.confirm(plan, "ns/one")
    events.forget(plan, "ns/one")
    assert plan.snapshot.local_queue_usage["ns/a"] == charged


def test_without_a_half_life_the_next_sample_forgets_usage() -> None:
    """A restored usage may be from a configuration with one (localqueue_controller.go reconcileConsumedUsage)."""
    sharing = AdmissionFairSharing(AdmissionFairSharingConfig(0.0, 10.0))
    sharing.restore({"ns/a": UsageLedgerEntry({"cpu": 1.0}, 0.0)})
    assert sharing.sample(10.0, Snapshot([SPEC]))
    assert sharing.usage_by_local_queue == {}


def test_without_the_setting_usage_does_not_count() -> None:
    plan = planner("a", "b", decay=None)
    for at in range(8):
        events.submit(plan, make_workload(f"a{at}", 1000, local="a", at=at))
        events.submit(plan, make_workload(f"b{at}", 1000, local="b", at=at + 100))
    assert [one.key for one in schedule(plan, 200).admitted] == [f"ns/a{at}" for at in range(8)]
    assert schedule(plan, 200).wake_at == inf


def test_weights_may_change() -> None:
    plan = planner("a", "b")
    events.submit(plan, make_workload("one", 1000, local="a"))
    schedule(plan, 0)
    before = plan.snapshot.local_queue_usage["ns/a"]
    events.reconfigure(
        plan, QueueConfiguration((SPEC,), local_queues=(local("a", fair_weight=2.0), local("b", fair_weight=0.0)))
    )
    assert plan.snapshot.local_queue_usage["ns/a"] == pytest.approx(before / 2)
    events.submit(plan, make_workload("two", 8000, local="b"))
    events.submit(plan, make_workload("three", 7000, local="a", at=1))
    assert [one.key for one in schedule(plan, 1).admitted] == ["ns/three"]


def test_a_copy_does_not_wake_to_sample() -> None:
    """A copy is sampled only when a workload ends, and its usage is independent of the original's."""
    plan = planner("a", "b")
    events.submit(plan, make_workload("one", 1000, local="a"))
    schedule(plan, 0)
    other = plan.copy()
    assert schedule(other, 100).wake_at == inf
    assert plan.fair_sharing is not None
    assert plan.fair_sharing.usage_by_local_queue["ns/a"].last_update == 0


def test_the_usage_of_a_deleted_local_queue_is_forgotten() -> None:
    """A new LocalQueue of the same name begins without usage."""
    plan = planner("a", "b")
    for name in "ab":
        events.submit(plan, make_workload(f"of-{name}", 1000, local=name))
    schedule(plan, 0)
    assert plan.fair_sharing is not None
    assert plan.fair_sharing.usage_by_local_queue.keys() == {"ns/a", "ns/b"}
    events.reconfigure(plan, QueueConfiguration((SPEC,), local_queues=(local("b"),)))
    assert plan.fair_sharing.usage_by_local_queue.keys() == {"ns/b"}
    events.reconfigure(plan, QueueConfiguration((SPEC,), local_queues=(local("a"), local("b"))))
    assert plan.snapshot.local_queue_usage["ns/a"] == 0


@pytest.mark.parametrize("reconfigured", [False, True])
def test_a_local_queue_of_weight_0_is_last_from_its_first_workload_on(*, reconfigured: bool) -> None:
    """CalculateUsage: the usage of such a queue is infinite, whatever it has really used."""
    names = (local("a"), local("zero", fair_weight=0.0))
    plan = make_planner([SPEC], GREEDY, names, admission_fair_sharing=DECAY)
    if reconfigured:
        events.reconfigure(plan, QueueConfiguration((SPEC,), local_queues=names))
    events.submit(plan, make_workload("runs", 8000, local="a"))
    schedule(plan, 0)
    events.submit(plan, make_workload("of-zero", 8000, local="zero", at=1))
    events.submit(plan, make_workload("of-a", 8000, local="a", at=2))
    events.finish(plan, "ns/runs")
    assert [workload.name for workload in schedule(plan, 3).admitted] == ["of-a"]

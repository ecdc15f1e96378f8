"""Held queues and deactivated workloads: which are inadmissible, which stop, and that they block no other workload."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import local, make_planner, make_workload, queue
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration, same_requirements, same_state
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.api.workload_types import Eviction

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import StopPolicy

POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(depth=UNLIMITED_DEPTH),
    BackfillPolicy(reserve_after=float("inf")),
    BackfillPolicy(overtaking=False),
]


def starts(planner: PlannerState, now: float) -> list[str]:
    return [one.key for one in schedule(planner, now).admitted]


def stopped(planner: PlannerState, now: float) -> list[tuple[str, str]]:
    return [(one.workload.key, one.reason) for one in schedule(planner, now).stopped]


def reserved_starts(planner: PlannerState) -> list[tuple[str, float]]:
    return [(reservation.workload.key, reservation.start) for reservation in planner.reservations_by_start]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_workloads_of_a_held_local_queue_block_no_other(policy: BackfillPolicy) -> None:
    """Even the head of a StrictFIFO queue blocks none. On release, workloads are in order again, but not reserved."""
    planner = make_planner([queue("q", 4)], policy, [local("held", stop_policy="Hold"), local("free")])
    events.submit(planner, make_workload("first", 4, at=0, local="held"))
    events.submit(planner, make_workload("second", 4, at=1, local="free"))
    events.submit(planner, make_workload("third", 4, at=2, local="free"))
    assert starts(planner, 2) == ["ns/second"]
    assert planner.inadmissible["ns/first"].message == "LocalQueue ns/held is inactive: stopPolicy is Hold"
    events.reconfigure(planner, QueueConfiguration((queue("q", 4),), local_queues=(local("held"), local("free"))))
    events.finish(planner, "ns/second")
    assert not planner.inadmissible
    assert starts(planner, 3) == ["ns/third" if policy.reserves else "ns/first"]


def test_running_workloads_of_a_held_queue_continue() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("runs", 2), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("waits", 2, at=1), "q")
    events.reconfigure(planner, QueueConfiguration((queue("q", 4)._replace(stop_policy="Hold"),)))
    step = schedule(planner, 1)
    assert (step.admitted, step.stopped) == ((), ())
    assert list(planner.running) == ["ns/runs"]


def test_a_held_queue_has_no_reservations() -> None:
    """Its reservations are released, so that its cohort can use the quota. A queue that resumes gets new ones."""
    specs = queue("a", 4, cohort="c"), queue("b", 4, cohort="c")
    planner = make_planner(specs, BackfillPolicy())
    events.submit(planner, make_workload("runs", 4, run=10), "a")
    schedule(planner, 0)
    events.submit(planner, make_workload("wide", 8, run=10), "a")
    assert [one.start for one in schedule(planner, 0).reserved] == [10]
    events.submit(planner, make_workload("long", 4, run=50, at=1), "b")
    assert starts(planner, 1) == []
    events.reconfigure(planner, QueueConfiguration((specs[0]._replace(stop_policy="Hold"), specs[1])))
    assert starts(planner, 2) == ["ns/long"]
    assert planner.reservations_by_start == []
    events.reconfigure(planner, QueueConfiguration(specs))
    schedule(planner, 3)
    assert reserved_starts(planner) == [("ns/wide", 52)]


@pytest.mark.parametrize("which", ["ClusterQueue", "LocalQueue"])
def test_drain_stops_running_workloads(which: str) -> None:
    """The workload is stopped once, waits after its pods have terminated, and starts again when the queue resumes."""
    planner = make_planner([queue("q", 4)], BackfillPolicy(), [local("lq")])
    events.submit(planner, make_workload("runs", 2, local="lq"))
    schedule(planner, 0)
    stop: StopPolicy = "HoldAndDrain"
    drained = QueueConfiguration(
        (queue("q", 4)._replace(stop_policy=stop if which == "ClusterQueue" else "None"),),
        local_queues=(local("lq", stop_policy=stop if which == "LocalQueue" else "None"),),
    )
    events.reconfigure(planner, drained)
    assert stopped(planner, 1) == [("ns/runs", f"{which}Stopped")]
    assert stopped(planner, 2) == []
    assert planner.running_workloads.stopping == {"ns/runs"}
    events.evict(planner, "ns/runs", Eviction(f"{which}Stopped", 3))
    assert starts(planner, 3) == []
    events.reconfigure(planner, QueueConfiguration((queue("q", 4),), local_queues=(local("lq"),)))
    assert starts(planner, 4) == ["ns/runs"]


def test_a_deactivated_workload_stops_and_is_inadmissible() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    one = make_workload("one", 2)
    events.submit(planner, one, "q")
    schedule(planner, 0)
    events.update(planner, replace(one, active=False))
    assert stopped(planner, 1) == [("ns/one", "Deactivated")]
    events.evict(planner, "ns/one", Eviction("Deactivated", 2))
    assert starts(planner, 2) == []
    assert planner.inadmissible["ns/one"].message == "it is deactivated"
    events.update(planner, one)
    assert starts(planner, 3) == ["ns/one"]


def test_an_inadmissible_workload_can_be_withdrawn() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy())
    events.submit(planner, make_workload("one", 2), "nowhere")
    assert planner.inadmissible["ns/one"].message == "there is no ClusterQueue nowhere"
    events.withdraw(planner, "ns/one")
    assert not planner.inadmissible
    with pytest.raises(KeyError):
        events.withdraw(planner, "ns/one")


def test_a_workload_without_its_local_queue_waits_for_it() -> None:
    planner = make_planner([queue("q", 4)], BackfillPolicy(), [])
    events.submit(planner, make_workload("one", 2, local="lq"))
    assert planner.inadmissible["ns/one"].message == "there is no LocalQueue ns/lq"
    events.reconfigure(planner, QueueConfiguration((queue("q", 4),), local_queues=(local("lq"),)))
    assert starts(planner, 1) == ["ns/one"]


def test_slow_victims_are_not_replaced_by_others() -> None:
    """Victims are stopped only once. Until they have ended, no other workload is preempted in their place."""
    policy = ClusterQueuePreemption("LowerPriority")
    planner = make_planner([queue("q", 4, preemption=policy)], BackfillPolicy())
    events.submit(planner, make_workload("old", 2, at=0), "q")
    schedule(planner, 0)
    events.submit(planner, make_workload("new", 2, at=1), "q")
    schedule(planner, 1)
    events.submit(planner, make_workload("high", 2, at=2, priority=1), "q")
    assert [one.workload.key for one in schedule(planner, 2).victims] == ["ns/new"]
    for now in (3, 4):
        events.submit(planner, make_workload(f"low{now}", 1, at=now), "q")
        assert schedule(planner, now).victims == ()
    assert planner.running_workloads.stopping == {"ns/new"}
    events.evict(planner, "ns/new", Eviction("Preempted", 5))
    assert starts(planner, 5) == ["ns/high"]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["held", "free"])), max_size=8), st.sampled_from(POLICIES))
def test_held_workloads_change_no_decision(arrivals: list[tuple[int, str]], policy: BackfillPolicy) -> None:
    planner = make_planner([queue("q", 4)], policy, [local("held", stop_policy="Hold"), local("free")])
    other = make_planner([queue("q", 4)], policy, [local("free")])
    for now, (cpus, name) in enumerate(arrivals):
        one = make_workload(f"{now}", cpus, run=3, at=now, local=name)
        events.submit(planner, one)
        if name == "free":
            events.submit(other, one)
        for key in [key for key, run in planner.running.items() if run.deadline <= now]:
            events.finish(planner, key)
            events.finish(other, key)
        assert starts(planner, now) == starts(other, now)
        assert reserved_starts(planner) == reserved_starts(other)


def test_the_walltimes_of_reservations_are_compared_by_value() -> None:
    old = replace(make_workload("one", 2), walltime=10.5)
    assert same_requirements(old, replace(old, walltime=float("10.5")))
    assert not same_requirements(old, replace(old, walltime=11.0))


def test_states_of_a_workload_are_compared_field_by_field() -> None:
    old = replace(make_workload("one", 2), walltime=10.0)
    assert same_state(old, replace(old, walltime=float("10")))
    assert not same_state(old, replace(old, walltime=11.0))
    assert not same_state(old, replace(old, failed_checks=("capacity",)))

"""Queues that are held, workloads that are deactivated: who waits aside, who is to stop, and that nobody minds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.plans import local, planner_of, queue, work
from zonewise_scheduler.queue.plan.entrance import Queues
from zonewise_scheduler.queue.quota.model.queues import Preemption
from zonewise_scheduler.queue.quota.model.workload import Eviction
from zonewise_scheduler.queue.time.rules import ALL, Rules

if TYPE_CHECKING:
    from zonewise_scheduler.queue.plan.planner import Planner
    from zonewise_scheduler.queue.quota.model.queues import Stop

RULES = [Rules(), Rules(depth=ALL), Rules(reserve_after=float("inf")), Rules(overtaking=False)]


def starts(planner: Planner, now: float) -> list[str]:
    return [one.key for one in planner.decide(now).admitted]


def stopped(planner: Planner, now: float) -> list[tuple[str, str]]:
    return [(one.workload.key, one.reason) for one in planner.decide(now).stopped]


def promises(planner: Planner) -> list[tuple[str, float]]:
    return [(one.workload.key, one.start) for one in planner.promises]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_workloads_of_a_held_local_queue_are_in_nobodys_way(rules: Rules) -> None:
    """Even the first of a queue without passing; held no more, they have their places back, but for promises."""
    planner = planner_of([queue("q", 4)], rules, [local("held", stop="Hold"), local("free")])
    planner.submit(work("first", 4, at=0, local="held"))
    planner.submit(work("second", 4, at=1, local="free"))
    planner.submit(work("third", 4, at=2, local="free"))
    assert starts(planner, 2) == ["ns/second"]
    assert planner.aside["ns/first"].why == "LocalQueue ns/held is inactive: stopPolicy is Hold"
    planner.reset(Queues((queue("q", 4),), local_queues=(local("held"), local("free"))))
    planner.end("ns/second")
    assert not planner.aside
    assert starts(planner, 3) == ["ns/third" if rules.reserves else "ns/first"]


def test_what_runs_in_a_held_queue_goes_on() -> None:
    planner = planner_of([queue("q", 4)], Rules())
    planner.submit(work("runs", 2), "q")
    planner.decide(0)
    planner.submit(work("waits", 2, at=1), "q")
    planner.reset(Queues((queue("q", 4)._replace(stop="Hold"),)))
    step = planner.decide(1)
    assert (step.admitted, step.stopped) == ((), ())
    assert list(planner.running) == ["ns/runs"]


def test_nothing_is_promised_in_a_held_queue() -> None:
    """What was is not any more, and others of the cohort have the room; once it is held no more, it is again."""
    specs = queue("a", 4, cohort="c"), queue("b", 4, cohort="c")
    planner = planner_of(specs, Rules())
    planner.submit(work("runs", 4, run=10), "a")
    planner.decide(0)
    planner.submit(work("wide", 8, run=10), "a")
    assert [one.start for one in planner.decide(0).promised] == [10]
    planner.submit(work("long", 4, run=50, at=1), "b")
    assert starts(planner, 1) == []
    planner.reset(Queues((specs[0]._replace(stop="Hold"), specs[1])))
    assert starts(planner, 2) == ["ns/long"]
    assert planner.promises == []
    planner.reset(Queues(specs))
    planner.decide(3)
    assert promises(planner) == [("ns/wide", 52)]


@pytest.mark.parametrize("which", ["ClusterQueue", "LocalQueue"])
def test_what_runs_is_to_stop_where_the_queue_is_drained(which: str) -> None:
    """It is told once, waits when its pods are gone, and starts again when the queue admits."""
    planner = planner_of([queue("q", 4)], Rules(), [local("lq")])
    planner.submit(work("runs", 2, local="lq"))
    planner.decide(0)
    stop: Stop = "HoldAndDrain"
    drained = Queues(
        (queue("q", 4)._replace(stop=stop if which == "ClusterQueue" else "None"),),
        local_queues=(local("lq", stop=stop if which == "LocalQueue" else "None"),),
    )
    planner.reset(drained)
    assert stopped(planner, 1) == [("ns/runs", f"{which}Stopped")]
    assert stopped(planner, 2) == []
    assert planner.leaving == {"ns/runs"}
    planner.evict("ns/runs", Eviction(f"{which}Stopped", 3))
    assert starts(planner, 3) == []
    planner.reset(Queues((queue("q", 4),), local_queues=(local("lq"),)))
    assert starts(planner, 4) == ["ns/runs"]


def test_a_deactivated_workload_stops_and_waits_aside() -> None:
    planner = planner_of([queue("q", 4)], Rules())
    one = work("one", 2)
    planner.submit(one, "q")
    planner.decide(0)
    planner.update(replace(one, active=False))
    assert stopped(planner, 1) == [("ns/one", "Deactivated")]
    planner.evict("ns/one", Eviction("Deactivated", 2))
    assert starts(planner, 2) == []
    assert planner.aside["ns/one"].why == "it is deactivated"
    planner.update(one)
    assert starts(planner, 3) == ["ns/one"]


def test_a_workload_that_waits_aside_can_be_withdrawn() -> None:
    planner = planner_of([queue("q", 4)], Rules())
    planner.submit(work("one", 2), "nowhere")
    assert planner.aside["ns/one"].why == "there is no ClusterQueue nowhere"
    planner.withdraw("ns/one")
    assert not planner.aside
    with pytest.raises(KeyError):
        planner.withdraw("ns/one")


def test_a_workload_without_its_local_queue_waits_for_it() -> None:
    planner = planner_of([queue("q", 4)], Rules(), [])
    planner.submit(work("one", 2, local="lq"))
    assert planner.aside["ns/one"].why == "there is no LocalQueue ns/lq"
    planner.reset(Queues((queue("q", 4),), local_queues=(local("lq"),)))
    assert starts(planner, 1) == ["ns/one"]


def test_victims_that_take_their_time_stay_the_same() -> None:
    """They are told once; while they leave, whatever happens, nobody else is told in their stead."""
    rules = Preemption("LowerPriority")
    planner = planner_of([queue("q", 4, preemption=rules)], Rules())
    planner.submit(work("old", 2, at=0), "q")
    planner.decide(0)
    planner.submit(work("new", 2, at=1), "q")
    planner.decide(1)
    planner.submit(work("high", 2, at=2, priority=1), "q")
    assert [one.workload.key for one in planner.decide(2).victims] == ["ns/new"]
    for now in (3, 4):
        planner.submit(work(f"low{now}", 1, at=now), "q")
        assert planner.decide(now).victims == ()
    assert planner.leaving == {"ns/new"}
    planner.evict("ns/new", Eviction("Preempted", 5))
    assert starts(planner, 5) == ["ns/high"]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["held", "free"])), max_size=8), st.sampled_from(RULES))
def test_held_ones_are_as_if_they_were_not_there(found: list[tuple[int, str]], rules: Rules) -> None:
    planner = planner_of([queue("q", 4)], rules, [local("held", stop="Hold"), local("free")])
    other = planner_of([queue("q", 4)], rules, [local("free")])
    for now, (cpus, name) in enumerate(found):
        one = work(f"{now}", cpus, run=3, at=now, local=name)
        planner.submit(one)
        if name == "free":
            other.submit(one)
        for key in [key for key, run in planner.running.items() if run.end <= now]:
            planner.end(key)
            other.end(key)
        assert starts(planner, now) == starts(other, now)
        assert promises(planner) == promises(other)

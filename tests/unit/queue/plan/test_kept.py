"""A scheduler that is started anew promises what it promised."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.placing import Host, job, pods_of, snapshot_of
from support.placing import queue as placed_queue
from support.plans import Story, planner_of, queue, work
from unit.queue.plan.test_promises import RULES, check, comings, queues
from zonewise_scheduler.queue.plan.kept import keep, restore
from zonewise_scheduler.queue.plan.planner import Planner
from zonewise_scheduler.queue.quota.model.queues import CheckRule, Preemption
from zonewise_scheduler.queue.quota.model.workload import Decay
from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot
from zonewise_scheduler.queue.time.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.plans import Coming
    from zonewise_scheduler.queue.plan.values import Promise
    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue


def anew(planner: Planner, snapshot: Snapshot) -> Planner:
    """The planner after a restart: of what it is told of queues and workloads, and of what it kept."""
    for run in planner.running.values():
        snapshot.add(run.workload)
    found = Planner(snapshot, planner.rules, planner.settings)
    for key, name in planner.waiting.items():
        workload = planner.lines[name].pending.get(key)
        assert workload is not None
        found.submit(workload, name)
    restore(json.loads(json.dumps(keep(planner), allow_nan=False)), found)
    return found


def as_plain(promises: Sequence[Promise]) -> list[object]:
    """Promises with all that is told of them, workloads by key."""
    return [
        (one.workload.key, one.workload.admission, one.queue, one.start, one.after, [each.key for each in one.victims])
        for one in promises
    ]


@pytest.mark.parametrize("rules", RULES, ids=str)
@settings(max_examples=40)
@given(queues(preemption=True), comings(), st.sets(st.integers(0, 40)))
def test_a_restart_leaves_every_promise_kept(
    rules: Rules, specs: list[ClusterQueue], found: list[Coming], when: set[int]
) -> None:
    """Whenever it is: nobody who was promised a start has it later."""
    played = Story(Planner(Snapshot(specs), rules), watch=lambda _, __: again())

    def again() -> None:
        if len(played.steps) in when:
            before = as_plain(played.planner.promises)
            played.planner = anew(played.planner, Snapshot(specs))
            assert as_plain(played.planner.promises) == before

    check(played.play(found), specs)


def test_places_are_kept() -> None:
    """What another may take meanwhile is not what was promised."""
    spec, hosts = placed_queue("a", 99), [Host("one", "x", 2), Host("two", "x", 2)]
    planner = Planner(snapshot_of([spec], hosts), Rules())
    for name, limit in (("short", 5), ("long", 10)):
        planner.submit(replace(job(name, pods_of(2)), limit=limit), "a")
        planner.decide(0)
    planner.submit(replace(job("waits", pods_of(2), created=1), limit=10), "a")
    planner.decide(1)
    other = anew(planner, snapshot_of([spec], hosts))
    assert as_plain(other.promises) == as_plain(planner.promises)
    other.decide(2)
    assert as_plain(other.promises) == as_plain(planner.promises)


def test_starts_that_nobody_knows_and_checks_are_kept() -> None:
    spec = queue("q", 4)._replace(checks=(CheckRule("capacity"),))
    planner = planner_of([spec], Rules())
    planner.submit(work("runs", 4), "q")
    planner.submit(work("waits", 4, at=1), "q")
    planner.decide(1)
    other = anew(planner, Snapshot([spec]))
    assert [one.start for one in other.promises] == [inf]
    assert as_plain(other.promises) == as_plain(planner.promises)
    other.checked("ns/runs", 3)
    other.decide(3)
    assert [one.start for one in other.promises] == [13]


def test_who_gives_way_is_not_told_again() -> None:
    """That it leaves is told by its condition Evicted; for whom, by what was kept."""
    spec = queue("q", 4, preemption=Preemption("LowerPriority"))
    planner = planner_of([spec], Rules())
    planner.submit(work("low", 4), "q")
    planner.decide(0)
    planner.submit(work("high", 4, at=1, priority=1), "q")
    assert len(planner.decide(1).victims) == 1
    other = anew(planner, Snapshot([spec]))
    assert as_plain(other.promises) == as_plain(planner.promises)
    assert other.leaving == {"ns/low"}
    assert other.decide(2).victims == ()
    other.end("ns/low")
    assert [one.key for one in other.decide(3).admitted] == ["ns/high"]


def test_who_waits_no_more_is_promised_nothing() -> None:
    planner = planner_of([queue("q", 4)], Rules())
    planner.submit(work("runs", 4), "q")
    planner.submit(work("waits", 4, at=1), "q")
    planner.decide(1)
    kept = keep(planner)
    other = planner_of([queue("q", 4)], Rules())
    restore(kept, other)
    assert other.promises == []


def test_what_is_not_to_be_kept_any_more_is_promised_anew() -> None:
    """The quota is less than before the restart."""
    planner = planner_of([queue("q", 4)], Rules())
    planner.submit(work("runs", 4, run=10), "q")
    planner.decide(0)
    planner.submit(work("wide", 3, run=10, at=1), "q")
    planner.decide(1)
    other = anew(planner, Snapshot([queue("q", 2)]))
    other.decide(2)
    assert other.promises == []
    other = anew(planner, Snapshot([queue("q", 3)]))
    other.decide(2)
    assert [one.start for one in other.promises] == [10]


def test_what_local_queues_have_used_is_kept() -> None:
    spec = queue("q", 4)._replace(by_usage=True)
    decay = Decay(half_life=100, sampling=10)
    planner = planner_of([spec], Rules(), decay=decay)
    planner.submit(work("one", 4, local="a", run=50), "q")
    planner.decide(0)
    planner.decide(20)
    other = anew(planner, Snapshot([spec]))
    assert other.snapshot.usage_of_local_queues == planner.snapshot.usage_of_local_queues
    assert other.decide(25).wake == planner.decide(25).wake == 30

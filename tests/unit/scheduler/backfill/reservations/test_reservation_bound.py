"""The lower bound on reserved starts, compared with the search for them."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from support.planner_stories import CPU, Story, make_planner, make_workload, queue
from unit.scheduler.backfill.reservations.test_reservation import queue_lists, submission_lists
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.reservations.quota_profile import UsageSpan
from zonewise_scheduler.backfill.reservations.reservation_bound import (
    quota_lacks_until,
    running_spans,
    starts_eventually,
)
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue


def lacks_quota(planner: PlannerState, key: str, latest: float) -> bool:
    """Return whether a pending workload lacks quota until `latest`."""
    name, workload = planner.pending[key], planner.pending_workload(key)
    assert workload is not None
    alternatives = HeadroomBound(planner.snapshot, planner.settings).alternatives(Head(workload, name))
    others = planner.reservations.by_key.values()
    return bool(alternatives) and quota_lacks_until(latest, name, alternatives, planner, others)


def reserved_start(planner: PlannerState, key: str) -> float:
    """Return the earliest start alongside the reservations of others; infinite if there is none."""
    workload = planner.pending_workload(key)
    assert workload is not None
    others = [reservation for other, reservation in planner.reservations.by_key.items() if other != key]
    reservation = planner.timeline(others).earliest_reservation(Head(workload, planner.pending[key]), planner.settings)
    return inf if reservation is None else reservation.start


def has_start(planner: PlannerState, key: str) -> tuple[bool, bool]:
    """Return whether a pending workload certainly has a start according to quota, and according to the search."""
    name, workload = planner.pending[key], planner.pending_workload(key)
    assert workload is not None
    head = Head(workload, name)
    others = [reservation for other, reservation in planner.reservations.by_key.items() if other != key]
    alternatives = HeadroomBound(planner.snapshot, planner.settings).alternatives(head) or ()
    found = planner.timeline(others).earliest_reservation(head, planner.settings)
    return starts_eventually(name, alternatives, planner, others), found is not None


@pytest.mark.parametrize("policy", [BackfillPolicy(), BackfillPolicy(depth=3, eager=True)], ids=str)
@pytest.mark.parametrize("preemption", [False, True])
def test_the_search_finds_a_start_if_quota_says_so(policy: BackfillPolicy, preemption: bool) -> None:
    """Every third workload declares no walltime. A workload that exceeds the quota of its tree has no start."""
    outcomes: set[tuple[bool, bool]] = set()

    def check(planner: PlannerState, now: float) -> None:
        outcomes.update(has_start(planner, key) for key in planner.pending)

    @settings(max_examples=20)
    @given(queue_lists(preemption=preemption), submission_lists())
    def play(specs: list[ClusterQueue], submissions: list[Submission]) -> None:
        submissions[::3] = [each._replace(workload=replace(each.workload, walltime=inf)) for each in submissions[::3]]
        Story(new_state(Snapshot(specs), policy), watch=check).play(submissions)

    play()
    assert (True, False) not in outcomes


def test_beside_a_reservation_with_an_unknown_start_a_start_is_uncertain() -> None:
    """Workload b waits for a, which has no walltime, and takes all CPUs of its queue then. d exceeds its quota."""
    planner = make_planner([queue("q", 2), queue("r", 2)], BackfillPolicy())
    for name, cpus, run, where in (("a", 1, inf, "q"), ("b", 2, 9, "q"), ("c", 2, 9, "q"), ("d", 3, 9, "r")):
        events.submit(planner, make_workload(name, cpus, run), where)
    events.submit(planner, make_workload("e", 2, 9), "r")
    events.submit(planner, make_workload("f", 2, 9), "r")
    schedule(planner, 0)
    assert [(reservation.head.workload.name, reservation.start) for reservation in planner.reservations_by_start] == [
        ("f", 9),
        ("b", inf),
    ]
    assert {name: has_start(planner, f"ns/{name}") for name in "bcdf"} == {
        "b": (True, True),
        "c": (False, False),
        "d": (False, False),
        "f": (True, True),
    }


@pytest.mark.parametrize("policy", [BackfillPolicy(), BackfillPolicy(30.0, 1.0, 0.5, 0.5, depth=3)], ids=str)
@pytest.mark.parametrize("preemption", [False, True])
def test_no_start_is_earlier_than_the_bound(policy: BackfillPolicy, preemption: bool) -> None:
    def check(planner: PlannerState, now: float) -> None:
        for key in planner.pending:
            start = reserved_start(planner, key)
            for latest in (now, now + 2, now + 5):
                assert start > latest or not lacks_quota(planner, key, latest)

    @settings(max_examples=20)
    @given(queue_lists(preemption=preemption), submission_lists())
    def play(specs: list[ClusterQueue], submissions: list[Submission]) -> None:
        Story(new_state(Snapshot(specs), policy), watch=check).play(submissions)

    play()


def test_the_quota_of_the_whole_tree_counts() -> None:
    """The quota that a queue of the same cohort releases counts, but not that of other queues."""
    planner = make_planner([queue("q", 2, cohort="c"), queue("r", 2, cohort="c"), queue("s", 2)], BackfillPolicy())
    for name in "qrs":
        events.submit(planner, make_workload(f"runs-{name}", 2, {"q": 30, "r": 20, "s": 10}[name]), name)
    schedule(planner, 0)
    events.submit(planner, make_workload("small", 2, 5), "q")
    events.submit(planner, make_workload("wide", 4, 5), "q")
    assert [lacks_quota(planner, "ns/small", latest) for latest in (0, 19, 20, 30)] == [True, True, False, False]
    assert [lacks_quota(planner, "ns/wide", latest) for latest in (0, 20, 29, 30)] == [True, True, True, False]


def test_victims_of_reservations_count_as_ended() -> None:
    """They release their quota at the reserved start of their preemptor, before their own deadlines."""
    preemption = ClusterQueuePreemption("LowerPriority")
    planner = make_planner([queue("q", 4, preemption=preemption)], BackfillPolicy(depth=2))
    planner.assumed = set()
    events.submit(planner, make_workload("runs", 4, 100), "q")
    schedule(planner, 0)
    planner.assumed.clear()
    events.submit(planner, make_workload("urgent", 1, 5, at=1, priority=1), "q")
    [victim] = schedule(planner, 10).victims
    assert victim.workload.key == "ns/runs"
    events.submit(planner, make_workload("waits", 3, 5, at=2), "q")
    assert not lacks_quota(planner, "ns/waits", 10)
    assert reserved_start(planner, "ns/waits") == 10
    assert planner.running.keys() == {"ns/runs"}
    assert not dict(running_spans(planner, planner.reservations.by_key.values(), 10))
    assert dict(running_spans(planner, (), 10)) == {"ns/runs": UsageSpan("q", ((CPU, 4),), 10, 100)}

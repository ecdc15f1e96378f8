"""Why a workload waits: every kind of reason by a story, and that each is true whatever has happened."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from support.placing import Host, job, pods_of, snapshot_of
from support.placing import queue as placed_queue
from support.plans import Coming, Story, coming, queue
from unit.queue.plan.test_promises import RULES, comings, queues
from zonewise_scheduler.fit.nodes.taints import Taint
from zonewise_scheduler.queue.plan.ahead import has_room, runs_in
from zonewise_scheduler.queue.plan.planner import Planner
from zonewise_scheduler.queue.plan.reason import Reason, why
from zonewise_scheduler.queue.plan.sentences import duration, sentence
from zonewise_scheduler.queue.plan.shortage import Shortage
from zonewise_scheduler.queue.quota.cycle.cycle import admitted
from zonewise_scheduler.queue.quota.cycle.nominate import nominate, request_of
from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.flavors.modes import Mode
from zonewise_scheduler.queue.quota.model.queues import ClusterQueue, Preemption, ResourceFlavor
from zonewise_scheduler.queue.quota.model.quotas import FlavorQuotas, FlavorResource, Quota, group
from zonewise_scheduler.queue.quota.model.workload import PodSet, Workload
from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot
from zonewise_scheduler.queue.time.rules import Rules, rules_named

if TYPE_CHECKING:
    from collections.abc import Sequence


def asked(
    key: str, *found: Coming, queues: Sequence[ClusterQueue] = (), rules: str = "greedy", now: float = 0
) -> Reason:
    """Why a workload waits after all have come at their times, in 8 CPUs unless other queues are given."""
    return why(planned(*found, queues=queues, rules=rules), key, now)


def planned(*found: Coming, queues: Sequence[ClusterQueue] = (), rules: str = "greedy") -> Planner:
    planner = Planner(Snapshot(queues or [queue("q", 8000)]), rules_named(rules, 0.0))
    for one in found:
        planner.submit(one.workload, one.queue)
        planner.decide(one.workload.created)
    return planner


# --- quotas


def test_a_queue_alone_has_too_little_left() -> None:
    """It names who must end first: of two, that which is needed."""
    found = asked("/c", coming("a", 2000, 10), coming("b", 5000, 30), coming("c", 4000, 10))
    lack = Shortage("all", "cpu", 4000, 1000, "nominal", "q", 8000)
    assert found == Reason("/c", "q", 1, 0, shortages=(lack,), after=("/b",), start=30)
    assert sentence(found) == (
        "needs 4 CPUs of flavor all; ClusterQueue q has 1 of its 8 left; waits for /b to end; "
        "there is room for it in 30 s at the latest"
    )


def test_all_that_must_end_are_named() -> None:
    found = asked(
        "/d", *(coming(name, 2000, run) for name, run in (("a", 10), ("b", 40), ("c", 20))), coming("d", 7000, 1)
    )
    assert found.after == ("/a", "/c", "/b")
    assert found.start == 40


def test_a_queue_in_a_cohort_may_borrow_no_more() -> None:
    team = [queue("q", 4000, cohort="team", borrowing=2000), queue("other", 8000, cohort="team")]
    found = asked("/b", coming("a", 5000, 10), coming("b", 1500, 10), queues=team)
    assert found.shortages == (Shortage("all", "cpu", 1500, 1000, "borrowing", "q", 2000),)
    assert sentence(found).startswith("needs 1.5 CPUs of flavor all; q may borrow 2 at most, and has 1 left; ")


def test_a_cohort_has_too_little_left_and_another_does_not_lend() -> None:
    team = [queue("q", 4000, cohort="team"), queue("other", 8000, cohort="team", lending=2000)]
    found = asked("/b", coming("a", 5000, 10), coming("b", 3000, 10), queues=team)
    assert found.shortages == (Shortage("all", "cpu", 3000, 1000, "cohort", "team", 6000, withheld=6000),)
    assert sentence(found).startswith(
        "needs 3 CPUs of flavor all; cohort team has 1 of its 6 left, and 6 more that its queues do not lend; "
    )


@pytest.mark.parametrize(
    ("spec", "lack", "said"),
    [
        ({}, Shortage("all", "cpu", 9000, 8000, "nominal", "q", 8000, never=True), "ClusterQueue q has 8"),
        (
            {"cohort": "team", "borrowing": 0},
            Shortage("all", "cpu", 9000, 8000, "borrowing", "q", 0, never=True),
            "q may borrow 0 at most, and has 8",
        ),
        (
            {"cohort": "team"},
            Shortage("all", "cpu", 9000, 8000, "cohort", "team", 8000, never=True),
            "cohort team has 8",
        ),
    ],
)
def test_what_is_more_than_there_ever_is_never_starts(spec: dict[str, Any], lack: Shortage, said: str) -> None:
    found = asked("/a", coming("a", 9000, 10), queues=[queue("q", 8000, **spec)])
    assert found == Reason("/a", "q", 1, 0, shortages=(lack,), never=True)
    assert sentence(found) == f"needs 9 CPUs of flavor all; {said}; cannot start even when all else has ended"


def test_who_declares_no_run_time_may_stay_for_ever() -> None:
    found = asked("/b", coming("a", 8000, inf), coming("b", 1000, 10))
    assert (found.after, found.start) == (("/a",), inf)
    assert sentence(found).endswith("ClusterQueue q has 0 of its 8 left; waits for /a to end")


# --- flavors


def flavored(**flavors: int) -> tuple[ClusterQueue, ...]:
    quotas = (FlavorQuotas(name, (("cpu", Quota(cpus)),)) for name, cpus in flavors.items())
    return (ClusterQueue("q", (group(*quotas),)),)


def test_each_flavor_has_its_own_reason() -> None:
    specs = flavored(spot=8000, plain=2000)
    flavors = [ResourceFlavor("spot", taints=(Taint("spot", "", "NoSchedule"),)), ResourceFlavor("plain")]
    planner = Planner(Snapshot(specs, flavors=flavors), rules_named("greedy"))
    one = coming("a", 3000, 10)
    planner.submit(one.workload, "q")
    planner.decide(0)
    found = why(planner, "/a", 0)
    assert found.never
    assert sentence(found) == (
        "flavor spot: taint spot:NoSchedule is not tolerated; needs 3 CPUs of flavor plain; ClusterQueue q has 2; "
        "cannot start even when all else has ended"
    )


def test_a_resource_of_which_the_queue_has_no_quota() -> None:
    one = coming("a", 1000, 10)
    pods = (PodSet(requests={"cpu": 1000, "nvidia.com/gpu": 1}),)
    found = asked("/a", one._replace(workload=replace(one.workload, pod_sets=pods)))
    assert sentence(found) == "nvidia.com/gpu: the queue has no quota of it; cannot start even when all else has ended"


# --- places


def test_no_domain_has_room() -> None:
    hosts = [Host("n1", "r1", 4000), Host("n2", "r2", 4000)]
    planner = Planner(snapshot_of([placed_queue("q", 8000)], hosts), rules_named("greedy"))
    for place, size in enumerate((3000, 2000, 3000)):
        planner.submit(replace(job(f"j{place}", pods_of(size), created=place), limit=10 * (place + 1)), "q")
        planner.decide(place)
    found = why(planner, "ns/j2", 5)
    assert found.place_missing is not None
    assert (found.place_missing.flavor, found.place_missing.fits, found.place_missing.wanted) == ("all", 0, 1)
    assert (found.shortages, found.after, found.start) == ((), ("ns/j0",), 10)
    assert sentence(found).startswith('flavor all: topology "racks" doesn\'t allow to fit any of 1 pod(s). ')


# --- time


def test_who_would_delay_a_promise_does_not_start() -> None:
    planner = planned(coming("a", 5000, 10), coming("b", 8000, 10), coming("c", 2000, 20), rules="easy")
    found = why(planner, "/c", 0)
    assert found.delayed == planner.promised.made["/b"]
    assert (found.shortages, found.start, found.promised) == ((), 20, False)
    assert sentence(found) == (
        "would delay /b, which is promised to start in 10 s at the latest; waits for /b to end; "
        "there is room for it in 20 s at the latest"
    )


def test_the_promise_is_told_to_whom_it_is_made() -> None:
    planner = planned(coming("a", 5000, 10), coming("b", 8000, 10), rules="easy")
    found = why(planner, "/b", 3)
    assert (found.after, found.start, found.promised) == (("/a",), 10, True)
    assert sentence(found).endswith("; waits for /a to end; is promised to start in 7 s at the latest")


def test_a_promise_for_an_unknown_time() -> None:
    found = asked("/b", coming("a", 5000, inf), coming("b", 8000, 10), rules="easy")
    assert sentence(found).endswith("is promised to start at a time that nobody knows, since some declare no run time")


# --- turns


def test_behind_one_that_is_not_passed() -> None:
    found = asked("/c", coming("a", 5000, 10), coming("b", 8000, 10), coming("c", 1000, 1), rules="fifo")
    assert found == Reason("/c", "q", 2, 0, first="/b")
    assert sentence(found) == "/b is before it in ClusterQueue q, and is not passed"


def test_it_waits_for_its_victims_to_be_gone() -> None:
    specs = [queue("q", 8000, preemption=Preemption("LowerPriority"))]
    planner = planned(
        coming("a", 8000, 10), coming("high", 8000, 10, priority=1), coming("z", 1000, 1, priority=1), queues=specs
    )
    found = why(planner, "/high", 0)
    assert (found.yielding, found.start, found.promised) == (("/a",), 0, True)
    assert sentence(found).endswith("needs /a to give way; is promised to start now")
    assert why(planner, "/z", 0).delayed is not None or why(planner, "/z", 0).first == "/high"


def test_one_with_a_gate_makes_nobody_give_way() -> None:
    specs = [queue("q", 8000, preemption=Preemption("LowerPriority"))]
    high = coming("high", 8000, 10, priority=1)
    found = asked(
        "/high", coming("a", 8000, 10), high._replace(workload=replace(high.workload, gated=True)), queues=specs
    )
    assert found.gated
    assert "may not make others give way: its preemption gate is closed" in sentence(found)


def test_a_stopped_queue_admits_nothing() -> None:
    found = asked("/a", coming("a", 1000, 1), queues=[queue("q", 8000)._replace(stop="Hold")])
    assert found == Reason("/a", "q", 1, 0, stopped="ClusterQueue q is inactive: stopPolicy is Hold")
    assert sentence(found) == "ClusterQueue q is inactive: stopPolicy is Hold"


def test_a_queue_is_not_for_all_namespaces() -> None:
    found = asked("/a", coming("a", 1000, 1), queues=[queue("q", 8000)._replace(namespaces=None)])
    assert sentence(found) == "ClusterQueue q is not for namespace "


def test_who_stands_in_no_line_is_told_why() -> None:
    one = coming("a", 1000, 1)
    found = asked("/a", one._replace(workload=replace(one.workload, active=False)))
    assert (found.place, sentence(found)) == (0, "it is deactivated")


def test_failed_checks_are_named() -> None:
    one = coming("a", 1000, 1)
    found = asked("/a", one._replace(workload=replace(one.workload, failed_checks=("budget", "safety"))))
    assert found == Reason("/a", "q", 1, 0, failed_checks=("budget", "safety"))
    assert sentence(found) == "its admission checks budget and safety have failed"


def test_where_nothing_hinders_its_turn_comes_with_the_next_decision() -> None:
    planner = planned()
    planner.submit(coming("a", 1000, 1).workload, "q")
    assert sentence(why(planner, "/a", 0)) == "is number 1 in ClusterQueue q, and has its turn with the next decision"


def test_those_that_sleep_behind_one_of_their_shape_have_the_same_reason() -> None:
    planner = planned(coming("a", 8000, 10), *(coming(name, 2000, 10) for name in "bcd"))
    found = [why(planner, key, 0) for key in ("/b", "/c", "/d")]
    assert [one.place for one in found] == [1, 2, 3]
    assert len({one._replace(key="", place=0) for one in found}) == 1


def test_who_does_not_wait_has_no_reason() -> None:
    with pytest.raises(KeyError):
        asked("/a", coming("a", 1000, 1))


def test_durations_have_two_units_at_most() -> None:
    told = [duration(one) for one in (0, 59.6, 90, 3600, 7830, 86400 * 3 + 4 * 3600 + 59)]
    assert told == ["0 s", "1 min", "1 min 30 s", "1 h", "2 h 10 min", "3 d 4 h"]


# --- whatever happens


@pytest.mark.parametrize("rules", [*RULES, Rules(reserve_after=inf), Rules(overtaking=False)], ids=str)
@given(queues(preemption=True), comings(most=9))
def test_every_reason_is_true(rules: Rules, specs: list[ClusterQueue], found: list[Coming]) -> None:
    Story(Planner(Snapshot(specs), rules), watch=check).play(found)


def check(planner: Planner, now: float) -> None:
    """Compare the reasons of all that wait, after a decision, with what the snapshot and the promises say."""
    for key in planner.waiting:
        reason = why(planner, key, now)
        assert sentence(reason)
        for one in reason.shortages:
            node = planner.snapshot.queues[reason.queue]
            resource = FlavorResource(one.flavor, one.resource)
            assert one.asked > one.left == max(0, (node.potential if one.never else node.available)(resource))
        if reason.delayed is not None:
            assert breaks(planner, key, reason.delayed.workload.key, now)
        if reason.after and reason.delayed is None:
            assert fits_without(planner, key, reason.after)
            for spared in reason.after:
                rest = [one for one in reason.after if one != spared]
                assert not fits_without(planner, key, rest, by_force=False)
        hindered = reason.shortages or reason.first or reason.delayed or reason.yielding
        assert hindered, reason
        assert not reason.never or all(one.never for one in reason.shortages)
        assert not reason.promised or planner.promised.made[key].start == reason.start or reason.start == now


def workload_of(planner: Planner, key: str) -> Workload:
    found = planner.lines[planner.waiting[key]].pending.get(key)
    assert found is not None
    return found


def fits_without(planner: Planner, key: str, gone: Sequence[str], *, by_force: bool = True) -> bool:
    """Tell whether there is room for a workload once others have ended; `by_force`: and have given way."""
    snapshot = planner.snapshot.copy()
    snapshot.remove_all([planner.running[one].workload for one in gone])
    head = Head(workload_of(planner, key), planner.waiting[key])
    assignment, targets = nominate(request_of(snapshot, head, planner.settings))
    return assignment.mode == Mode.FIT or (by_force and bool(targets))


def breaks(planner: Planner, key: str, other: str, now: float) -> bool:
    """Tell whether at the time that another is promised, it and what runs then leave no room for a workload beside."""
    snapshot = planner.snapshot.copy()
    head = Head(workload_of(planner, key), planner.waiting[key])
    assignment, targets = nominate(request_of(snapshot, head, planner.settings))
    new = admitted(head.workload, snapshot.queues[head.queue].spec, assignment, now)
    others = [one for name, one in planner.promised.made.items() if name != key]
    for future in planner.ahead(others).futures():
        if other in future.promises and future.start < now + new.lasts:
            future.snapshot.remove_all([one.workload for one in targets if runs_in(future.snapshot, one.workload)])
            return not has_room(future.snapshot, new)
    return False

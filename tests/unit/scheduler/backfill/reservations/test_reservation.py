"""Reservations hold under any borrowing, reclaiming and preemption of queues, and no workload starves."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import CPU, Story, Submission, make_planner, queue, story, submission
from zonewise_scheduler.backfill.policies import UNLIMITED_DEPTH, BackfillPolicy
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.types import ANY_START, Reservation
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.cycle.entry import Head

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.backfill.reservations.timeline import Timeline
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

NAMES = "abc"
POLICIES = [
    BackfillPolicy(),
    BackfillPolicy(shortest_first=True),
    BackfillPolicy(reserve_after=5.0, shortest_first=True),
    BackfillPolicy(12.0, 1.0, 1.0, shortest_first=True, age_weight=0.5),
    BackfillPolicy(100.0, 0.0, 0.0, 0.3, shortest_first=True),
    BackfillPolicy(depth=2),
    BackfillPolicy(depth=UNLIMITED_DEPTH),
]


@st.composite
def queue_lists(draw: st.DrawFn, *, preemption: bool) -> list[ClusterQueue]:
    """Draw queues of a cohort and one without; some have borrowing and lending limits."""
    specs: list[ClusterQueue] = []
    for name in NAMES:
        limits: dict[str, int] = {}
        cohort = draw(st.sampled_from(["team", "team", ""]))
        if cohort:
            for field in ("borrowing_limit", "lending_limit"):
                limit = draw(st.sampled_from([None, 0, 2]))
                if limit is not None:
                    limits[field] = limit
        policies = ClusterQueuePreemption()
        if preemption:
            policies = ClusterQueuePreemption(
                draw(st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])),
                draw(st.sampled_from(["Never", "LowerPriority", "Any"])),
            )
        specs.append(queue(name, draw(st.integers(2, 6)), cohort=cohort, preemption=policies, **limits))
    return specs


@st.composite
def submission_lists(draw: st.DrawFn, *, most: int = 14) -> list[Submission]:
    """Draw workloads whose walltimes are upper bounds."""
    submissions: list[Submission] = []
    now = 0
    for serial in range(draw(st.integers(1, most))):
        now += draw(st.integers(0, 3))
        run = draw(st.integers(1, 12))
        unused = draw(st.sampled_from([0, 0, 1, 3, 10]))
        submissions.append(
            submission(
                f"{serial:02}",
                draw(st.integers(1, 8)),
                run,
                at=now,
                limit=run + unused,
                queue=draw(st.sampled_from(NAMES)),
                priority=draw(st.sampled_from([0, 0, 1])),
            )
        )
    return submissions


def check(played: Story, specs: list[ClusterQueue]) -> None:
    """Check that every reservation held, that none moved to a later start, and that no quota was exceeded."""
    assert not played.reservations
    for key, reserved_starts, start in played.reserved_starts:
        assert reserved_starts == sorted(reserved_starts, reverse=True), key
        assert not reserved_starts or start <= reserved_starts[-1], key
    for now, used in played.usage:
        for name, amount in used.items():
            spec = next(one for one in specs if one.name == name)
            (quota,) = [quota for _, quota in spec.resource_groups[0].flavors[0].quotas]
            if not spec.cohort_name:
                assert amount <= quota.nominal, (now, name)
            elif quota.borrowing_limit is not None:
                assert amount <= quota.nominal + quota.borrowing_limit, (now, name)
        team = [spec for spec in specs if spec.cohort_name]
        whole = sum(quota.nominal for one in team for _, quota in one.resource_groups[0].flavors[0].quotas)
        assert sum(used[one.name] for one in team) <= whole, now


@pytest.mark.parametrize("preemption", [False, True])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=50)
@given(data=st.data(), submissions=submission_lists())
def test_reservations_hold(
    policy: BackfillPolicy, preemption: bool, data: st.DataObject, submissions: list[Submission]
) -> None:
    specs = data.draw(queue_lists(preemption=preemption))
    check(story(specs, submissions, policy), specs)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=50)
@given(queue_lists(preemption=True), submission_lists(), st.integers(1, 4))
def test_latest_end_beside_reservations(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], undeclared: int
) -> None:
    """Using an amount until its latest end delays no reservation; using it for longer does."""

    def watch(planner: PlannerState, now: float) -> None:
        gate = planner.reservations
        gate.begin_cycle(planner, now)
        for name in NAMES:
            for limit in (
                0,
                *{reservation.start - now + more for reservation in planner.reservations_by_start for more in (0, 1)},
                inf,
            ):
                amounts = [
                    amount for amount in range(1, 20) if not gate.delayed_reservation(taking(name, amount, limit), ())
                ]
                assert amounts == [
                    amount for amount in range(1, 20) if now + limit <= gate.latest_end(name, CPU, amount, None)
                ], (name, limit)

    for index in range(undeclared, len(submissions), 4):
        submissions[index] = submissions[index]._replace(workload=replace(submissions[index].workload, walltime=inf))
    Story(make_planner(specs, policy), watch=watch).play(submissions)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=50)
@given(queue_lists(preemption=True), submission_lists(), st.integers(1, 4))
def test_a_bound_on_quota_replaces_searches_without_effect(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], undeclared: int
) -> None:
    """Without the bound, each reservation is searched again after each end, with the same result."""
    for index in range(undeclared, len(submissions), 4):
        submissions[index] = submissions[index]._replace(workload=replace(submissions[index].workload, walltime=inf))

    def played() -> list[tuple[float, list[tuple[str, float, tuple[str, ...]]]]]:
        states: list[tuple[float, list[tuple[str, float, tuple[str, ...]]]]] = []

        def watch(planner: PlannerState, now: float) -> None:
            reservations = planner.reservations.by_key.items()
            states.append((now, [(key, one.start, one.waits_for) for key, one in reservations]))

        Story(make_planner(specs, policy), watch=watch).play(submissions)
        return states

    with mock.patch(f"{ReservationTable.__module__}.PossibleStarts.up_to_present", return_value=ANY_START):
        searched = played()
    assert played() == searched


def test_a_reservation_is_not_searched_again_if_quota_is_missing_before_it() -> None:
    """Six CPUs are released exactly at its start; the two that are released earlier do not suffice."""
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    for name, cpus, run in (("runs", 6, 100), ("small", 1, 50), ("other", 1, 60)):
        events.submit(planner, submission(name, cpus, run).workload, "q")
    schedule(planner, 0)
    events.submit(planner, submission("wide", 8, 10, at=1).workload, "q")
    schedule(planner, 1)
    assert [one.start for one in planner.reservations_by_start] == [100]
    events.finish(planner, "/small")
    with mock.patch.object(planner.reservations, "_reserve_within") as reserve:
        schedule(planner, 10)
    reserve.assert_not_called()


def test_a_reservation_is_not_searched_again_if_the_hole_before_it_is_too_short() -> None:
    """From 10 s on, 3 of 8 CPUs are free until a reservation at 60 s. The later one needs 2 of them for 55 s."""
    planner = make_planner([queue("q", 8)], BackfillPolicy(depth=2))
    for name, cpus, run in (("runs", 5, 60), ("small", 3, 50)):
        events.submit(planner, submission(name, cpus, run).workload, "q")
    schedule(planner, 0)
    for name, cpus, run in (("early", 8, 10), ("later", 2, 55)):
        events.submit(planner, submission(name, cpus, run, at=1).workload, "q")
    schedule(planner, 1)
    assert [one.start for one in planner.reservations_by_start] == [60, 70]
    events.finish(planner, "/small")
    with mock.patch.object(planner.reservations, "_reserve_within") as reserve:
        schedule(planner, 10)
    reserve.assert_not_called()


def taking(name: str, amount: int, limit: float) -> Workload:
    """Return a workload that would start now."""
    new = submission(f"new-{name}", amount, 0, limit=limit).workload
    pods = PodSetAdmission("main", {"cpu": "all"}, {"cpu": amount}, 1)
    return replace(new, admission=Admission(name, (pods,), 0))


def test_a_start_reduces_what_later_ones_may_use_beside_a_reservation() -> None:
    """Of 8 CPUs, 5 are reserved from 10 s on. Beside them 3 may be used; a start in a cycle uses part of these."""
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    for name in ("running", "reserved"):
        events.submit(planner, submission(name, 5, 10).workload, "q")
        schedule(planner, 0)
    gate = planner.reservations
    gate.begin_cycle(planner, 0)
    assert [gate.latest_end("q", CPU, amount, None) for amount in (3, 4)] == [inf, 10]
    long = replace(taking("q", 2, 20), name="long")
    gate.record_start(replace(taking("q", 1, 10), name="short"), ())
    gate.record_start(long, ())
    assert [gate.latest_end("q", CPU, amount, None) for amount in (1, 2)] == [inf, 10]
    assert [gate.delayed_reservation(taking("q", amount, 20), ()) for amount in (1, 2)] == ["", "/reserved"]
    gate.workload_ended(long)
    assert [gate.delayed_reservation(taking("q", amount, 20), ()) for amount in (3, 4)] == ["", "/reserved"]


@pytest.mark.parametrize(("victim_ends", "delayed"), [(9, ""), (10, ""), (11, "/later"), (inf, "/later")])
def test_a_start_without_its_reserved_victims_delays_reservations_that_need_their_end(
    victim_ends: float, delayed: str
) -> None:
    """Of 8 CPUs, 4 are reserved from 5 s on, once a victim is preempted, and 4 from 10 s on.

    The other workload ends at 10 s.
    """
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    for name, limit in (("victim", victim_ends), ("other", 10)):
        events.submit(planner, submission(name, 4, 1, limit=limit).workload, "q")
    schedule(planner, 0)
    victim = planner.running["/victim"].workload
    preemptor, later = (replace(taking("q", 4, 20), name=name) for name in ("preemptor", "later"))
    gate = ReservationTable(
        [
            Reservation(preemptor, Head(preemptor, "q"), 5, (), (victim,)),
            Reservation(later, Head(later, "q"), 10),
        ]
    )
    gate.begin_cycle(planner, 0)
    for _ in range(2):  # a query changes nothing
        assert gate.delayed_reservation(preemptor, (victim,)) == ""
        assert gate.delayed_reservation(preemptor, ()) == delayed


class CountedSource:
    """A planner that counts the timelines made from it."""

    def __init__(self, planner: PlannerState) -> None:
        self.settings, self.snapshot, self.planner = planner.settings, planner.snapshot, planner
        self.running_workloads, self.cohort_index = planner.running_workloads, planner.cohort_index
        self.timelines = 0

    def timeline(self, reservations: Iterable[Reservation]) -> Timeline:
        self.timelines += 1
        return self.planner.timeline(reservations)


def counted_gate() -> tuple[ReservationTable, CountedSource, Reservation]:
    """Return a gate with a computed future: three workloads run; one that preempts the second is reserved at 5 s."""
    planner = make_planner([queue("q", 8)], BackfillPolicy())
    for name in ("early", "middle", "young"):
        events.submit(planner, submission(name, 2, 100).workload, "q")
    schedule(planner, 0)
    workload = replace(taking("q", 3, 20), name="reserved")
    reservation = Reservation(workload, Head(workload, "q"), 5, (), (planner.running["/middle"].workload,))
    gate, source = ReservationTable([reservation]), CountedSource(planner)
    gate.begin_cycle(source, 0)
    assert source.timelines == 1
    return gate, source, reservation


@pytest.mark.parametrize(
    ("changes", "timelines"),
    [
        ({}, 1),
        ({"waits_for": ("/early",)}, 1),
        ({"start": 4}, 2),
        ({"start": 6}, 2),
        ({"victims": ()}, 2),
        ({"workload": replace(taking("q", 2, 20), name="reserved")}, 2),
        ({"workload": replace(taking("q", 4, 20), name="reserved")}, 2),
    ],
)
def test_the_future_is_recomputed_if_a_reservation_changes_it(changes: dict[str, Any], timelines: int) -> None:
    """A change of the workloads that it waits for does not affect the future."""
    gate, source, reservation = counted_gate()
    gate.record(reservation._replace(**changes))
    gate.begin_cycle(source, 0)
    assert source.timelines == timelines


@pytest.mark.parametrize(("name", "timelines"), [("early", 1), ("young", 1), ("middle", 2)])
def test_the_future_is_recomputed_if_a_reserved_victim_has_ended(name: str, timelines: int) -> None:
    gate, source, _ = counted_gate()
    gate.workload_ended(source.planner.running[f"/{name}"].workload)
    gate.begin_cycle(source, 0)
    assert source.timelines == timelines


def test_the_earliest_reservations_of_each_queue() -> None:
    """The reservations are in the order in which they were made."""
    reservations = [
        Reservation(one, Head(one, name), start)
        for name, start in (("q", 30), ("q", 10), ("q", 20), ("other", 40))
        for one in [taking(f"{name}-{start}", 1, 5)]
    ]
    table = ReservationTable(reservations)
    assert [(one.queue, one.start) for one in table.first_per_queue(2)] == [("q", 10), ("q", 20), ("other", 40)]


def test_the_future_usage_of_a_deferred_workload_is_reserved() -> None:
    """One victim frees enough for two: the first preempts it, and the second waits for its end. No third may use it."""
    reclaims = ClusterQueuePreemption(reclaim_within_cohort="Any")
    specs = [queue(name, 2, cohort="team", preemption=reclaims) for name in "ab"]
    planner = make_planner([*specs, queue("guest", 0, cohort="team")], BackfillPolicy())
    events.submit(planner, submission("large", 4, 100).workload, "guest")
    schedule(planner, 0)
    for at, name in enumerate("ab"):
        events.submit(planner, submission(f"of-{name}", 2, 10, at=at + 1).workload, name)
    plan = schedule(planner, 3)
    assert {key: decision.status for key, decision in plan.decisions.items()} == {
        "/of-a": "preempting",
        "/of-b": "deferred",
    }
    assert [(one.workload.key, one.start) for one in planner.reservations_by_start] == [("/of-a", 3), ("/of-b", 3)]


def test_a_reservation_is_made_beside_a_preemptor_of_its_cycle() -> None:
    """At 3, the wide workload of the borrowing queue would get the start 4; another one reclaims its quota until 5."""
    reclaims = ClusterQueuePreemption("Never", "LowerPriority")
    specs = [queue("a", 2, cohort="team"), queue("c", 5, cohort="team", borrowing_limit=0, preemption=reclaims)]
    submissions = [
        submission("0", 3, 2, queue="a"),
        submission("1", 5, 1, queue="c"),
        submission("2", 1, 1, at=2, queue="a"),
        submission("3", 2, 1, at=2, queue="a"),
        submission("4", 1, 1, at=2, queue="c"),
        submission("5", 1, 2, at=2, queue="a"),
        submission("back", 4, 1, at=2, limit=2, queue="c", priority=1),
        submission("wide", 4, 1, at=2, queue="a", priority=1),
    ]
    check(story(specs, submissions, BackfillPolicy(shortest_first=True)), specs)


@pytest.mark.parametrize(
    "policy", [*POLICIES, BackfillPolicy(reserve_after=float("inf")), BackfillPolicy(overtaking=False)], ids=str
)
@settings(max_examples=50)
@given(queue_lists(preemption=True), submission_lists())
def test_every_workload_that_fits_an_idle_cluster_runs(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    """A workload that never starts exceeds its quota or waits behind such a workload in a StrictFIFO queue."""
    played = story(specs, submissions, policy)
    nodes = played.planner.snapshot.cluster_queues
    fitting = {
        one.workload.key: one.workload.total_requests[0].requests["cpu"] <= nodes[one.queue].potential_available(CPU)
        for one in submissions
    }
    blocked: set[str] = (
        set() if policy.overtaking else {one.queue for one in submissions if not fitting[one.workload.key]}
    )
    for one in submissions:
        started = one.workload.key in played.starts
        assert started == fitting[one.workload.key] or one.queue in blocked
    assert not played.planner.running


def test_a_reservation_keeps_its_start_if_the_search_finds_no_other() -> None:
    """Once flavor one is free, the search tries it first. A start there, or later in flavor two, would delay others to
    the end.

    The reserved start in flavor two is still feasible.
    """
    one, two = (FlavorQuotas(name, (("cpu", ResourceQuota(10)),)) for name in ("one", "two"))
    gpus = FlavorQuotas("gpus", (("gpu", ResourceQuota(1)),))
    spec = ClusterQueue("q", (resource_group(one, two), resource_group(gpus)))
    planner = make_planner([spec], BackfillPolicy(depth=9))

    def submit(name: str, run: float, flavor: str = "", **requests: int) -> None:
        allowed = frozenset({flavor, "gpus"}) if flavor else None
        new = replace(submission(name, 0, run).workload, pod_sets=(PodSet(requests=requests),), allowed_flavors=allowed)
        events.submit(planner, new, "q")

    submit("0-ends", 110, "one", cpu=10)
    submit("1-runs", 100, "two", cpu=10)
    submit("2-gpu", 120, gpu=1)
    submit("3-any", 200, cpu=10)
    submit("4-one", inf, "one", cpu=10, gpu=1)
    submit("5-two", inf, "two", cpu=10)
    submit("6-one", inf, "one", cpu=10)
    submit("7-two", inf, "two", cpu=10)
    schedule(planner, 0)
    starts = {"/3-any": 100, "/4-one": 120, "/5-two": 300, "/6-one": inf, "/7-two": inf}
    assert {key: each.start for key, each in planner.reservations.by_key.items()} == starts
    events.finish(planner, "/0-ends")
    schedule(planner, 10)
    assert {key: each.start for key, each in planner.reservations.by_key.items()} == starts

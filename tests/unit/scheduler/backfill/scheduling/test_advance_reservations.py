"""Workloads with a begin time: they start no earlier, and hold a reservation if their ClusterQueue is configured so."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import Story, Submission, make_planner, queue, submission
from unit.scheduler.backfill.state.test_checkpoint import as_plain, restarted
from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.backfill.forecast.arrival_history import ArrivalHistory
from zonewise_scheduler.backfill.forecast.inputs import ForecastInputs
from zonewise_scheduler.backfill.forecast.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.forecast.sample_paths import EXACT, MAX_GRAIN, SamplePathOptions, sample_starts
from zonewise_scheduler.backfill.policies import DEFAULT_POLICY, BackfillPolicy, policy_named
from zonewise_scheduler.backfill.reservations.reservation import ReservationTable
from zonewise_scheduler.backfill.scheduling.advance_reservations import MAX_ADVANCE_RESERVATIONS
from zonewise_scheduler.backfill.scheduling.scheduling_pass import RETRY_INTERVAL, schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

QUEUES = [queue("q", 8, cohort="all"), queue("admin", 0, cohort="all")._replace(advance_reservations=True)]
POLICIES = [BackfillPolicy(), policy_named(DEFAULT_POLICY), policy_named("greedy"), policy_named("fifo")]


def begins(
    name: str, at: float, *, cpus: int = 8, run: float = 10, queue: str = "admin", submitted: float = 0
) -> Submission:
    """Return a workload that begins later."""
    found = submission(name, cpus, run, at=submitted, queue=queue)
    return found._replace(workload=replace(found.workload, begin_at=at))


def make(*submissions: Submission, policy: BackfillPolicy | None = None) -> PlannerState:
    """Return a planner after its first pass, at 0 s."""
    planner = make_planner(QUEUES, policy or policy_named(DEFAULT_POLICY))
    for entry in submissions:
        events.submit(planner, entry.workload, entry.queue)
    schedule(planner, 0)
    return planner


def starts(planner: PlannerState) -> dict[str, float]:
    """Return the reserved starts by name."""
    return {entry.workload.name: entry.start for entry in planner.reservations_by_start}


def test_an_advance_reservation_lets_only_those_start_that_end_before_it() -> None:
    """At its begin time the machine is empty, without preemption and without an idle wait."""
    jobs = [submission("long", 4, 200, at=1), submission("late", 4, 60, at=50), submission("short", 4, 90, at=2)]
    played = Story(make_planner(QUEUES, policy_named(DEFAULT_POLICY))).play([begins("maintenance", 100), *jobs])
    assert played.starts["/maintenance"] == 100
    assert played.starts["/short"] == 2
    assert min(played.starts["/long"], played.starts["/late"]) >= 110


def test_a_workload_that_never_fits_is_explained_before_its_begin_time() -> None:
    """Otherwise, an administrator would learn only at the maintenance that its queue cannot borrow the CPUs."""
    planner = make(begins("huge", 100, cpus=80))
    explanation = explain(planner, "/huge", 0)
    assert explanation.never_fits
    assert explanation_message(explanation) == (
        "begins in 1 min 40 s at the earliest; needs 0.08 CPUs of flavor all; cohort all has 0.008; "
        "cannot start even when all other workloads have ended"
    )
    waits = make(submission("long", 8, 500), begins("later", 100, queue="q"))
    assert explanation_message(explain(waits, "/later", 0)) == "begins in 1 min 40 s at the earliest"


def test_without_the_annotation_of_its_queue_a_workload_only_begins_later() -> None:
    """Any user may ask for a begin time, but only an administrator for a reservation."""
    planner = make(begins("later", 100, queue="q"))
    assert starts(planner) == {}
    assert planner.wake_at == 100
    events.submit(planner, submission("other", 8, 500).workload, "q")
    assert [workload.name for workload in schedule(planner, 50).admitted] == ["other"]


def test_a_reservation_is_as_early_as_the_walltimes_of_running_jobs_allow() -> None:
    """It moves forward when they end early, but not before the begin time."""
    planner = make(submission("running", 8, 150))
    assert "/running" in planner.running
    events.submit(planner, begins("maintenance", 100).workload, "admin")
    schedule(planner, 1)
    assert starts(planner) == {"maintenance": 150}
    events.finish(planner, "/running")
    schedule(planner, 20)
    assert starts(planner) == {"maintenance": 100}
    assert planner.wake_at == 100
    assert not schedule(planner, 99).admitted
    assert [workload.name for workload in schedule(planner, 100).admitted] == ["maintenance"]


def test_changes_of_the_begin_time_and_deletions_release_the_reservation() -> None:
    """What was held is available again in the same pass."""
    planner = make(begins("maintenance", 100), submission("long", 8, 500))
    assert starts(planner)["maintenance"] == 100
    events.submit(planner, begins("maintenance", 700).workload, "admin")
    assert [workload.name for workload in schedule(planner, 1).admitted] == ["long"]
    assert starts(planner) == {"maintenance": 700}
    events.submit(planner, begins("maintenance", 600).workload, "admin")
    schedule(planner, 2)
    assert starts(planner) == {"maintenance": 600}
    events.withdraw(planner, "/maintenance")
    schedule(planner, 3)
    assert starts(planner) == {}
    assert planner.wake_at == inf


def test_a_reconfigured_queue_makes_or_drops_advance_reservations() -> None:
    """The annotation of the ClusterQueue may change at any time."""
    planner = make(begins("maintenance", 100))
    for advance in (False, True):
        specs = tuple(spec._replace(advance_reservations=advance and spec.name == "admin") for spec in QUEUES)
        events.reconfigure(planner, QueueConfiguration(specs))
        schedule(planner, 1)
        assert bool(starts(planner)) is advance


def test_a_queue_has_a_maximum_of_advance_reservations() -> None:
    """Further workloads get theirs once others have begun."""
    planner = make(*(begins(f"{number:02}", 100 + number, cpus=1) for number in range(MAX_ADVANCE_RESERVATIONS + 3)))
    assert len(starts(planner)) == MAX_ADVANCE_RESERVATIONS
    schedule(planner, 100)
    assert len(starts(planner)) == MAX_ADVANCE_RESERVATIONS


def test_a_workload_that_never_fits_is_not_searched_for_in_every_pass() -> None:
    """It is tried again after nodes or reservations have changed."""
    planner = make(begins("huge", 100, cpus=80))
    assert planner.unreserved == {"/huge": True}
    schedule(planner, 1)
    assert planner.unreserved == {"/huge": True}
    events.nodes_changed(planner)
    assert planner.wake_at < inf
    schedule(planner, 101)
    assert planner.unreserved == {}


def test_workloads_that_never_fit_are_searched_for_once_in_each_interval_of_retries() -> None:
    """Nodes change several times a second. Any user may submit thousands of such workloads."""
    huge = [begins(f"{number:03}", 10_000, cpus=80) for number in range(3 * MAX_ADVANCE_RESERVATIONS)]
    planner = make(*huge)
    with patch.object(ReservationTable, "reserve", autospec=True, return_value=None) as reserve:
        for now in range(1, 1 + int(RETRY_INTERVAL)):
            events.nodes_changed(planner)
            schedule(planner, now)
    assert reserve.call_count == len(huge)


def test_workloads_that_never_fit_do_not_keep_a_later_one_from_its_reservation() -> None:
    """It gets the reservation without any event, once all workloads before it have been tried."""
    huge = [begins(f"{number:03}", 10_000, cpus=80) for number in range(2 * MAX_ADVANCE_RESERVATIONS)]
    planner = make(*huge, begins("last", 10_000))
    for _ in range(3):
        assert planner.wake_at < 10_000
        schedule(planner, planner.wake_at)
    assert starts(planner) == {"last": 10_000}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_explanation_names_the_begin_time_and_the_reserved_start(policy: BackfillPolicy) -> None:
    """A policy without reservations names only the begin time."""
    planner = make(begins("maintenance", 100), policy=policy)
    message = explanation_message(explain(planner, "/maintenance", 0))
    reserved = "; is reserved to start in 1 min 40 s at the latest" if policy.reserves else ""
    assert message == f"begins in 1 min 40 s at the earliest{reserved}"


@pytest.mark.parametrize("options", [EXACT, SamplePathOptions(MAX_GRAIN)])
def test_a_forecast_respects_begin_times_and_advance_reservations(options: SamplePathOptions) -> None:
    """In every sample, the maintenance starts at its begin time, and a long job only after it."""
    planner = make(begins("maintenance", 100), begins("later", 40, cpus=1, queue="q"))
    events.submit(planner, submission("long", 8, 200).workload, "q")
    schedule(planner, 1)
    samples = sample_starts(planner, 1, ForecastInputs(RunTimeHistory(), ArrivalHistory()), options=options)
    assert {key: set(entry.starts) for key, entry in samples.items()} == {
        "/maintenance": {100.0}, "/later": {40.0}, "/long": {110.0},
    }  # fmt: skip
    assert {key: entry.begin_at for key, entry in samples.items()} == {"/maintenance": 100, "/later": 40, "/long": 0}


@st.composite
def jobs(draw: st.DrawFn) -> list[Submission]:
    """Draw jobs of two queues, of which some begin later."""
    found: list[Submission] = []
    for number in range(draw(st.integers(1, 14))):
        at, run = draw(st.integers(0, 20)), draw(st.integers(1, 12))
        entry = submission(
            f"{number:02}", draw(st.integers(1, 8)), run, at=at, limit=run + draw(st.sampled_from([0, 0, 5])),
            queue=draw(st.sampled_from(["q", "q", "admin"])),
        )  # fmt: skip
        begin_at = draw(st.sampled_from([0, 0, at + draw(st.integers(0, 30))]))
        found.append(entry._replace(workload=replace(entry.workload, begin_at=float(begin_at))))
    return found


@given(jobs(), st.sampled_from(POLICIES))
def test_no_workload_starts_before_its_begin_time_and_no_reservation_is_delayed(
    submissions: list[Submission], policy: BackfillPolicy
) -> None:
    """Walltimes are upper bounds here. Every workload starts, and no reserved start moves to a later time."""
    specs: list[ClusterQueue] = QUEUES
    played = Story(make_planner(specs, policy)).play(submissions)
    for entry in submissions:
        workload = entry.workload
        assert played.starts[workload.key] >= max(workload.created_at, workload.begin_at)
    for _, reserved, start in played.reserved_starts:
        assert all(later <= earlier for earlier, later in zip([*reserved, start], [*reserved, start][1:], strict=False))
    assert all(sum(used.values()) <= 8 for _, used in played.usage)


def test_a_queue_that_no_longer_makes_advance_reservations_has_none_after_a_restart() -> None:
    planner = make(begins("maintenance", 100))
    assert starts(planner) == {"maintenance": 100}
    other = restarted(planner, Snapshot([spec._replace(advance_reservations=False) for spec in QUEUES]))
    assert starts(other) == {}


@given(jobs(), st.sampled_from(POLICIES), st.integers(1, 3))
def test_a_restart_keeps_the_reservations_of_workloads_that_have_begun(
    submissions: list[Submission], policy: BackfillPolicy, period: int
) -> None:
    """Even if the first nodes of the topologies, and so another configuration, arrive before the first pass."""
    story = Story(make_planner(QUEUES, policy), watch=lambda _, __: again())

    def again() -> None:
        if len(story.plans) % period == 0:
            before = as_plain(story.planner.reservations_by_start)
            story.planner = restarted(story.planner, Snapshot(QUEUES))
            events.reconfigure(story.planner, QueueConfiguration(tuple(QUEUES)))
            assert as_plain(story.planner.reservations_by_start) == before

    played = story.play(submissions)
    assert played.starts.keys() == {entry.workload.key for entry in submissions}

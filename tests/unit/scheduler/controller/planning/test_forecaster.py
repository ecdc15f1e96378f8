"""Starts are sampled beside the controller, from copies."""

from __future__ import annotations

import queue
from copy import deepcopy
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_workload
from support.planner_stories import queue as cluster_queue
from support.waiting import PATIENCE
from unit.scheduler.backfill.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.forecast_history import ForecastHistory
from zonewise_scheduler.backfill.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.planner_state import new_state
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.controller.planning.forecaster import (
    MAX_SUBMITTED,
    NO_SAMPLES,
    UNCHANGED_PERIOD,
    BasisCopier,
    ForecastBasis,
    Forecaster,
    NoBasis,
    SampledForecast,
    copy_basis,
    first_workloads,
    sample_basis,
)
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

NOW = 1000.0


def planner(waiting: int) -> PlannerState:
    state = new_state(Snapshot([cluster_queue("q", 1000)]), BackfillPolicy())
    for i in range(waiting + 1):
        events.submit(state, make_workload(f"w{i:02}", 1000, 100, at=NOW), "q")
    schedule(state, NOW)
    return state


def test_all_pending_workloads_have_forecasts() -> None:
    state = planner(15)
    pending = dict(state.pending)
    now, samples, whole = sample_basis(copy_basis(state, ForecastHistory(), NOW))
    assert (now, whole) == (NOW, True)
    starts = {key: set(sampled.starts) for key, sampled in samples.items()}
    assert starts == {f"ns/w{i:02}": {NOW + 100 * i} for i in range(1, 16)}
    assert state.pending == pending


def test_the_first_workloads_of_each_queue_come_before_the_second() -> None:
    state = new_state(Snapshot([cluster_queue("q", 1), cluster_queue("other", 1)]), BackfillPolicy())
    for i in range(5):
        events.submit(state, make_workload(f"w{i}", 1, 100, at=NOW + i), "q" if i < 3 else "other")
    assert [first_workloads(state, count) for count in (3, 9)] == [
        ["ns/w0", "ns/w3", "ns/w1"],
        ["ns/w0", "ns/w3", "ns/w1", "ns/w4", "ns/w2"],
    ]


def test_what_was_submitted_is_sampled_alone() -> None:
    feed, copier, history = PlannerFeed(BackfillPolicy(), QuotaSettings()), BasisCopier(), ForecastHistory()
    feed.state = planner(3)
    assert isinstance(copier.copy(feed, history, NOW, leads=True), ForecastBasis)
    assert copier.copy(feed, history, NOW, leads=True, whole=False) is NoBasis.UNCHANGED
    events.submit(feed.state, make_workload("later", 1000, 100, at=NOW), "q")
    basis = copier.copy(feed, history, NOW, leads=True, whole=False)
    assert isinstance(basis, ForecastBasis)
    now, samples, whole = sample_basis(basis)
    assert (now, list(samples), whole) == (NOW, ["ns/later"], False)
    assert copier.copy(feed, history, NOW, leads=True, whole=False) is NoBasis.UNCHANGED


def test_workloads_of_an_inactive_queue_have_no_forecasts() -> None:
    state = planner(3)
    state.snapshot.inactive["q"] = "it is stopped"
    assert sample_basis(copy_basis(state, ForecastHistory(), NOW)).samples == {}


def test_workloads_of_an_inactive_queue_take_no_place_of_others() -> None:
    specs = [cluster_queue("stopped", 1), cluster_queue("q", 1)]
    feed, copier, history = PlannerFeed(BackfillPolicy(), QuotaSettings()), BasisCopier(), ForecastHistory()
    feed.state = new_state(Snapshot(specs), BackfillPolicy())
    feed.state.snapshot.inactive["stopped"] = "it is stopped"
    copier.copy(feed, history, NOW, leads=True)
    for i in range(MAX_SUBMITTED):
        events.submit(feed.state, make_workload(f"w{i}", 1, 100, at=NOW), "stopped")
    assert copier.copy(feed, history, NOW, leads=True, whole=False) is NoBasis.UNCHANGED
    events.submit(feed.state, make_workload("last", 1, 100, at=NOW), "q")
    basis = copier.copy(feed, history, NOW, leads=True, whole=False)
    assert isinstance(basis, ForecastBasis)
    assert basis.submitted == ("ns/last",)
    assert first_workloads(feed.state, 1) == ["ns/last"]


@given(
    st.sampled_from(POLICIES),
    queue_lists(preemption=True),
    submission_lists(),
    st.integers(0, 14),
    st.lists(st.integers(1, 9), min_size=3),
)
def test_a_forecast_is_of_the_time_of_its_copy(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], before: int, runs: list[int]
) -> None:
    """Whatever the controller does meanwhile, it is as from a state that shares nothing with another."""
    state, history = new_state(Snapshot(specs), policy), ForecastHistory()
    for run in runs:
        history.ended(submissions[0].workload, run)
    for each in submissions[:before]:
        events.submit(state, each.workload, each.queue)
        schedule(state, each.workload.created_at)
    separate = ForecastBasis(deepcopy(state), deepcopy(history.inputs), NOW)
    basis = copy_basis(state, history, NOW)
    for key in list(state.running):
        events.finish(state, key)
    for each in submissions[before:]:
        events.submit(state, each.workload, each.queue)
        history.ended(each.workload, 1.0)
    schedule(state, NOW)
    for key in list(state.pending)[::2]:
        events.withdraw(state, key)
    assert sample_basis(basis) == sample_basis(separate)


def test_a_copied_history_does_not_follow_the_original() -> None:
    history = ForecastHistory()
    basis = copy_basis(planner(1), history, NOW)
    workload = next(iter(basis.state.running.values())).workload
    for _ in range(5):
        history.ended(workload, 10.0)
        history.admitted([workload], NOW)
    assert basis.inputs.run_times.distribution(workload) is None
    assert len(basis.inputs.arrivals) == 0


def test_a_queue_without_a_change_is_copied_once_in_five_minutes() -> None:
    feed, copier, history = PlannerFeed(BackfillPolicy(), QuotaSettings()), BasisCopier(), ForecastHistory()

    def copied(now: float, *, leads: bool = True) -> object:
        basis = copier.copy(feed, history, now, leads=leads)
        return basis.now if isinstance(basis, ForecastBasis) else basis

    assert [copied(now) for now in (NOW, NOW + 30)] == [NOW, NoBasis.UNCHANGED]
    feed.change_nodes([])
    assert [copied(now) for now in (NOW + 60, NOW + 90)] == [NOW + 60, NoBasis.UNCHANGED]
    assert copied(NOW + 60 + UNCHANGED_PERIOD) == NOW + 60 + UNCHANGED_PERIOD
    assert copied(NOW + 400, leads=False) is NoBasis.NOT_LEADING
    assert copied(NOW + 401) == NOW + 401


def test_forecasts_are_published_again_and_again_also_after_failures() -> None:
    published: queue.SimpleQueue[SampledForecast] = queue.SimpleQueue()
    state = planner(1)
    bases = iter(
        [copy_basis(state, ForecastHistory(), NOW), TimeoutError("busy"), ZeroDivisionError(), NoBasis.UNCHANGED]
    )

    def ask(whole: bool) -> ForecastBasis | NoBasis:
        basis = next(bases, NoBasis.NOT_LEADING) if whole else NoBasis.UNCHANGED
        if isinstance(basis, Exception):
            raise basis
        return basis

    with Forecaster(ask, published.put, whole_period=0.001, submitted_period=0.001):
        assert list(published.get(timeout=PATIENCE).samples) == ["ns/w01"]
        assert published.get(timeout=PATIENCE) == NO_SAMPLES

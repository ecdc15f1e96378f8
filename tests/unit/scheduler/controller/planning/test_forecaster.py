"""Starts are sampled from copies of the state, concurrently with the controller."""

from __future__ import annotations

import queue
from copy import deepcopy
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import make_workload
from support.planner_stories import queue as cluster_queue
from support.waiting import PATIENCE
from unit.scheduler.backfill.reservations.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.sample_paths import sample_starts
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.backfill.scheduling.scheduling_pass import schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.controller.planning.forecaster import (
    NO_SAMPLES,
    UNCHANGED_PERIOD,
    BasisCopier,
    ForecastBasis,
    Forecaster,
    NoBasis,
    SampledForecast,
    copy_basis,
    first_workloads,
    number_of_increment_sample_paths,
    options_within,
    sample_basis,
)
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
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
    played = sample_basis(copy_basis(state, ForecastHistory(), NOW))
    starts = {key: set(sampled.starts) for key, sampled in played.items()}
    assert starts == {f"ns/w{i:02}": {NOW + 100 * i} for i in range(1, 16)}
    assert state.pending == pending


def test_the_first_workload_of_each_queue_precedes_the_second_ones() -> None:
    state = new_state(Snapshot([cluster_queue("q", 1), cluster_queue("other", 1)]), BackfillPolicy())
    for i in range(5):
        events.submit(state, make_workload(f"w{i}", 1, 100, at=NOW + i), "q" if i < 3 else "other")
    assert [first_workloads(state, count) for count in (3, 9)] == [
        ["ns/w0", "ns/w3", "ns/w1"],
        ["ns/w0", "ns/w3", "ns/w1", "ns/w4", "ns/w2"],
    ]


@pytest.mark.parametrize(("workloads", "paths"), [(0, 16), (14, 16), (49, 5), (99, 2), (125, 1), (5000, 1)])
def test_an_increment_samples_250_workloads_in_all_or_is_one_sample_path(workloads: int, paths: int) -> None:
    assert number_of_increment_sample_paths(workloads) == paths


def test_a_change_is_followed_by_increments_of_sixteen_sample_paths_in_all() -> None:
    """Each path has a unique number, so that no draw is repeated. Then nothing is copied until the next change."""
    feed, copier, history = PlannerFeed(BackfillPolicy(), QuotaSettings()), BasisCopier(), ForecastHistory()
    feed.state = planner(48)

    def numbers() -> list[range]:
        bases = (copier.copy(feed, history, NOW, leads=True) for _ in range(5))
        return [basis.numbers for basis in bases if isinstance(basis, ForecastBasis)]

    assert numbers() == [range(5), range(5, 10), range(10, 15), range(15, 16)]
    feed.change_nodes([])
    assert copier.copy(feed, history, NOW, leads=True) != NoBasis.UNCHANGED
    feed.change_nodes([])
    assert numbers() == [range(21, 26), range(26, 31), range(31, 36), range(36, 37)]


def test_an_increment_ends_once_its_cpu_time_is_used() -> None:
    """None may be used: the sample path makes only its first decision. Only the reserved start is known then."""
    state = planner(3)
    assert not options_within(state, 1e9).is_over()
    samples = sample_starts(state, NOW, ForecastHistory().inputs, options=options_within(state, 0.0))
    assert sorted(sampled.starts for sampled in samples.values()) == [(NOW + 100,), (inf,), (inf,)]


def test_workloads_of_an_inactive_queue_have_no_forecasts() -> None:
    state = planner(3)
    state.snapshot.inactive["q"] = "it is stopped"
    assert sample_basis(copy_basis(state, ForecastHistory(), NOW)) == {}


def test_workloads_of_an_inactive_queue_do_not_displace_others() -> None:
    state = new_state(Snapshot([cluster_queue("stopped", 1), cluster_queue("q", 1)]), BackfillPolicy())
    state.snapshot.inactive["stopped"] = "it is stopped"
    events.submit(state, make_workload("first", 1, 100, at=NOW), "stopped")
    events.submit(state, make_workload("last", 1, 100, at=NOW), "q")
    assert first_workloads(state, 1) == ["ns/last"]


@given(
    st.sampled_from(POLICIES),
    queue_lists(preemption=True),
    submission_lists(),
    st.integers(0, 14),
    st.lists(st.integers(1, 9), min_size=3),
)
@settings(max_examples=30)
def test_a_forecast_reflects_the_time_of_its_copy(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], before: int, runs: list[int]
) -> None:
    """Whatever the controller does in the meantime, the forecast equals one from a fully separate copy."""
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


def test_a_copied_history_does_not_change_with_the_original() -> None:
    history = ForecastHistory()
    basis = copy_basis(planner(1), history, NOW)
    workload = next(iter(basis.state.running.values())).workload
    for _ in range(5):
        history.ended(workload, 10.0)
        history.admitted([workload], NOW)
    assert basis.inputs.run_times.distribution(workload) is None
    assert len(basis.inputs.arrivals) == 0


def test_a_queue_without_a_change_is_sampled_again_after_five_minutes() -> None:
    """With few workloads, a single increment contains all sample paths."""
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


def test_forecasts_are_published_repeatedly_even_after_failures() -> None:
    published: queue.SimpleQueue[SampledForecast] = queue.SimpleQueue()
    state = planner(1)
    bases = iter(
        [copy_basis(state, ForecastHistory(), NOW), TimeoutError("busy"), ZeroDivisionError(), NoBasis.UNCHANGED]
    )

    def ask() -> ForecastBasis | NoBasis:
        basis = next(bases, NoBasis.NOT_LEADING)
        if isinstance(basis, Exception):
            raise basis
        return basis

    with Forecaster(ask, published.put, period=0.001):
        assert list(published.get(timeout=PATIENCE).samples) == ["ns/w01"]
        assert published.get(timeout=PATIENCE) == NO_SAMPLES


def test_a_workload_has_a_forecast_after_three_sample_paths_and_no_more_than_sixteen_samples() -> None:
    """The sample paths may belong to one increment or to several. A replica that led before starts over."""
    published: queue.SimpleQueue[SampledForecast] = queue.SimpleQueue()
    state = planner(1)
    counts = [2, 2, NoBasis.NOT_LEADING, 1, 1, 1, 15]

    def bases() -> Iterator[ForecastBasis | NoBasis]:
        for count in counts:
            if isinstance(count, NoBasis):
                yield count
            else:
                yield copy_basis(state, ForecastHistory(), NOW)._replace(numbers=range(count))

    remaining = bases()
    with Forecaster(lambda: next(remaining, NoBasis.UNCHANGED), published.put, period=0.001):
        samples = [published.get(timeout=PATIENCE).samples for _ in counts]
    assert [[len(sampled.starts) for sampled in each.values()] for each in samples] == [
        [], [4], [], [], [], [3], [16],
    ]  # fmt: skip

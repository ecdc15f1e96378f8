"""Forecasts: the planner played forward."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import Story, queue, submission
from unit.scheduler.backfill.test_reservation import POLICIES, queue_lists, submission_lists
from zonewise_scheduler.backfill import events
from zonewise_scheduler.backfill.forecast import forecast_starts
from zonewise_scheduler.backfill.planner_state import new_state
from zonewise_scheduler.backfill.policies import BackfillPolicy, policy_named
from zonewise_scheduler.backfill.run_time_history import RunTimeHistory
from zonewise_scheduler.backfill.scheduling_pass import schedule
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.quota.api.queue_types import ClusterQueuePreemption
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.planner_stories import Submission
    from zonewise_scheduler.backfill.planner_state import PlannerState
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue

ANN = ("ann", "q", "solve")


def learned(*runs: float) -> RunTimeHistory:
    """A history of the run times of ann."""
    times = RunTimeHistory()
    for run in runs:
        times.observe(ann_submits("before", 1, 100).workload, run)
    return times


def ann_submits(name: str, cpus: int, limit: float, *, at: float = 0) -> Submission:
    one = submission(name, cpus, limit, at=at)
    return one._replace(workload=replace(one.workload, history_keys=ANN))


def state_after(
    *submissions: Submission, queues: list[ClusterQueue] | None = None, policy: str = "greedy"
) -> PlannerState:
    """A state after passes at 0, with the workloads pending or running in 8 CPUs."""
    planner = new_state(Snapshot([queue("q", 8)] if queues is None else queues), policy_named(policy, 0.0))
    for one in submissions:
        events.submit(planner, one.workload, one.queue)
        schedule(planner, 0)
    return planner


def test_a_forecast_is_the_queue_played_forward() -> None:
    """The workloads of ann declare 100 s and take 10 to 30 s; two of them precede the last."""
    planner = state_after(*(ann_submits(name, 8, 100) for name in "abc"))
    assert forecast_starts(planner, 5, learned(10, 20, 30)) == {
        "/b": Forecast(10, 20, 100),
        "/c": Forecast(20, 40, 200),
    }


def test_a_start_that_depends_on_unknown_run_times_is_unknown() -> None:
    planner = state_after(submission("a", 5, inf), submission("b", 8, 10))
    assert forecast_starts(planner, 1, RunTimeHistory()) == {"/b": Forecast(1, inf, inf)}


def test_a_workload_that_never_fits_has_an_unknown_start() -> None:
    assert forecast_starts(state_after(submission("a", 9, 1)), 1, RunTimeHistory()) == {"/a": Forecast(inf, inf, inf)}


def test_an_overrun_workload_is_expected_to_end_soon() -> None:
    planner = state_after(submission("a", 8, 10), submission("b", 8, 10))
    assert forecast_starts(planner, 50, RunTimeHistory()) == {"/b": Forecast(50, 50, 110)}


def test_victims_are_pending_again_at_once() -> None:
    """After their preemptor they run from the start again."""
    specs = [queue("q", 8, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = state_after(
        submission("a", 8, 10), submission("high", 8, 20, priority=1), submission("later", 8, 5), queues=specs
    )
    assert planner.running_workloads.stopping == {"/a"}
    forecasts = forecast_starts(planner, 4, RunTimeHistory())
    assert forecasts["/high"] == Forecast(4, 4, 4)
    assert forecasts["/later"] == Forecast(4, 34, 34)


def test_a_reservation_bounds_a_forecast() -> None:
    """The forecast, too, has no workload start that would delay the reservation."""
    planner = state_after(submission("a", 6, 10), submission("b", 8, 10), policy="easy")
    forecasts = forecast_starts(planner, 2, RunTimeHistory())["/b"]
    assert forecasts.latest == planner.reservations_by_start[0].start == 10


def test_the_play_ends_when_the_workloads_have_started() -> None:
    """With only as many decisions as the second workload needs, the later starts are unknown."""
    planner = state_after(*(submission(name, 8, 10) for name in "abcd"))
    assert forecast_starts(planner, 0, RunTimeHistory(), ["/b"]) == {"/b": Forecast(0, 10, 10)}
    assert forecast_starts(planner, 0, RunTimeHistory(), max_decisions=2)["/b"].latest == 10
    assert forecast_starts(planner, 0, RunTimeHistory(), max_decisions=2)["/c"].latest == inf


def test_a_workload_that_is_not_pending_has_no_forecast() -> None:
    with pytest.raises(KeyError):
        forecast_starts(state_after(submission("a", 8, 10)), 0, RunTimeHistory(), ["/a"])


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_a_grain_changes_nothing_where_ends_are_apart(limits: list[int], grain: float) -> None:
    planner = state_after(*(submission(f"{index:02}", 8, limit) for index, limit in enumerate(limits)))
    assert forecast_starts(planner, 0, RunTimeHistory(), time_grain=grain) == forecast_starts(
        planner, 0, RunTimeHistory()
    )


def test_a_grain_merges_ends_that_are_close() -> None:
    first = (submission(f"{end}", 1, end) for end in range(96, 104))
    planner = state_after(*first, submission("next", 4, 10), submission("z", 8, 1))
    forecasts = forecast_starts(planner, 0, RunTimeHistory(), time_grain=0.1)
    assert (forecasts["/next"].latest, forecasts["/z"].latest) == (99.5, 109.5)
    exact = forecast_starts(planner, 0, RunTimeHistory())
    assert (exact["/next"].latest, exact["/z"].latest) == (99, 109)


def test_a_workload_that_starts_in_the_play_may_be_preempted_later() -> None:
    """Also where admissions count as assumed until they are observed, which happens at once in a play."""
    specs = [queue("q", 8, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = new_state(Snapshot(specs), policy_named("greedy", 0.0))
    planner.assumed = set()
    for each in (
        submission("first", 4, 100, priority=9),
        submission("wide", 8, 100, priority=9),
        submission("before", 4, 10),
        submission("low", 4, 1000),
    ):
        events.submit(planner, each.workload, each.queue)
        schedule(planner, 0)
    forecasts = forecast_starts(planner, 0, RunTimeHistory())
    assert (forecasts["/low"].likely, forecasts["/wide"].likely) == (10, 100)


# --- random histories


@pytest.mark.parametrize(
    "policy", [*POLICIES, BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@settings(max_examples=40)  # each forecasts at every pass
@given(queue_lists(preemption=True), submission_lists(most=7), st.lists(st.integers(1, 10), max_size=10))
def test_starts_ascend_and_a_forecast_changes_nothing(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission], runs: list[int]
) -> None:
    def ask(planner: PlannerState, now: float) -> None:
        forecasts = forecast_starts(planner, now, times)
        assert forecasts.keys() == planner.pending.keys()
        for key, one in forecasts.items():
            assert now <= one.earliest <= one.likely <= one.latest
            if key in planner.reservations.by_key:
                assert one.latest <= max(planner.reservations.by_key[key].start, now)

    times = learned(*runs)
    submissions = [one._replace(workload=replace(one.workload, history_keys=ANN)) for one in submissions]
    watched = Story(new_state(Snapshot(specs), policy), watch=ask).play(submissions)
    assert as_told(watched) == as_told(Story(new_state(Snapshot(specs), policy)).play(submissions))


def as_told(played: Story) -> list[object]:
    """Return what was decided, without the workloads, which are equal only to themselves."""
    return [
        (
            now,
            [workload.key for workload in step.admitted],
            [(victim.workload.key, victim.preemptor.key, victim.reason) for victim in step.victims],
            [(one.workload.key, one.start, one.waits_for) for one in step.reserved],
            {key: one.status for key, one in step.decisions.items()},
        )
        for now, step in played.plans
    ]


@pytest.mark.parametrize(
    "policy", [*POLICIES[:-1], BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@given(queue_lists(preemption=True), submission_lists(most=9))
def test_with_exact_run_times_and_no_later_arrivals_a_forecast_is_exact(
    policy: BackfillPolicy, specs: list[ClusterQueue], submissions: list[Submission]
) -> None:
    forecasts_by_time: dict[float, dict[str, Forecast]] = {}

    def ask(planner: PlannerState, now: float) -> None:
        if all(one.workload.key in planner.pending or one.workload.key in planner.running for one in submissions):
            forecasts_by_time[now] = forecast_starts(planner, now, RunTimeHistory())

    submissions = [one._replace(run=one.workload.walltime) for one in submissions]
    played = Story(new_state(Snapshot(specs), policy), watch=ask).play(submissions)
    for at, each in forecasts_by_time.items():
        for key, one in each.items():
            starts = (now for now, step in played.plans if now > at and key in {new.key for new in step.admitted})
            assert one.likely == one.latest == next(starts, inf), (at, one)

"""When waiting workloads are foretold to start: the plan played forward."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.planner_stories import Story, queue, submission
from unit.scheduler.backfill.test_reservation import RULES, comings, queues
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
    """What ann ran before."""
    times = RunTimeHistory()
    for run in runs:
        times.observe(of_ann("before", 1, 1).workload, run)
    return times


def of_ann(name: str, cpus: int, limit: float, *, at: float = 0) -> Submission:
    one = submission(name, cpus, limit, at=at)
    return one._replace(workload=replace(one.workload, history_keys=ANN))


def planner_of(*found: Submission, queues: list[ClusterQueue] | None = None, rules: str = "greedy") -> PlannerState:
    """A planner that has decided, at 0, on all that wait in 8 CPUs."""
    planner = new_state(Snapshot([queue("q", 8)] if queues is None else queues), policy_named(rules, 0.0))
    for one in found:
        events.submit(planner, one.workload, one.queue)
        schedule(planner, 0)
    return planner


def test_a_forecast_is_the_queue_played_forward() -> None:
    """The workloads of ann declare 100 s, and take between 10 and 30: two of them are before the last."""
    planner = planner_of(*(of_ann(name, 8, 100) for name in "abc"))
    assert forecast_starts(planner, 5, learned(10, 20, 30)) == {
        "/b": Forecast(10, 20, 100),
        "/c": Forecast(20, 40, 200),
    }


def test_a_start_that_depends_on_unknown_run_times_is_unknown() -> None:
    planner = planner_of(submission("a", 5, inf), submission("b", 8, 10))
    assert forecast_starts(planner, 1, RunTimeHistory()) == {"/b": Forecast(1, inf, inf)}


def test_a_workload_that_never_fits_has_an_unknown_start() -> None:
    assert forecast_starts(planner_of(submission("a", 9, 1)), 1, RunTimeHistory()) == {"/a": Forecast(inf, inf, inf)}


def test_an_overrun_workload_is_expected_to_end_soon() -> None:
    planner = planner_of(submission("a", 8, 10), submission("b", 8, 10))
    assert forecast_starts(planner, 50, RunTimeHistory()) == {"/b": Forecast(50, 50, 110)}


def test_victims_are_pending_again_at_once() -> None:
    """After who made them give way, they run from their beginning."""
    specs = [queue("q", 8, preemption=ClusterQueuePreemption("LowerPriority"))]
    planner = planner_of(
        submission("a", 8, 10), submission("high", 8, 20, priority=1), submission("later", 8, 5), queues=specs
    )
    assert planner.running_workloads.stopping == {"/a"}
    found = forecast_starts(planner, 4, RunTimeHistory())
    assert found["/high"] == Forecast(4, 4, 4)
    assert found["/later"] == Forecast(4, 34, 34)


def test_a_reservation_bounds_a_forecast() -> None:
    """That nobody passes who would delay it is not to be foretold otherwise."""
    planner = planner_of(submission("a", 6, 10), submission("b", 8, 10), rules="easy")
    found = forecast_starts(planner, 2, RunTimeHistory())["/b"]
    assert found.latest == planner.reservations_by_start[0].start == 10


def test_the_play_ends_when_the_workloads_have_started() -> None:
    """With so few decisions as it takes for the second, the others are unknown."""
    planner = planner_of(*(submission(name, 8, 10) for name in "abcd"))
    assert forecast_starts(planner, 0, RunTimeHistory(), ["/b"]) == {"/b": Forecast(0, 10, 10)}
    assert forecast_starts(planner, 0, RunTimeHistory(), max_decisions=2)["/b"].latest == 10
    assert forecast_starts(planner, 0, RunTimeHistory(), max_decisions=2)["/c"].latest == inf


def test_a_workload_that_is_not_pending_has_no_forecast() -> None:
    with pytest.raises(KeyError):
        forecast_starts(planner_of(submission("a", 8, 10)), 0, RunTimeHistory(), ["/a"])


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
def test_a_grain_changes_nothing_where_ends_are_apart(limits: list[int], grain: float) -> None:
    planner = planner_of(*(submission(f"{place:02}", 8, limit) for place, limit in enumerate(limits)))
    assert forecast_starts(planner, 0, RunTimeHistory(), time_grain=grain) == forecast_starts(
        planner, 0, RunTimeHistory()
    )


def test_a_grain_merges_ends_that_are_close() -> None:
    first = (submission(f"{end}", 1, end) for end in range(96, 104))
    planner = planner_of(*first, submission("next", 4, 10), submission("z", 8, 1))
    found = forecast_starts(planner, 0, RunTimeHistory(), time_grain=0.1)
    assert (found["/next"].latest, found["/z"].latest) == (99.5, 109.5)
    exact = forecast_starts(planner, 0, RunTimeHistory())
    assert (exact["/next"].latest, exact["/z"].latest) == (99, 109)


# --- whatever happens


@pytest.mark.parametrize(
    "rules", [*RULES, BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@settings(max_examples=40)  # each asks at every decision
@given(queues(preemption=True), comings(most=7), st.lists(st.integers(1, 10), max_size=10))
def test_starts_ascend_and_a_forecast_changes_nothing(
    rules: BackfillPolicy, specs: list[ClusterQueue], found: list[Submission], runs: list[int]
) -> None:
    def ask(planner: PlannerState, now: float) -> None:
        told = forecast_starts(planner, now, times)
        assert told.keys() == planner.pending.keys()
        for key, one in told.items():
            assert now <= one.earliest <= one.likely <= one.latest
            if key in planner.reservations.by_key:
                assert one.latest <= max(planner.reservations.by_key[key].start, now)

    times = learned(*runs)
    found = [one._replace(workload=replace(one.workload, history_keys=ANN)) for one in found]
    asked = Story(new_state(Snapshot(specs), rules), watch=ask).play(found)
    assert as_told(asked) == as_told(Story(new_state(Snapshot(specs), rules)).play(found))


def as_told(played: Story) -> list[object]:
    """What was decided, without the workloads themselves, which are only equal to themselves."""
    return [
        (
            now,
            [one.key for one in step.admitted],
            [(one.workload.key, one.preemptor.key, one.reason) for one in step.victims],
            [(one.workload.key, one.start, one.waits_for) for one in step.reserved],
            {key: one.status for key, one in step.decisions.items()},
        )
        for now, step in played.steps
    ]


@pytest.mark.parametrize(
    "rules", [*RULES[:-1], BackfillPolicy(reserve_after=inf), BackfillPolicy(overtaking=False)], ids=str
)
@given(queues(preemption=True), comings(most=9))
def test_with_exact_run_times_and_no_later_arrivals_a_forecast_is_exact(
    rules: BackfillPolicy, specs: list[ClusterQueue], found: list[Submission]
) -> None:
    told: dict[float, dict[str, Forecast]] = {}

    def ask(planner: PlannerState, now: float) -> None:
        if all(one.workload.key in planner.pending or one.workload.key in planner.running for one in found):
            told[now] = forecast_starts(planner, now, RunTimeHistory())

    found = [one._replace(run=one.workload.walltime) for one in found]
    played = Story(new_state(Snapshot(specs), rules), watch=ask).play(found)
    for asked, each in told.items():
        for key, one in each.items():
            starts = (now for now, step in played.steps if now > asked and key in {new.key for new in step.admitted})
            assert one.likely == one.latest == next(starts, inf), (asked, one)

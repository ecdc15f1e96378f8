"""The learned state of forecasts survives serialization as JSON; if it does not fit, the newest part of it does."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.planner_stories import make_workload
from zonewise_scheduler.backfill.forecast.arrival_history import WEEK
from zonewise_scheduler.backfill.forecast.document import (
    ForecastDocument,
    make_forecast_document,
    read_forecast_document,
)
from zonewise_scheduler.backfill.forecast.history import ForecastHistory
from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples
from zonewise_scheduler.quota.api.workload_types import Admission, Workload

DECODER = msgspec.json.Decoder(ForecastDocument)


def submitted(number: int, *, cpus: int = 1, limit: float = 100.0, user: str = "ann") -> Workload:
    """Return a workload that runs from its submission on; each has a different hour."""
    pending = make_workload(f"w{number}", cpus, limit, at=3600.0 * number, local="l")
    admission = Admission("q", (), pending.created_at)
    flavors = frozenset(["spot"]) if cpus == 2 else None
    return replace(pending, history_keys=(user, "l", "solve"), admission=admission, allowed_flavors=flavors)


def learned(*runs: int) -> ForecastHistory:
    """Return the history of workloads of two users and two widths; the last one still runs and has no walltime."""
    history = ForecastHistory()
    for number, run in enumerate(runs):
        workload = submitted(number, cpus=1 + number % 2, user="ann" if number % 3 else "ben")
        history.admitted([workload], workload.created_at)
        history.ended(workload, float(run))
    running = submitted(len(runs), limit=inf)
    history.admitted([running], running.created_at)
    return history


def through_json(document: ForecastDocument) -> ForecastDocument:
    return DECODER.decode(msgspec.json.encode(document))


def arrivals_of(history: ForecastHistory) -> list[Any]:
    """Return the submissions of the previous week as values."""
    return [
        (past.time, past.run_time, past.subject.queue, past.subject.history_keys, _fields(past.subject.workload))
        for past in history.arrivals.replay(WEEK, 0)
    ]


def _fields(workload: Workload) -> Any:
    return (
        workload.scheduling_shape, workload.walltime, workload.key, workload.queue_name, workload.allowed_flavors,
    )  # fmt: skip


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30))
def test_the_learned_state_is_the_same_after_serialization(runs: list[int]) -> None:
    history = learned(*runs)
    document = through_json(make_forecast_document(history))
    restored = read_forecast_document(document)
    assert make_forecast_document(restored) == make_forecast_document(history)
    assert len(document["templates"]) <= 5
    assert arrivals_of(restored) == arrivals_of(history) != []
    for user in ("ann", "ben", "new"):
        subject = submitted(99, user=user)
        assert restored.run_times.distribution(subject) == history.run_times.distribution(subject)


def test_a_workload_that_runs_across_a_restart_is_learned_once() -> None:
    history = learned(10, 20)
    restored = read_forecast_document(through_json(make_forecast_document(history)))
    running = submitted(2, limit=inf)
    restored.admitted([running], 0.0)
    restored.ended(running, 77.0)
    assert len(restored.arrivals) == 3
    assert [arrival.run_time for arrival in restored.arrivals.newest(1)] == [77.0]


def test_open_forecasts_are_scored_after_a_restart() -> None:
    """All workloads wait three times as long as sampled: ten before the restart, the others across it."""
    history = ForecastHistory()
    pending = {f"ns/w{number}": StartSamples("q", (50.0, 100.0, 200.0)) for number in range(40)}
    history.forecasts(0.0, pending, pending)
    history.admitted([submitted(number) for number in range(10)], 300.0)
    restored = read_forecast_document(through_json(make_forecast_document(history)))
    restored.admitted([submitted(number) for number in range(10, 40)], 300.0)
    new = {"ns/new": StartSamples("q", (50.0, 100.0, 200.0))}
    assert restored.forecasts(0.0, new, new)["ns/new"].likely == pytest.approx(300, abs=1)
    assert make_forecast_document(restored).get("open_forecasts", [("",)])[0][0] == "ns/new"


def test_waits_and_scores_are_rounded_to_a_thousandth() -> None:
    """Times are rounded to a tenth of a second."""
    history = ForecastHistory()
    samples = {f"ns/w{number}": StartSamples("q", (7.0 + number, 100.0, 250.0)) for number in range(20)}
    history.forecasts(1.26, samples, samples)
    history.admitted([submitted(number) for number in range(10)], 33.0)
    restored = read_forecast_document(through_json(make_forecast_document(history)))
    assert restored.calibration.state().open
    assert restored.calibration.state().upper_level == round(history.calibration.state().upper_level, 4)
    assert restored.calibration.state().likely_level == round(history.calibration.state().likely_level, 2)
    for before, after in zip(history.calibration.state().open, restored.calibration.state().open, strict=True):
        assert after.logarithms == tuple(round(logarithm, 3) for logarithm in before.logarithms)
        assert after.time == 1.3
        assert after.earliest == round(before.earliest, 1) != before.earliest
        assert after.latest == round(before.latest, 1) != before.latest
    for before, after in zip(history.calibration.state().scores, restored.calibration.state().scores, strict=True):
        assert after.scores == tuple(round(score, 3) for score in before.scores)
        assert after.group == before.group
    assert {scores.group for scores in restored.calibration.state().scores} == {None, "q"}


@pytest.mark.parametrize(
    ("run_time", "rounded"), [(12.34, 12.3), (12.36, 12.4), (0.04, 0.0), (59.96, 60.0), (7.0, 7.0)]
)
def test_run_times_are_rounded_to_a_tenth_of_a_second(run_time: float, rounded: float) -> None:
    """The rounding applies to the run times of the submissions and to those of the run-time history."""
    history, workload = ForecastHistory(), submitted(0)
    history.admitted([workload], workload.created_at)
    history.ended(workload, run_time)
    document = make_forecast_document(history)
    assert [arrival[2] for arrival in document["arrivals"]] == [run for _, run in document["runs"]] == [rounded]


def test_a_document_without_forecasts_keeps_its_runs_and_submissions() -> None:
    """Older versions wrote such documents, with scores of a single scale."""
    document: Any = through_json(make_forecast_document(learned(10, 20)))
    del document["open_forecasts"], document["rank_scores"]
    old: Any = {**document, "open": [("ns/w", "q", 0.0, 5.0, 1.0)], "scores": [(None, [0.5] * 20)]}
    restored = read_forecast_document(through_json(old))
    assert make_forecast_document(restored) == {**document, "open_forecasts": [], "rank_scores": []}


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_share_has_the_newest_records_of_each_kind(share: float, size: int) -> None:
    history = learned(*range(1, size))
    document = make_forecast_document(history, share)
    whole = make_forecast_document(history)
    assert len(document["arrivals"]) == int(share * size)
    assert [arrival[1] for arrival in document["arrivals"]] == [
        arrival[1] for arrival in whole["arrivals"][size - int(share * size) :]
    ]
    assert len(document["runs"]) == int(share * (size - 1))
    assert len(document["templates"]) <= len(document["arrivals"])
    read_forecast_document(through_json(document))


def test_each_of_hundreds_of_templates_has_its_index() -> None:
    """The history is a week of submissions that all differ."""
    history = learned(*[10] * 3)
    for number in range(300):
        workload = replace(submitted(number, user=f"user{number}"), name=f"x{number}", priority=number)
        history.admitted([workload], workload.created_at)
    document = make_forecast_document(history)
    priorities = [document["templates"][index]["priority"] for index, *_ in document["arrivals"]]
    assert sorted(priorities) == sorted([0] * 4 + list(range(300)))


@pytest.mark.parametrize(("walltime", "value"), [(float("inf"), None), (inf, None), (100.0, 100.0), (0.0, 0.0)])
def test_an_infinite_walltime_is_stored_as_none(walltime: float, value: float | None) -> None:
    """Any float object may represent infinity."""
    history, workload = ForecastHistory(), submitted(0, limit=walltime)
    history.admitted([workload], workload.created_at)
    history.ended(workload, 5.0)
    document = make_forecast_document(history)
    assert [template["walltime"] for template in document["templates"]] == [value]
    assert [group_walltime for _, group_walltime in document["groups"]] == [value]


def test_a_stored_run_time_below_0_is_read_as_0() -> None:
    document = make_forecast_document(learned(10))
    [first, running], [(group, _)] = document["arrivals"], document["runs"]
    template, time, _, key, uid = first
    stored = {**document, "arrivals": [(template, time, -5.0, key, uid), running], "runs": [(group, -5.0)]}
    restored = read_forecast_document(DECODER.decode(msgspec.json.encode(stored)))
    assert [run.run_time for run in restored.run_times.observed] == [0.0]
    assert [past.run_time for past in restored.arrivals.newest(9)] == [0.0, None]


def test_a_default_walltime_is_restored_as_a_default() -> None:
    """A later change of the queue's default then replaces it, also in replayed submissions."""
    history = ForecastHistory()
    for number, flag in enumerate((False, True)):
        workload = replace(make_workload(f"w{number}", 1), walltime=60.0, has_default_walltime=flag)
        history.admitted([replace(workload, admission=Admission("q", ()))], 10.0)
    restored = read_forecast_document(make_forecast_document(history))
    subjects = [arrival.subject for arrival in restored.arrivals.newest(2)]
    assert [submitted.workload.has_default_walltime for submitted in subjects] == [False, True]


def test_an_unknown_template_is_an_error() -> None:
    document = make_forecast_document(learned(10, 20))
    with pytest.raises(IndexError):
        read_forecast_document({**document, "templates": []})

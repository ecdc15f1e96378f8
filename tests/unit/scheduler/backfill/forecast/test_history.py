"""What forecasts learn from the planner's events."""

from __future__ import annotations

from dataclasses import replace

from support.planner_stories import make_workload
from zonewise_scheduler.backfill.forecast.calibration import MIN_GROUP_SCORES
from zonewise_scheduler.backfill.forecast.history import ForecastHistory, arrival_key
from zonewise_scheduler.backfill.forecast.sample_paths import StartSamples
from zonewise_scheduler.quota.api.workload_types import Admission, Eviction, Workload

SAMPLES = StartSamples("q", (50.0, 100.0, 200.0))


def admitted(name: str, *, at: float = 0.0, cpus: int = 1) -> Workload:
    """Return a workload that starts at 500 s."""
    workload = make_workload(name, cpus, at=at)
    return replace(workload, admission=Admission("q", (), 500.0), eviction=Eviction("Preempted", 1.0))


def test_a_submission_is_learned_with_its_time_and_without_its_name() -> None:
    history = ForecastHistory()
    workloads = [admitted("b", at=30.0), admitted("a", at=10.0), admitted("c", at=20.0, cpus=2)]
    history.admitted(workloads, 500.0)
    history.ended(workloads[0], 7.0)
    newest = list(history.arrivals.newest(9))
    assert [(past.key, past.time, past.run_time) for past in newest] == [
        (arrival_key(workloads[1]), 10.0, None),
        (arrival_key(workloads[2]), 20.0, None),
        (arrival_key(workloads[0]), 30.0, 7.0),
    ]
    subjects = [past.subject for past in newest]
    assert {subject.queue for subject in subjects} == {"q"}
    for subject in subjects:
        template = subject.workload
        assert (template.name, template.uid, template.admission, template.eviction) == ("", "", None, None)
        assert template.created_at == 0
    assert subjects[0].workload is subjects[2].workload  # a separate template would cost memory
    assert subjects[1].workload.pod_sets != subjects[0].workload.pod_sets


def test_equal_submissions_of_different_jobs_share_a_workload() -> None:
    """Otherwise each job with a name of its own would keep kilobytes for weeks."""
    history = ForecastHistory()
    for name in ("a", "b"):
        history.admitted([replace(admitted(name), history_keys=("ns", "q", name))], 500.0)
    first, second = (past.subject for past in history.arrivals.newest(9))
    assert first.workload is second.workload
    assert (first.history_keys, second.history_keys) == (("ns", "q", "a"), ("ns", "q", "b"))


def test_a_negative_run_time_counts_as_0() -> None:
    """The clock was set back while the workload ran."""
    history, workload = ForecastHistory(), admitted("a")
    history.admitted([workload], 500.0)
    history.ended(workload, -3600.0)
    assert [run.run_time for run in history.run_times.observed] == [0.0]
    assert [past.run_time for past in history.arrivals.newest(9)] == [0.0]


def test_a_workload_that_is_preempted_and_admitted_again_is_one_submission() -> None:
    history = ForecastHistory()
    for now in (500.0, 900.0):
        history.admitted([admitted("a")], now)
    assert len(history.arrivals) == 1


def test_only_pending_workloads_have_forecasts() -> None:
    """One workload has started since it was sampled and another was deleted; neither is ever scored."""
    history = ForecastHistory()
    samples: dict[str, StartSamples] = {"ns/a": SAMPLES, "ns/b": SAMPLES}
    assert history.forecasts(0.0, samples, {"ns/b": "q"}).keys() == {"ns/b"}
    assert history.forecasts(0.0, {}, {}) == {}
    history.admitted([admitted("a"), admitted("b")], 500.0)
    assert history.calibration.state().scores == ()


def test_forecasts_are_calibrated_by_those_that_started() -> None:
    history = ForecastHistory()
    pending = {f"ns/w{number}": SAMPLES for number in range(MIN_GROUP_SCORES)}
    history.forecasts(0.0, pending, pending)
    history.admitted([admitted(f"w{number}") for number in range(MIN_GROUP_SCORES)], 500.0)
    late = history.forecasts(0.0, {"ns/z": SAMPLES}, ["ns/z"])["ns/z"]
    assert 499 <= late.earliest <= late.likely <= late.latest <= 501
    bound = SAMPLES._replace(bound=300.0)
    assert history.forecasts(0.0, {"ns/y": bound}, ["ns/y"])["ns/y"].latest == 300


def test_a_wait_counts_from_the_begin_time() -> None:
    """Samples from before a change of the begin time count as starts at the new one."""
    history, later = ForecastHistory(), SAMPLES._replace(begin_at=150.0)
    forecast = history.forecasts(0.0, {"ns/a": later}, ["ns/a"])["ns/a"]
    assert 150 <= forecast.earliest <= forecast.likely <= forecast.latest
    assert history.calibration.state().open[0].time == 150
    workload = replace(admitted("a"), begin_at=150.0, created_at=7.0, active=False)
    template = history.submitted_workload(workload, "q").workload
    assert (template.begin_at, template.created_at, template.active) == (0, 0, True)


def test_a_copy_is_independent() -> None:
    history = ForecastHistory()
    pending = {f"ns/w{number}": SAMPLES for number in range(MIN_GROUP_SCORES)}
    history.forecasts(0.0, pending, pending)
    copied = history.copy()
    workloads = [admitted(f"w{number}") for number in range(MIN_GROUP_SCORES)]
    history.admitted(workloads, 500.0)
    history.ended(workloads[0], 5.0)
    assert (len(copied.arrivals), len(copied.run_times.observed), copied.calibration.state().scores) == (0, 0, ())
    assert len(copied.calibration.state().open) == MIN_GROUP_SCORES
    again = history.copy()
    copied.admitted(workloads, 900.0)
    assert again.calibration.state() == history.calibration.state() != copied.calibration.state()

"""Usage by group."""

from __future__ import annotations

from statistics import median_low

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.run_records import EPOCH, HOUR, run_record
from zonewise_scheduler.accounting.run_record import OUTCOMES, RunRecord
from zonewise_scheduler.accounting.usage_groups import KEYS, UsageGroup, group_usage

TIMES = st.integers(0, 10**6).map(float)


@st.composite
def records(draw: st.DrawFn) -> RunRecord:
    queued, wait, run = draw(TIMES), draw(TIMES), draw(TIMES)
    started = draw(st.sampled_from([queued + wait, None]))
    return run_record(
        user=draw(st.sampled_from(["ada", "bob", None])), queue=draw(st.sampled_from("ab")), queued=queued,
        started=started, ended=queued + wait + run, outcome=draw(st.sampled_from(OUTCOMES)),
        walltime=draw(st.sampled_from([None, 2 * 10**6])),
    )  # fmt: skip


def the_group(*runs: RunRecord) -> UsageGroup:
    (group,) = group_usage(runs, ["kind"]).values()
    return group


@given(st.lists(records(), max_size=20), st.lists(st.sampled_from(sorted(KEYS)), min_size=1, unique=True))
def test_groups_divide_the_usage_without_loss(runs: list[RunRecord], keys: list[str]) -> None:
    groups = group_usage(runs, keys)
    assert list(groups) == sorted(groups)
    assert sum(group.runs for group in groups.values()) == len(runs)
    cores = sum(group.hours.get("cpu", 0.0) for group in groups.values())
    assert cores == pytest.approx(sum(run.run_time for run in runs) / HOUR)  # pyright: ignore[reportUnknownMemberType]
    assert sum(len(group.waits) for group in groups.values()) == sum(run.started is not None for run in runs)


def test_hours_are_requests_of_all_pods_times_run_time() -> None:
    assert the_group(run_record()).hours == {"cpu": 1.0, "memory": 2.0, "nvidia.com/gpu": 8.0}


def test_a_job_that_was_evicted_counts_once() -> None:
    group = the_group(run_record(outcome="evicted"), run_record(), run_record(outcome="timeout", uid="v"))
    assert (group.jobs, group.runs) == (2, 3)
    assert group.share_of_runs("evicted") == 1 / 3
    assert group.share_of_runs("failed", "timeout") == 1 / 3


def test_only_runs_to_an_end_tell_how_much_walltime_jobs_use() -> None:
    stopped = [run_record(outcome=outcome) for outcome in ("evicted", "cancelled", "replaced")]
    assert the_group(*stopped).walltime_used is None
    half = run_record(ended=EPOCH + 60 + 2 * HOUR)
    assert the_group(half, run_record(walltime=None), *stopped).walltime_used == 0.5


@given(st.lists(st.integers(0, 100), min_size=1))
def test_percentiles_are_waits_that_occurred(waits: list[int]) -> None:
    group = the_group(*(run_record(queued=run_record().started - wait) for wait in waits))  # pyright: ignore[reportOptionalOperand]
    assert group.wait_percentile(50) == median_low(waits)
    assert group.wait_percentile(100) == max(waits)
    p95 = group.wait_percentile(95)
    assert p95 is not None
    assert sum(wait <= p95 for wait in waits) >= 0.95 * len(waits) > sum(wait < p95 for wait in waits)


def test_days_and_months_are_those_of_the_end_in_utc() -> None:
    last_second = run_record(ended=EPOCH - 1, uid="v")
    assert list(group_usage([run_record(), last_second], ["month", "day"])) == [
        ("2026-11", "2026-11-30"),
        ("2026-12", "2026-12-01"),
    ]


def test_an_invalid_quantity_counts_as_zero() -> None:
    pod_set = run_record().pod_sets[0]
    invalid = type(pod_set)("main", 1, {"cpu": "many"})
    assert the_group(run_record(pod_sets=(invalid,))).hours == {"cpu": 0.0}

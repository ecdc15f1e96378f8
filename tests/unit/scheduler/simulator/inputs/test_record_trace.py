"""Records of the live queue as a trace. A contract test compares their simulation with the live queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.run_records import EPOCH, HOUR, run_record
from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.accounting.run_record import encode_record
from zonewise_scheduler.quota.api.declared_walltime import history_keys
from zonewise_scheduler.simulator.inputs.loader import load_fleet, load_scenario
from zonewise_scheduler.simulator.inputs.record_trace import build_record_scenario
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from zonewise_scheduler.accounting.run_record import RunRecord


def scenario_of(*records: RunRecord) -> Scenario:
    return build_record_scenario([encode_record(each) + b"\n" for each in records], load_fleet("4x8"), "f")


def test_a_job_keeps_its_times_requests_and_queue() -> None:
    later = run_record(uid="v", created=EPOCH + 90, cluster_queue="other", walltime=None)
    first, second = scenario_of(later, run_record()).arrivals
    assert (first.workload.created_at, second.workload.created_at) == (0.0, 90.0)
    assert (first.run_time, first.workload.walltime, first.queue, first.kind) == (HOUR, 4 * HOUR, "q", "Job")
    [pod_set] = first.workload.pod_sets
    assert (pod_set.pods, pod_set.requests) == (2, {"cpu": 500, "memory": 1 << 30, "nvidia.com/gpu": 4})
    assert (second.queue, second.workload.walltime) == ("other", float("inf"))


def test_an_evicted_job_runs_as_long_as_its_last_run() -> None:
    evicted = run_record(outcome="evicted", ended=EPOCH + 70)
    last = run_record(queued=EPOCH + 70, admitted=EPOCH + 80, started=EPOCH + 80, ended=EPOCH + 100)
    assert [each.run_time for each in scenario_of(last, evicted).arrivals] == [20.0]
    assert [each.run_time for each in scenario_of(evicted).arrivals] == [10.0]


def test_forecasts_learn_from_the_same_groups_as_in_the_live_queue() -> None:
    [first] = scenario_of(run_record(name="train-20261201", namespace="n", user="ada", queue="q")).arrivals
    metadata = {"namespace": "n", "name": "train-7", "annotations": {"zonewise.dev/submitted-by": "ada"}}
    assert first.workload.history_keys == history_keys(FieldReader(metadata, "metadata.", []), "q")


def test_jobs_without_a_start_are_left_out_and_counted() -> None:
    pending = run_record(uid="v", admitted=None, started=None, outcome="cancelled")
    scenario = scenario_of(run_record(), pending)
    assert (len(scenario.arrivals), scenario.problems) == (1, ("f: jobs that never started are left out: 1",))
    with pytest.raises(InputError, match="no job has started"):
        scenario_of(pending)


def test_a_file_of_records_is_detected_and_needs_nodes(tmp_path: Path) -> None:
    file = tmp_path / "2026-12.jsonl"
    file.write_bytes(encode_record(run_record()) + b"\n")
    scenario = load_scenario(str(file), "4x8")
    assert isinstance(scenario, Scenario)
    assert len(scenario.arrivals) == 1
    with pytest.raises(InputError, match="add --nodes"):
        load_scenario(str(file))

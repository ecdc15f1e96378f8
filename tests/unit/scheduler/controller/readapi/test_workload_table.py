"""Rows of workloads."""

from __future__ import annotations

import gc
from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from zonewise_common.k8s.dates import LAST_TIME
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.controller.readapi.views import WorkloadRow
from zonewise_scheduler.controller.readapi.workload_table import MAX_POSITION, WORKLOAD_COLUMNS, WorkloadTable
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload

OWNER = {"kind": "Job", "name": "train", "controller": True}


def workload(**fields: object) -> Workload:
    pod_sets = (PodSet("a", 2, {"cpu": 500, "nvidia.com/gpu": 4}), PodSet("b", 1, {"cpu": 1000, "memory": 7}))
    return Workload("ns", "w", pod_sets, queue_name="l", created_at=10.7, **fields)  # type: ignore[arg-type]


def row(entry: WorkloadRow) -> dict[str, object]:
    metadata = {"ownerReferences": [{"kind": "Other", "name": "x"}, OWNER]}
    objects = {"ns/w": {"metadata": {**metadata, "annotations": {SUBMITTED_BY_ANNOTATION: "ann"}}}}
    (values,) = WorkloadTable().rows([entry], objects).values()
    return dict(zip(WORKLOAD_COLUMNS, values, strict=True))


def test_requests_are_those_of_all_pods() -> None:
    known = row(WorkloadRow(workload(), "Pending", "q", 3))
    assert (known["job"], known["kind"], known["localQueue"], known["clusterQueue"]) == ("train", "Job", "l", "q")
    assert (known["pods"], known["cpus"], known["gpus"], known["memory"]) == (3, 2000, 8, 7)
    assert (known["createdAt"], known["position"], known["user"]) == (10, 3, "ann")


def test_unknown_times_are_null() -> None:
    known = row(WorkloadRow(workload(), "Pending", "q", MAX_POSITION + 1, inf, inf, Forecast(20.0, 30.0, inf)))
    assert [known[name] for name in ("walltime", "reservedStart", "startedAt", "deadline", "latest")] == [None] * 5
    assert (known["earliest"], known["likely"], known["position"]) == (20, 30, 0)


def test_times_are_limited_to_the_last_date() -> None:
    """Dates in a browser end with the year 275760, but a Job may declare a walltime of 2^63 seconds."""
    known = row(WorkloadRow(workload(walltime=2.0**63), "Pending", "q", 1, 2.0**63, inf, Forecast(20.0, 1e13, 2.0**63)))
    assert {known[name] for name in ("walltime", "reservedStart", "likely", "latest")} == {LAST_TIME}
    assert known["earliest"] == 20


def test_a_workload_without_a_job_has_its_own_name() -> None:
    (values,) = WorkloadTable().rows([WorkloadRow(workload(), "Pending", "q")], {}).values()
    assert values[:2] == ("w", "")


def test_a_changed_workload_has_a_new_row() -> None:
    table = WorkloadTable()
    (before,) = table.rows([WorkloadRow(workload(), "Pending", "q")], {}).values()
    (after,) = table.rows([WorkloadRow(workload(priority=7), "Pending", "q")], {}).values()
    assert (before[3], after[3]) == (0, 7)


@pytest.mark.parametrize(
    "change",
    [
        {"position": MAX_POSITION},
        {"reservation": 30.0},
        {"forecast": Forecast(20.0, 30.0, 40.0)},
        {"reason": "WaitingForQuota"},
        {"state": "Admitted"},
        {"cluster_queue": "other"},
    ],
)
def test_a_changed_row_equals_a_new_one(change: dict[str, Any]) -> None:
    """Unchanged rows are reused."""
    table, entry = WorkloadTable(), WorkloadRow(workload(), "Pending", "q", MAX_POSITION + 1)
    (before,) = table.rows([entry], {}).values()
    (same,) = table.rows([replace(entry, position=MAX_POSITION + 2, message="another")], {}).values()
    assert same is before
    (after,) = table.rows([replace(entry, **change)], {}).values()
    (first,) = WorkloadTable().rows([replace(entry, **change)], {}).values()
    assert after == first != before


def test_the_garbage_collector_does_not_track_rows() -> None:
    """A version with 10,000 rows does not trigger a collection."""
    assert not gc.is_tracked(WorkloadRow(workload(), "Pending", "q"))

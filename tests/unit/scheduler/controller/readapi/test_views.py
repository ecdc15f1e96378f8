"""What the read API shows of workloads: the rows of a page, and the fields of a row."""

from __future__ import annotations

from math import inf

import pytest

from support.elastic_cluster import ElasticCluster
from support.model_cluster import NAMESPACE, QUEUE_LABEL, ModelCluster
from support.reported_queue import ReportedQueue
from zonewise_scheduler.backfill.types import Forecast
from zonewise_scheduler.controller.readapi.views import (
    forecast_json,
    matching_rows,
    plan_json,
    row_json,
    workload_json,
    workload_rows,
)

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z


@pytest.fixture
def queue() -> ReportedQueue:
    """Return a queue of 8 CPUs in which two of three jobs of 3 CPUs each run."""
    reported = ReportedQueue(ModelCluster(), NOW)
    for i in range(3):
        reported.cluster.submit(f"j{i}", 3, at=i)
        reported.tick(1.0)
    return reported


def test_pending_workloads_precede_running_ones(queue: ReportedQueue) -> None:
    rows = workload_rows(queue.controller, {}, {})
    assert [row.state for row in rows] == ["Pending", "Admitted", "Admitted"]
    assert [row.position for row in rows] == [1, 0, 0]


@pytest.mark.parametrize(
    ("name", "namespace", "count"),
    [("", "", 3), ("q", "", 3), ("l", NAMESPACE, 3), ("other", "", 0), ("q", "other", 0)],
)
def test_a_name_selects_a_cluster_queue_or_a_local_queue(
    queue: ReportedQueue, name: str, namespace: str, count: int
) -> None:
    rows = workload_rows(queue.controller, {}, {})
    assert len(list(matching_rows(rows, name, namespace))) == count


def test_unknown_times_are_null_or_absent(queue: ReportedQueue) -> None:
    """Without a walltime there is no deadline, and without a reservation its field is absent."""
    pending, running, _ = (row_json(row) for row in workload_rows(queue.controller, {}, {}))
    assert pending["walltimeSeconds"] is None
    assert "reservedStart" not in pending
    assert "startedAt" not in pending
    assert running["startedAt"].startswith("2026-01-01T00:00:")
    assert running["deadline"] is None


def test_a_waiting_slice_names_the_slice_that_it_replaces() -> None:
    queue = ReportedQueue(cluster := ElasticCluster(), 1.8e9)
    job = cluster.submit_elastic("grows", 2)
    queue.tick(3.0)
    cluster.resize(job, 99)
    queue.tick(3.0)
    pending, running = (row_json(row) for row in workload_rows(queue.controller, {}, {}))
    assert pending["replaces"] == f"{NAMESPACE}/{running['name']}"
    assert "replaces" not in running


def test_the_name_of_a_missing_queue_does_not_affect_the_reason(queue: ReportedQueue) -> None:
    """The LocalQueue "inactive-users" does not exist, so the reason is not that it is inactive."""
    job = queue.cluster.submit("lost", 3, at=9)
    queue.cluster.change(job, {"metadata": {"labels": {QUEUE_LABEL: "inactive-users"}}})
    queue.tick(1.0)
    [row] = [row for row in workload_rows(queue.controller, {}, {}) if row.state == "Inadmissible"]
    assert (row.reason, row.message) == ("Misconfigured", f"there is no LocalQueue {NAMESPACE}/inactive-users")
    details = workload_json(queue.controller, row.workload.key, {}, queue.now)
    assert details is not None
    assert details["reason"] == "Misconfigured"


def test_an_unknown_workload_has_no_details(queue: ReportedQueue) -> None:
    assert workload_json(queue.controller, f"{NAMESPACE}/none", {}, queue.now) is None


def test_the_plan_has_the_usage_of_running_workloads(queue: ReportedQueue) -> None:
    plan = plan_json(queue.controller, NOW)
    assert plan["at"] == "2026-01-01T00:00:00Z"
    assert [run["usage"] for run in plan["running"]] == [[{"flavor": "f", "resource": "cpu", "amount": "3"}]] * 2


def test_a_forecast_has_its_three_starts() -> None:
    assert forecast_json(Forecast(NOW, NOW + 60, inf)) == {
        "earliest": "2026-01-01T00:00:00Z",
        "likely": "2026-01-01T00:01:00Z",
        "latest": None,
    }

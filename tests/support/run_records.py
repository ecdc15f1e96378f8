"""Records of runs for tests."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.accounting.run_record import PodSetRecord, RunRecord

EPOCH = 1_796_083_200.0  # 2026-12-01T00:00:00Z
HOUR = 3600.0
FIELDS: dict[str, Any] = {
    "namespace": "ns",
    "name": "job",
    "kind": "Job",
    "uid": "u",
    "workload": "job-job",
    "user": "ada",
    "queue": "l",
    "cluster_queue": "q",
    "pod_sets": (PodSetRecord("main", 2, {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "4"}, {"cpu": "f"}),),
    "walltime": 4 * HOUR,
    "created": EPOCH,
    "queued": EPOCH,
    "admitted": EPOCH + 60,
    "started": EPOCH + 60,
    "ended": EPOCH + 60 + HOUR,
    "outcome": "succeeded",
}


def run_record(**fields: Any) -> RunRecord:
    """Return the record of a run of one hour that waited for a minute, with other fields."""
    return RunRecord(**{**FIELDS, **fields})

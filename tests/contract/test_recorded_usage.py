"""Randomly generated admissions with the usage that Kueue computes for LocalQueues: ours is the same.

tests/fixtures/quota/usage_ledger.jsonl.gz has one case per line: weights, and operations in the order of their times.
`usage` are the results of pkg/util/admissionfairsharing CalculateUsage after each operation, at commit ff69552e79ad;
null is infinite. An admission is a push to pkg/cache/queue/afs AfsUsageLedger, and what updateAfsConsumedUsage
(pkg/controller/core/workload_controller.go) does with it. A sample is what reconcileConsumedUsage does
(localqueue_controller.go).
"""

from __future__ import annotations

import gzip
import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.planner_stories import queue
from zonewise_scheduler.backfill.state.admission_fair_sharing import AdmissionFairSharing
from zonewise_scheduler.backfill.state.queue_router import QueueRouter
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig
from zonewise_scheduler.quota.api.queue_types import LocalQueue
from zonewise_scheduler.quota.api.workload_types import Admission, PodSet, PodSetAdmission, Workload
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from support.kubelet_cases import Json

RECORDING = Path(__file__).parent.parent / "fixtures/quota/usage_ledger.jsonl.gz"
ROUNDING = 1e-3
"""Kueue rounds down at each step, which matters for tiny amounts."""


def admitted(operation: Json) -> Workload:
    requests: dict[str, int] = operation["req"]
    admission = Admission("q", (PodSetAdmission("main", dict.fromkeys(requests, "all"), requests, 1),))
    pods = (PodSet(requests=requests),)
    return Workload("ns", operation["wl"], pods, operation["wl"], f"l{operation['lq']}", admission=admission)


def usages(case: Json) -> list[list[float]]:
    """Return the usage of each LocalQueue after each operation."""
    local_queues = [LocalQueue("ns", f"l{i}", "q", fair_weight=weight) for i, weight in enumerate(case["lqs"])]
    snapshot = Snapshot([queue("q", 1)._replace(usage_based_admission=True)])
    sharing = AdmissionFairSharing(AdmissionFairSharingConfig(case["halfLife"], case["interval"], case["weights"]))
    sharing.sample(0.0, snapshot)
    running: dict[str, Workload] = {}
    results: list[list[float]] = []
    for operation in case["ops"]:
        is_sampled = sharing.sample(operation["at"], snapshot)
        assert is_sampled == (operation["op"] == "sample")
        if operation["op"] == "admit":
            workload = running[operation["wl"]] = admitted(operation)
            snapshot.add_workload(workload)
            sharing.charge_admission(workload, snapshot, operation["at"])
        elif operation["op"] == "finish":
            snapshot.remove_workload(running.pop(operation["wl"]))
        sharing.update_snapshot(snapshot, QueueRouter(local_queues))
        results.append([snapshot.local_queue_usage[f"ns/l{i}"] for i in range(len(local_queues))])
    return results


def test_usage_is_that_of_kueue() -> None:
    with gzip.open(RECORDING, "rt") as file:
        cases = [json.loads(line) for line in file]
    for case in cases:
        for operation, computed in zip(case["ops"], usages(case), strict=True):
            recorded = [inf if usage is None else usage for usage in operation["usage"]]
            assert computed == pytest.approx(recorded, rel=ROUNDING, abs=ROUNDING)
    assert len(cases) == 80

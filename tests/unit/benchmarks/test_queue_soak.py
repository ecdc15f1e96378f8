"""Which Jobs the soak of the queue reports."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.queue_soak import held_pods, waiting_though_fitting

Json = dict[str, Any]


def job(pods: int, cpus: int = 4, *, suspend: bool) -> Json:
    labels = {"kueue.x-k8s.io/queue-name": "a"}
    container = {"resources": {"requests": {"cpu": str(cpus)}}}
    spec = {
        "suspend": suspend,
        "parallelism": pods,
        "completions": pods,
        "template": {"spec": {"containers": [container]}},
    }
    return {"metadata": {"name": "job", "labels": labels}, "spec": spec}


def pod(node: str | None, cpus: int = 4, **status: str) -> Json:
    spec: Json = {"containers": [{"resources": {"requests": {"cpu": str(cpus)}}}]}
    spec |= {"nodeName": node} if node else {}
    labels = {"batch.kubernetes.io/job-name": "job"}
    return {"metadata": {"labels": labels}, "spec": spec, "status": status}


def workload(**fields: Json) -> Json:
    return {"metadata": {"ownerReferences": [{"name": "job"}]}, "spec": {}, **fields}


def test_a_job_that_runs_has_no_held_pods() -> None:
    held = pod(None) | {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}}
    assert held_pods([job(2, suspend=False)], [held, pod("node-1")]) == ["job runs, but 1 of its pods are held"]
    assert held_pods([job(2, suspend=True)], [held, held]) == []
    assert held_pods([job(2, suspend=False)], [pod("node-0")]) == []


def test_a_job_that_fits_should_not_wait() -> None:
    """The nodes have 4 x 16 CPUs."""
    found = ["job waits although it fits"]
    assert waiting_though_fitting([job(16, suspend=True)], [workload()], [], ()) == found
    assert waiting_though_fitting([job(15, suspend=True)], [workload()], [pod("node-2", 1)], ()) == found


@pytest.mark.parametrize(
    ("pods", "queued", "active", "stopped"),
    [
        (17, workload(), [], ()),
        (16, workload(), [pod("node-2", 1)], ()),
        (1, workload(), [pod(None)], ()),
        (1, workload(), [], ("a",)),
        (1, workload(spec={"active": False}), [], ()),
        (1, workload(status={"admission": {}}), [], ()),
    ],
    ids=["too wide", "no room", "another pod has no node yet", "queue stopped", "deactivated", "about to start"],
)
def test_these_jobs_may_wait(pods: int, queued: Json, active: list[Json], stopped: tuple[str, ...]) -> None:
    assert waiting_though_fitting([job(pods, suspend=True)], [queued], active, stopped) == []

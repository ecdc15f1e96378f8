"""LocalQueues in simulations: their ClusterQueue, their stop policy, and their default walltime."""

from __future__ import annotations

from math import inf
from typing import Any

from support.queue_objects import cluster_queue_spec
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.quota.api.declared_walltime import DEFAULT_RUN_ANNOTATION
from zonewise_scheduler.simulator.cluster_simulation import simulate_cluster
from zonewise_scheduler.simulator.inputs.cluster_objects import read_objects
from zonewise_scheduler.simulator.inputs.documents import Document
from zonewise_scheduler.simulator.inputs.job_objects import RUN_SECONDS_ANNOTATION, SUBMIT_SECONDS_ANNOTATION

KUEUE = "kueue.x-k8s.io/v1beta2"


def cluster_queue(name: str) -> dict[str, Any]:
    spec = cluster_queue_spec({"cpu": 4}, "any")
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(name: str, stop: str = "None", default: str | None = None) -> dict[str, Any]:
    notes = {} if default is None else {DEFAULT_RUN_ANNOTATION: default}
    metadata = {"name": name, "namespace": "ns", "annotations": notes}
    return {
        "apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata,
        "spec": {"clusterQueue": "q", "stopPolicy": stop},
    }  # fmt: skip


def job(name: str, cpus: int, run: float, at: float, queue: str, limit: int | None = None) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpus}}}
    spec = {"template": {"spec": {"containers": [container]}}} | ({"activeDeadlineSeconds": limit} if limit else {})
    metadata = {
        "name": name, "namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": queue},
        "annotations": {RUN_SECONDS_ANNOTATION: str(run), SUBMIT_SECONDS_ANNOTATION: str(at)},
    }  # fmt: skip
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def starts(*objects: dict[str, Any]) -> dict[str, float]:
    """Return the start of each job under EASY; infinity means never."""
    scenario = read_objects([Document("f", entry) for entry in objects], "f", None)
    result = simulate_cluster(scenario, policy_named("easy"))
    return {entry.name: entry.runs[0].start if entry.runs else inf for entry in result.jobs}


JOBS = (
    job("runs", 2, 100, 0, "lq"),
    job("wide", 4, 10, 1, "other", 10),
    job("long", 2, 150, 2, "other", 150),
    job("short", 2, 50, 3, "other", 50),
)


def test_a_default_walltime_of_the_local_queue_permits_backfilling() -> None:
    """Only if the end of the first job is known is it known which jobs would delay the wide one."""
    queues = cluster_queue("q"), local_queue("other")
    reported = starts(*queues, local_queue("lq", default="100"), *JOBS)
    assert reported == {"runs": 0, "short": 3, "wide": 100, "long": 110}
    untold = starts(*queues, local_queue("lq"), *JOBS)
    assert untold == {"runs": 0, "long": 2, "wide": 152, "short": 100}


def test_jobs_of_a_held_queue_wait_without_blocking_others() -> None:
    queues = cluster_queue("q"), local_queue("other"), local_queue("lq", stop="Hold")
    assert starts(*queues, *JOBS) == {"runs": inf, "wide": 1, "long": 11, "short": 11}


def test_a_job_may_name_its_cluster_queue() -> None:
    """A ClusterQueue without a LocalQueue of the same name has an implicit one."""
    assert starts(cluster_queue("q"), job("one", 2, 10, 5, "q")) == {"one": 5}

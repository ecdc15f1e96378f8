"""The controller: what is invalid costs itself alone, and a new leader has the reservations of the last one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from zonewise_scheduler.backfill.checkpoint import make_checkpoint
from zonewise_scheduler.controller.jobs.batch_job import BatchJob
from zonewise_scheduler.controller.jobs.raycluster import ADAPTER as RAY_CLUSTER
from zonewise_scheduler.controller.types import Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]

NOW = 1_800_000_000.0


def live_queue(cluster: ModelCluster, record: Callable[[Json], object] | None = None) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, record=record)


def test_an_invalid_job_costs_itself_alone() -> None:
    cluster = ModelCluster()
    broken, job = cluster.submit("broken", 2), cluster.submit("job", 2, at=1)
    cluster.change(broken, {"spec": {"parallelism": -1}})
    queue = live_queue(cluster)
    queue.settle()
    assert list(queue.controller.invalid) == [broken]
    assert "parallelism" in queue.controller.invalid[broken]
    assert not cluster.get(job)["spec"]["suspend"]
    cluster.change(broken, {"spec": {"parallelism": 1}})
    queue.settle()
    assert not queue.controller.invalid


def test_a_defect_that_one_job_reveals_keeps_no_other_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ModelCluster()
    broken, job = cluster.submit("broken", 2), cluster.submit("job", 2, at=1)
    read = BatchJob.pod_sets

    def pod_sets(self: BatchJob, obj: Json) -> tuple[PodSetManifest, ...]:
        if obj["metadata"]["name"] == "broken":
            raise ZeroDivisionError("of this test")
        return read(self, obj)

    monkeypatch.setattr(BatchJob, "pod_sets", pod_sets)
    queue = live_queue(cluster)
    queue.settle()
    assert "ZeroDivisionError" in queue.controller.invalid[broken]
    assert not cluster.get(job)["spec"]["suspend"]


def test_the_cluster_of_a_queued_job_is_not_queued_itself() -> None:
    """A RayJob gives its label of the queue to its RayCluster."""
    cluster = ModelCluster()
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": "u", "controller": True}
    labels = {"kueue.x-k8s.io/queue-name": "l"}
    head = {"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}}
    spec = {"headGroupSpec": head}
    metadata = {"labels": labels, "ownerReferences": [owner]}
    cluster.create(RAY_CLUSTER.resource, "ns", "owned", metadata=metadata, spec=spec)
    alone = cluster.create(RAY_CLUSTER.resource, "ns", "alone", metadata={"labels": labels}, spec=spec)
    queue = live_queue(cluster)
    queue.step()
    assert [(write.purpose, write.key) for write in queue.writes] == [
        ("stop: suspend and restore the templates", alone)
    ]


def test_a_new_leader_has_the_reservations_of_the_last_one() -> None:
    cluster = ModelCluster()
    cluster.submit("running", 6)
    old = live_queue(cluster)
    old.settle()
    cluster.submit("waiting", 6, at=1)
    old.settle()
    checkpoint = make_checkpoint(old.controller.feed.state)
    assert [each["workload"] for each in checkpoint["reservations"]] == list(old.controller.feed.state.pending)
    entries: list[Json] = []
    new = live_queue(cluster, entries.append)
    new.controller.lead(True, checkpoint)
    new.observe()
    new.act()
    names = [entry.get("entry") for entry in entries]
    assert entries[names.index("restore")]["checkpoint"] == checkpoint
    assert names.index("submit") < names.index("restore") < names.index("pass")


def test_a_workload_that_was_deleted_under_a_write_is_created_anew_at_once() -> None:
    cluster = ModelCluster()
    job = cluster.submit("job", 2)
    queue = live_queue(cluster)
    queue.settle()
    (key,) = (write.key for write in queue.writes if write.verb is Verb.CREATE)
    cluster.delete(key)
    queue.observe()
    queue.controller.end_write(Write(Verb.MERGE_PATCH, key, "follow the pods"), Outcome("stale"), NOW)
    queue.settle(cluster.sync_jobs)
    assert key in cluster.objects
    assert not cluster.get(job)["spec"]["suspend"]


def test_the_response_to_a_patch_does_not_bring_back_a_deleted_object() -> None:
    cluster = ModelCluster()
    job = cluster.submit("job", 2)
    queue = live_queue(cluster)
    queue.step()
    queue.observe()
    (admission,) = queue.controller.step(NOW)
    outcome = cluster.send(admission)
    assert outcome.result == "done"
    cluster.delete(job)
    queue.observe()
    queue.controller.end_write(admission, outcome, NOW)
    queue.settle()
    assert queue.controller.workload(admission.workload) is None
    assert not queue.controller.feed.state.running

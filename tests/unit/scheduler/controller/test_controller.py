"""The controller: an invalid object affects no other, and a new leader has the reservations of the previous one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.live_queue import LiveQueue
from support.model_cluster import ModelCluster
from support.placed_cluster import PlacedCluster
from support.plain_pods import queued_pod
from zonewise_common.kube.resources import PODS, WORKLOADS
from zonewise_scheduler.backfill.state.checkpoint import make_checkpoint
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import ProvisioningReconciler
from zonewise_scheduler.controller.jobs.batch_job import BatchJob
from zonewise_scheduler.controller.jobs.raycluster import ADAPTER as RAY_CLUSTER
from zonewise_scheduler.controller.pods.pod_reconciler import PAUSE
from zonewise_scheduler.controller.pods.ungate import UNGATE
from zonewise_scheduler.controller.reconcile import workload_reconciler
from zonewise_scheduler.controller.reconcile.workload import WorkloadState, next_workload_write
from zonewise_scheduler.controller.types import Verb, Write
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

    from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits
    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]

NOW = 1_800_000_000.0


def live_queue(cluster: ModelCluster, record: Callable[[Json], object] | None = None) -> LiveQueue:
    return LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, record=record)


def test_an_invalid_job_affects_no_other_job() -> None:
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


def test_a_failure_with_one_job_does_not_prevent_the_start_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_failure_with_one_workload_does_not_prevent_the_start_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ModelCluster()
    cluster.submit("broken", 2)
    job = cluster.submit("job", 2, at=1)

    def next_write(state: WorkloadState, limits: ReadinessLimits, now: float) -> Write | None:
        if state.workload["metadata"]["ownerReferences"][0]["name"] == "broken":
            raise ZeroDivisionError("of this test")
        return next_workload_write(state, limits, now)

    monkeypatch.setattr(workload_reconciler, "next_workload_write", next_write)
    live_queue(cluster).settle()
    assert not cluster.get(job)["spec"]["suspend"]


def test_a_partly_failed_step_returns_all_writes_that_it_has_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = ModelCluster()
    cluster.submit("job", 2)
    monkeypatch.setattr(ProvisioningReconciler, "writes", _fail)
    queue = live_queue(cluster)
    queue.observe()
    assert len(queue.controller.step(NOW)) == queue.controller.in_flight == 1


def _fail(*_: object) -> Iterator[Write]:
    raise ZeroDivisionError("of this test")
    yield


def test_all_pods_start_after_a_rejected_patch_without_another_change() -> None:
    """For example, an admission policy was replaced in the meantime."""
    cluster, now, rejected = PlacedCluster(), [NOW], list[Write]()

    def send(write: Write) -> Outcome:
        if write.purpose == UNGATE and not rejected:
            rejected.append(write)
            return Outcome("rejected", message="403: a policy denies it")
        return cluster.send(write)

    queue = LiveQueue(cluster.listed, send, now=lambda: now[0], nodes=cluster.node_feed())
    job = cluster.submit("job", 2, pods=2)
    queue.settle(cluster.sync_jobs)
    assert sum(map(bool, cluster.nodes_of(job))) == 1
    while queue.controller.wake_at <= NOW + PAUSE:
        now[0] = queue.controller.wake_at
        queue.settle(cluster.sync_jobs)
    assert all(cluster.nodes_of(job))


def test_a_rejected_workload_is_created_later_without_another_change() -> None:
    """For example, a ResourceQuota limits the number of Workloads, and is raised in the meantime."""
    cluster, now, rejected = ModelCluster(), [NOW], list[float]()

    def send(write: Write) -> Outcome:
        if write.verb is Verb.CREATE and len(rejected) < 2:
            rejected.append(now[0])
            return Outcome("rejected", message="403: exceeded quota")
        return cluster.send(write)

    queue = LiveQueue(cluster.listed, send, now=lambda: now[0])
    job = cluster.submit("job", 2)
    queue.settle(cluster.sync_jobs)
    while queue.controller.wake_at <= NOW + 2 * PAUSE:
        now[0] = queue.controller.wake_at
        queue.settle(cluster.sync_jobs)
    assert rejected == [NOW, NOW + PAUSE]
    assert not cluster.get(job)["spec"]["suspend"]


def test_the_cluster_of_a_queued_job_is_not_queued_itself() -> None:
    """A RayJob passes its queue label on to its RayCluster."""
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


def test_a_new_leader_has_the_reservations_of_the_previous_one() -> None:
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


def test_a_workload_deleted_during_a_write_is_created_again_at_once() -> None:
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


def test_a_job_without_a_workload_stops_if_it_can_get_another() -> None:
    """It cannot while Kueue's kinds are being deleted."""
    cluster = ModelCluster()
    cluster.submit("job", 2)
    queue = live_queue(cluster)
    queue.settle(cluster.sync_jobs)
    assert {write.needs for write in queue.writes} == {None}
    (key,) = (write.key for write in queue.writes if write.verb is Verb.CREATE)
    cluster.delete(key)
    before = len(queue.writes)
    queue.settle(cluster.sync_jobs)
    needs = {write.purpose: write.needs for write in queue.writes[before:] if write.purpose.startswith("stop")}
    assert needs
    assert set(needs.values()) == {WORKLOADS}


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


def test_a_deleted_pod_is_released_at_once_even_if_the_watch_precedes_the_response() -> None:
    cluster = ModelCluster()
    for name in ("kept", "surplus"):
        pod = queued_pod(name, total=1)
        cluster.create(PODS, "ns", name, metadata=pod["metadata"], spec=pod["spec"], status=pod["status"])
    queue = live_queue(cluster)
    queue.observe()
    (deletion,) = (write for write in queue.controller.step(NOW) if write.verb is Verb.DELETE)
    cluster.change(deletion.key, {"metadata": {"deletionTimestamp": "2027-01-15T08:00:00Z"}})
    queue.observe()
    queue.controller.end_write(deletion, Outcome("done"), NOW)
    assert [write.purpose for write in queue.controller.step(NOW) if write.key == deletion.key] == ["release"]

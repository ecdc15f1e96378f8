"""TrainJobs: the pods are those of the JobSet that the trainer creates, and a start patches the runtime."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos, templates
from support.live_queue import Killed, LiveQueue
from support.model_cluster import ModelCluster
from support.trainer import ModelTrainer, job_set_of, replicated_job, train_job
from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOB_SETS, WORKLOADS
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION, injected_annotation
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo, StartConflict
from zonewise_scheduler.controller.jobs.registry import adapter_of_job, adapters_by_kind
from zonewise_scheduler.controller.jobs.trainjob import ADAPTER, PATCH_MANAGER
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

Json = dict[str, Any]

NOW = 1_800_000_000.0
CONTAINER = {"name": "node", "resources": {"requests": {"cpu": "2"}}}
RUNTIME = [
    replicated_job("dataset", {"spec": {"containers": [CONTAINER]}}),
    replicated_job("node", {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}, 2),
]
USER_PATCH = {
    "manager": "example.com/user",
    "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {
        "template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}}]}}},
}  # fmt: skip


def patched(job: Json, patch: Json) -> Json:
    result: Any = apply_merge_patch(copy.deepcopy(job), copy.deepcopy(patch))
    return result


def selectors(job_set: Json) -> list[Json]:
    jobs = job_set["spec"]["replicatedJobs"]
    return [job["template"]["spec"]["template"]["spec"].get("nodeSelector", {}) for job in jobs]


def distinct(tolerations: Iterable[Json]) -> set[str]:
    return {json.dumps(item, sort_keys=True) for item in tolerations}


def tolerations(pod_set: PodSetManifest) -> set[str]:
    return distinct(pod_set.template["spec"].get("tolerations") or ())


def test_the_pod_sets_are_those_of_the_job_set() -> None:
    job = train_job()
    adapter = ADAPTER.with_child(job_set_of(job, RUNTIME))
    assert [(item.name, item.pods) for item in adapter.pod_sets(job)] == [("dataset", 1), ("node", 2)]
    assert adapter.is_suspended(job)
    assert not adapter.is_active(job)


@given(templates(), templates(), st.data())
def test_a_stop_restores_what_a_start_changed(first: Json, second: Json, data: st.DataObject) -> None:
    runtime = [replicated_job("dataset", first), replicated_job("node", second, 2)]
    job = train_job(patches=[USER_PATCH])
    job_set = submitted = job_set_of(job, runtime)
    adapter = ADAPTER.with_child(job_set)
    original = adapter.pod_sets(job)
    workload = build_workload(job, ADAPTER.resource, original, ManifestOptions())
    infos = [data.draw(pod_set_infos(item.pods, item.name)) for item in original]
    annotation = {"metadata": {"annotations": {INJECTED_ANNOTATION: injected_annotation(original, infos)}}}
    for _ in range(3):
        if not adapter.is_suspended(job):
            break
        job = patched(patched(job, adapter.start(job, infos).body), annotation)
        job_set = job_set_of(job, runtime, job_set)
        adapter = ADAPTER.with_child(job_set)
        assert matches(
            workload | {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}, adapter, job
        )
    assert not job["spec"]["suspend"]
    for selector, info in zip(selectors(job_set), infos, strict=True):
        assert selector.items() >= info.node_selector.items()
    for before, after, info in zip(original, adapter.pod_sets(job), infos, strict=True):
        assert tolerations(after) == tolerations(before) | distinct(info.tolerations)
    purposes: list[str] = []
    while (stop := adapter.next_stop(job, original)) is not None:
        purposes.append(stop.purpose)
        assert len(purposes) <= 3
        assert not adapter.is_suspended(job) or stop.purpose != "stop: suspend"
        job = patched(job, stop.body)
        job_set = job_set_of(job, runtime, job_set)
        adapter = ADAPTER.with_child(job_set)
    assert adapter.is_suspended(job)
    assert job_set == submitted
    assert matches(workload, adapter, job)
    assert job["spec"]["runtimePatches"][0] == USER_PATCH


def test_a_stop_waits_until_the_trainer_has_restored_the_job_set() -> None:
    """Otherwise a Workload made from a JobSet with a flavor's node selector would keep that selector permanently."""
    job = train_job()
    adapter = ADAPTER.with_child(job_set_of(job, RUNTIME))
    original = adapter.pod_sets(job)
    infos = [PodSetInfo(item.name, item.pods, node_selector={"flavor": "f"}) for item in original]
    annotation = {INJECTED_ANNOTATION: injected_annotation(original, infos)}
    job = patched(job, {**adapter.start(job, infos).body, "metadata": {"annotations": annotation}})
    started = ADAPTER.with_child(job_set_of(job, RUNTIME))
    stop = started.next_stop(job, original)
    assert stop is not None
    job = patched(job, stop.body)
    assert started.next_stop(job, original) is None
    assert not started.is_suspended(job)
    restored = ADAPTER.with_child(job_set_of(job, RUNTIME))
    last = restored.next_stop(job, original)
    assert last is not None
    assert restored.is_suspended(patched(job, last.body))


def test_patches_change_only_once_no_pod_is_active() -> None:
    added = {"name": "node", "template": {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}}
    patch = {"manager": PATCH_MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [added]}}}}
    job = train_job(patches=[patch])
    job_set = job_set_of(job, RUNTIME)
    job_set["status"] = {"replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 1}]}
    assert ADAPTER.with_child(job_set).is_active(job)
    assert ADAPTER.with_child(job_set).next_stop(job, ()) is None
    running = {**job_set, "spec": {**job_set["spec"], "suspend": False}, "status": {}}
    assert ADAPTER.with_child(running).is_active(job)


def test_a_train_job_ends_by_its_own_status() -> None:
    job = train_job(suspend=False)
    job["status"] = {"conditions": [{"type": "Failed", "status": "True", "message": "no"}]}
    assert ADAPTER.finished(job) == FinishedJob(False, "no")
    assert ADAPTER.next_stop(job, ()) is None
    assert not ADAPTER.is_active(job)


def test_readiness_and_reclaimable_pods_follow_from_the_job_set() -> None:
    job = train_job(suspend=False)
    job_set = job_set_of(job, RUNTIME)
    adapter = ADAPTER.with_child(job_set)
    assert not adapter.pods_ready(job)
    status = [{"name": "dataset", "succeeded": 1}, {"name": "node", "ready": 1}]
    job_set["status"] = {"replicatedJobsStatus": status}
    assert adapter.pods_ready(job)
    assert adapter.reclaimable_pods(job) == {"dataset": 1}


def test_a_conflict_with_the_runtime_is_an_error() -> None:
    runtime = [replicated_job("node", {"spec": {"nodeSelector": {"a": "b"}}})]
    job = train_job()
    adapter = ADAPTER.with_child(job_set_of(job, runtime))
    with pytest.raises(StartConflict, match=r"nodeSelector\.a: the job sets 'b', but the admission sets 'c'"):
        adapter.start(job, [PodSetInfo("node", 1, node_selector={"a": "c"})])
    with pytest.raises(StartConflict, match="pod sets: 1 in the TrainJob, 2 in the admission"):
        adapter.start(job, [PodSetInfo("node", 1), PodSetInfo("x", 1)])


def test_without_its_job_set_a_job_waits_unless_it_has_ended() -> None:
    job = train_job()
    objects: dict[ObjectKey, Json] = {}
    adapter = adapters_by_kind()["trainer.kubeflow.org", "TrainJob"]
    assert adapter_of_job(adapter, job, objects.get) is None
    with pytest.raises(FieldError, match="has not created the JobSet yet"):
        adapter.pod_sets(job)
    objects[ObjectKey(JOB_SETS, "ns", "t")] = {"metadata": {"name": "t", "uid": "other"}, "spec": {}}
    assert adapter_of_job(adapter, job, objects.get) is None, "a JobSet of the same name is not its own"
    job["status"] = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
    assert adapter_of_job(adapter, job, objects.get) is adapter


def test_the_live_queue_starts_and_stops_a_train_job() -> None:
    cluster = ModelCluster()
    trainer = ModelTrainer(cluster, RUNTIME)
    job = trainer.submit("t")
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle()
    assert not queue.writes, "the trainer has not made its JobSet yet"
    queue.settle(trainer.sync)
    assert not cluster.get(job)["spec"]["suspend"]
    assert selectors(cluster.get(ObjectKey(JOB_SETS, "ns", "t"))) == [{"flavor": "f"}, {"flavor": "f"}]
    [name] = [key for key in cluster.objects if key.resource == WORKLOADS]
    cluster.change(name, {"spec": {"active": False}})
    queue.settle(trainer.sync)
    assert cluster.get(job)["spec"]["suspend"]
    assert INJECTED_ANNOTATION not in cluster.get(job)["metadata"].get("annotations", {})
    assert selectors(cluster.get(ObjectKey(JOB_SETS, "ns", "t"))) == [{}, {}]
    cluster.change(name, {"spec": {"active": True}})
    queue.settle(trainer.sync)
    assert not cluster.get(job)["spec"]["suspend"]
    assert [key for key in cluster.objects if key.resource == WORKLOADS] == [name]


@pytest.mark.parametrize("writes", range(9))
def test_a_controller_that_is_killed_after_any_write_is_replaced(writes: int) -> None:
    """The writes are: create, admit, patch, resume, follow, evict, suspend, empty the patch, remove the annotation."""
    cluster = ModelCluster()
    trainer = ModelTrainer(cluster, RUNTIME)
    job = trainer.submit("t")
    trainer.sync()

    def deactivate() -> None:
        for key in [key for key in cluster.objects if key.resource == WORKLOADS]:
            cluster.change(key, {"spec": {"active": False}})

    mortal = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW, writes_left=writes)

    def start_and_stop() -> None:
        mortal.settle(trainer.sync)
        deactivate()
        mortal.settle(trainer.sync)

    with pytest.raises(Killed):
        start_and_stop()
    queue = LiveQueue(cluster.listed, cluster.send, now=lambda: NOW)
    queue.settle(trainer.sync)
    deactivate()
    queue.settle(trainer.sync)
    assert cluster.get(job)["spec"]["suspend"]
    assert selectors(cluster.get(ObjectKey(JOB_SETS, "ns", "t"))) == [{}, {}]
    assert INJECTED_ANNOTATION not in cluster.get(job)["metadata"].get("annotations", {})
    assert len([key for key in cluster.objects if key.resource == WORKLOADS]) == 1
    assert not queue.controller.feed.state.running

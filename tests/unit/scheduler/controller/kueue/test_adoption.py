"""What an adoption writes, what a return undoes, and which objects both leave unchanged."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kueue_beside import FINALIZER, QUEUE_LABEL, kueue_lease
from zonewise_common.kube.resources import (
    CLUSTER_QUEUES,
    JOB_SETS,
    JOBS,
    PODS,
    RESOURCE_FLAVORS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    WORKLOADS,
    Resource,
)
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_scheduler.controller.jobs import trainjob
from zonewise_scheduler.controller.jobs.raycluster import ADAPTER as RAY_CLUSTERS
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.kueue.adoption import (
    adoption_writes,
    deletion_obstacles,
    lease_write,
    return_writes,
    webhook_writes,
)
from zonewise_scheduler.controller.kueue.adoption_checks import adoption_obstacles
from zonewise_scheduler.controller.kueue.kueue_lease import is_adopted
from zonewise_scheduler.controller.managed_namespaces import all_but
from zonewise_scheduler.controller.pods.group_owner import GROUP_RESOURCES

Json = dict[str, Any]
ADAPTERS = adapters_by_kind()
CONDITIONS = st.lists(st.sampled_from(["a", "b"]).map(lambda name: {"name": name, "expression": "true"}), max_size=2)


def written(obj: Json, body: Any) -> Json:
    return merge_patch(copy.deepcopy(obj), copy.deepcopy(body))


def configuration(name: str, *groups: str) -> Json:
    return {"metadata": {"name": name}, "webhooks": [{"name": "w", "rules": [{"apiGroups": list(groups)}]}]}


@given(st.lists(CONDITIONS, min_size=1, max_size=3))
def test_a_return_restores_the_webhooks_of_kueue(conditions: list[list[Json]]) -> None:
    rules = {"name": "w", "rules": [{"apiGroups": ["kueue.x-k8s.io"]}]}
    webhooks = [{**rules, "matchConditions": own} if own else rules for own in conditions]
    obj: Json = {"metadata": {"name": "kueue"}, "webhooks": webhooks}
    [off] = webhook_writes({VALIDATING_WEBHOOK_CONFIGURATIONS: [obj]}, "own", called=False)
    silent = written(obj, off.body)
    assert all(
        {"name": "adopted.zonewise.dev", "expression": "false"} in w["matchConditions"] for w in silent["webhooks"]
    )
    assert not list(webhook_writes({VALIDATING_WEBHOOK_CONFIGURATIONS: [silent]}, "own", called=False))
    [on] = webhook_writes({VALIDATING_WEBHOOK_CONFIGURATIONS: [silent]}, "own", called=True)
    assert written(silent, on.body) == obj


def test_other_webhooks_and_the_own_ones_are_not_changed() -> None:
    others = [configuration("own", "kueue.x-k8s.io"), configuration("other", "apps")]
    assert not list(webhook_writes({VALIDATING_WEBHOOK_CONFIGURATIONS: others}, "own", called=False))


def test_a_lease_is_adopted_once_and_returned_once() -> None:
    lease = kueue_lease(3)
    write = lease_write(lease, adopted=True)
    assert write is not None
    adopted = written(lease, write.body)
    assert is_adopted(adopted)
    assert lease_write(adopted, adopted=True) is None
    back = lease_write(adopted, adopted=False)
    assert back is not None
    assert not is_adopted(written(adopted, back.body))
    assert lease_write(lease, adopted=False) is None


@pytest.mark.parametrize("resource", [CLUSTER_QUEUES, RESOURCE_FLAVORS])
def test_only_kueues_finalizer_is_removed_and_not_from_objects_being_deleted(resource: Any) -> None:
    """Without the finalizer, a queue that waits for its Workloads would be deleted before them."""
    held: Json = {"metadata": {"name": "a", "finalizers": ["mine", FINALIZER], "resourceVersion": "7"}}
    going: Json = {"metadata": {"name": "b", "finalizers": [FINALIZER], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    objects: dict[Resource, list[Json]] = {WORKLOADS: [], resource: [held, going]}
    [write] = adoption_writes(objects, ADAPTERS)
    assert (write.key.name, write.body, write.resource_version) == ("a", {"metadata": {"finalizers": ["mine"]}}, "7")
    assert list(deletion_obstacles(objects)) == [f"{resource.kind} b: it is being deleted; let Kueue finish that"]


@pytest.mark.parametrize(("submitted", "restored"), [("", None), ("900", 900)])
def test_a_return_restores_the_deadline_that_was_submitted(submitted: str, restored: int | None) -> None:
    annotations = {
        "zonewise.dev/submitted-active-deadline-seconds": submitted,
        "zonewise.dev/injected": "{}",
        "my": "1",
    }
    job: Json = {
        "metadata": {"name": "j", "namespace": "ns", "annotations": annotations},
        "spec": {"activeDeadlineSeconds": 60},
    }
    [write] = return_writes({WORKLOADS: [], JOBS: [job]}, ADAPTERS)
    returned = written(job, write.body)
    assert returned["metadata"]["annotations"] == {"my": "1"}
    assert returned["spec"].get("activeDeadlineSeconds") == restored
    assert not list(return_writes({WORKLOADS: [], JOBS: [returned]}, ADAPTERS))


def test_a_running_job_of_an_unmanaged_namespace_is_no_obstacle() -> None:
    job: Json = {"metadata": {"name": "j", "namespace": "ns", "uid": "u", "labels": {QUEUE_LABEL: "q"}}, "spec": {}}
    job["spec"] = {"template": {"spec": {"containers": [{"name": "c"}]}}}
    objects: dict[Resource, list[Json]] = {CLUSTER_QUEUES: [], WORKLOADS: [], JOBS: [job]}
    assert list(adoption_obstacles(objects, ADAPTERS, 0.0)) == ["Job ns/j: it runs without a Workload"]
    assert not list(adoption_obstacles(objects, ADAPTERS, 0.0, all_but("ns")))


def obstacles(**objects: list[Json]) -> list[str]:
    resources = {"queues": CLUSTER_QUEUES, "workloads": WORKLOADS, "jobs": JOBS, "clusters": RAY_CLUSTERS.resource}
    by_kind: dict[Resource, list[Json]] = {
        WORKLOADS: [],
        CLUSTER_QUEUES: [],
        **{resources[name]: items for name, items in objects.items()},
    }
    return list(adoption_obstacles(by_kind, ADAPTERS, 0.0))


def test_a_queue_with_an_unsupported_field_is_an_obstacle() -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"queueingStrategy": "Random"}}
    [obstacle] = obstacles(queues=[queue])
    assert obstacle.startswith("clusterQueues/q: ")
    assert "queueingStrategy" in obstacle


def test_workloads_that_cannot_be_counted_are_obstacles() -> None:
    pod_sets: list[Json] = [{"name": "main", "count": -1, "template": {"spec": {"containers": []}}}]
    owner = {"apiVersion": "example.com/v1", "kind": "Training", "name": "t", "uid": "u", "controller": True}
    workload: Json = {
        "metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner]},
        "spec": {"podSets": pod_sets},
    }
    unreadable, unknown = obstacles(workloads=[workload])
    assert "Workload ns/w: spec.podSets[0].count" in unreadable
    assert unknown == "Workload ns/w: jobs of kind Training (example.com) are not queued"


@pytest.mark.parametrize("resource", [PODS, *GROUP_RESOURCES], ids=lambda resource: resource.api_version)
def test_workloads_of_pods_and_pod_groups_are_no_obstacle_to_a_repeated_adoption(resource: Resource) -> None:
    owner = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "g", "uid": "u", "controller": True}
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    workload: Json = {
        "metadata": {"name": "w", "namespace": "ns", "ownerReferences": [owner]},
        "spec": {"podSets": [{"name": "main", "count": 1, "template": template}]},
    }
    assert obstacles(workloads=[workload]) == []


def test_jobs_that_are_suspended_ended_or_in_no_queue_are_no_obstacles() -> None:
    spec: Json = {"template": {"spec": {"containers": []}}}
    named = {"labels": {"kueue.x-k8s.io/queue-name": "q"}, "namespace": "ns"}
    ended = {"status": {"conditions": [{"type": "Complete", "status": "True", "message": ""}]}}
    jobs: list[Json] = [
        {"metadata": {"name": "a", "namespace": "ns"}, "spec": spec},
        {"metadata": {"name": "b", **named}, "spec": {"suspend": True, **spec}},
        {"metadata": {"name": "c", **named}, "spec": spec, **ended},
    ]
    assert obstacles(jobs=jobs) == []
    assert obstacles(jobs=[{"metadata": {"name": "d", **named}, "spec": spec}]) == [
        "Job ns/d: it runs without a Workload"
    ]


@pytest.mark.parametrize("is_suspended", [False, True])
def test_a_job_of_another_kind_with_the_gate_of_an_elastic_job_is_an_obstacle(is_suspended: bool) -> None:
    """If it grew, its new pods would be gated forever. Batch Jobs have slices here, too."""
    elastic = "kueue.x-k8s.io/elastic-job"
    template: Json = {"spec": {"containers": [], "schedulingGates": [{"name": elastic}]}}
    metadata: Json = {"namespace": "ns", "labels": {"kueue.x-k8s.io/queue-name": "q"}, "annotations": {elastic: "true"}}
    spec: Json = {"suspend": is_suspended, "headGroupSpec": {"template": template}, "workerGroupSpecs": []}
    cluster: Json = {"metadata": {"name": "r", **metadata}, "spec": spec}
    job: Json = {"metadata": {"name": "j", **metadata}, "spec": {"suspend": True, "template": template}}
    [obstacle, *_] = obstacles(clusters=[cluster], jobs=[job])
    assert obstacle.startswith(f"RayCluster ns/r: only Kueue removes the gate {elastic} of its pods")
    assert not obstacles(jobs=[job])


def test_a_job_that_grows_under_kueue_is_no_obstacle() -> None:
    """Kueue 0.20 left it with an ended, an admitted and a pending slice."""
    objects = json.loads((Path(__file__).parents[4] / "fixtures" / "kueue_slices.json").read_text())
    kinds = {"queues": "ClusterQueue", "workloads": "Workload", "jobs": "Job"}
    by_name: dict[str, list[Json]] = {name: objects[kind] for name, kind in kinds.items()}
    assert len(by_name["workloads"]) == 4
    assert obstacles(**by_name) == []
    by_name["workloads"] = [each for each in by_name["workloads"] if each["spec"]["podSets"][0]["count"] == 3]
    assert obstacles(**by_name) == ["Job default/a: it runs without a Workload"]


def test_a_train_job_whose_workload_requests_the_pods_of_its_job_set_is_no_obstacle() -> None:
    """The Workload's pods correspond to the JobSet that the trainer has created for the TrainJob."""
    job: Json = {
        "metadata": {"name": "t", "namespace": "ns", "uid": "t", "labels": {"kueue.x-k8s.io/queue-name": "l"}},
        "spec": {"suspend": False},
    }
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    replicated = {"name": "node", "replicas": 1, "template": {"spec": {"template": template}}}
    owner = {
        "name": "t",
        "uid": "t",
        "controller": True,
        "kind": "TrainJob",
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
    }
    metadata = {"namespace": "ns", "ownerReferences": [{**owner, "controller": True}]}
    job_set: Json = {
        "metadata": {**metadata, "name": "t", "uid": "s"},
        "spec": {"suspend": False, "replicatedJobs": [replicated]},
    }
    adapter = trainjob.ADAPTER.with_child(job_set)
    pod_sets = [pod_set.as_object() for pod_set in adapter.pod_sets(job)]
    workload: Json = {"metadata": {**metadata, "name": "w", "uid": "w"}, "spec": {"podSets": pod_sets}}
    objects: dict[Resource, list[Json]] = {
        CLUSTER_QUEUES: [],
        WORKLOADS: [workload],
        adapter.resource: [job],
        JOB_SETS: [job_set],
    }
    assert not [line for line in adoption_obstacles(objects, ADAPTERS, 0.0) if "TrainJob" in line]
    objects[WORKLOADS] = []
    assert list(adoption_obstacles(objects, ADAPTERS, 0.0)) == ["TrainJob ns/t: it runs without a Workload"]

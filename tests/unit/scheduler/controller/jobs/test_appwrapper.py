"""AppWrappers: a pod set for each template of each component, and what a start adds next to the templates."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import pod_set_infos, templates
from support.job_kinds import ray_cluster_spec, worker_group
from zonewise_common.k8s.fields import FieldError
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.appwrapper import ADAPTER
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo, StartConflict
from zonewise_scheduler.controller.workloads.equivalence import matches
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload
from zonewise_scheduler.quota.api.workload_reader import read_workload

Json = dict[str, Any]

TEMPLATE: Json = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}

SPEC: Json = {"template": TEMPLATE}


def wrapper(*components: Json, status: Json | None = None) -> Json:
    metadata = {"name": "w", "namespace": "ns", "uid": "u-1"}
    return {"metadata": metadata, "spec": {"suspend": True, "components": list(components)}, "status": status or {}}


def component(api_version: str, kind: str, spec: Json) -> Json:
    return {"template": {"apiVersion": api_version, "kind": kind, "spec": spec}}


def declared(template: Json, *pod_sets: Json) -> Json:
    return {"template": {"apiVersion": "example.com/v1", "kind": "X", **template}, "podSets": list(pod_sets)}


def counts(job: Json) -> list[tuple[str, int]]:
    return [(item.name, item.pods) for item in ADAPTER.pod_sets(job)]


@pytest.mark.parametrize(
    ("api_version", "kind", "spec", "pods"),
    [
        ("v1", "Pod", TEMPLATE["spec"], [1]),
        ("apps/v1", "Deployment", {"replicas": 3, "template": TEMPLATE}, [3]),
        ("apps/v1", "StatefulSet", {"template": TEMPLATE}, [1]),
        ("batch/v1", "Job", {"parallelism": 4, "completions": 2, "template": TEMPLATE}, [2]),
        (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": {"parallelism": 3, **SPEC}}}]},
            [6],
        ),
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            {"pytorchReplicaSpecs": {"Worker": {"replicas": 5, **SPEC}, "Master": SPEC}},
            [1, 5],
        ),
        ("ray.io/v1", "RayCluster", ray_cluster_spec(TEMPLATE, worker_group("g", TEMPLATE, replicas=2)), [1, 2]),
        ("ray.io/v1", "RayJob", {"rayClusterSpec": ray_cluster_spec(TEMPLATE)}, [1]),
        ("example.com/v1", "Job", {"template": TEMPLATE}, []),
    ],
)  # fmt: skip
def test_the_pod_sets_of_components_of_known_kinds_are_derived(
    api_version: str, kind: str, spec: Json, pods: list[int]
) -> None:
    job = wrapper(component(api_version, kind, spec), component("v1", "Pod", TEMPLATE["spec"]))
    assert counts(job) == [(f"pods-{i}", count) for i, count in enumerate([*pods, 1])]


def test_an_appwrapper_without_a_known_pod_template_is_an_error() -> None:
    """The operator derives none for a LeaderWorkerSet. The API server rejects a Workload without pod sets."""
    job = wrapper(component("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {}), component("v1", "ConfigMap", {}))
    with pytest.raises(FieldError, match=r"spec\.components: no pod template is found: declare the podSets"):
        ADAPTER.pod_sets(job)


def test_a_component_may_declare_its_pod_sets() -> None:
    annotations = {
        "workload.codeflare.dev.appwrapper/tas-pod-index-label": "example.com/index",
        "workload.codeflare.dev.appwrapper/tas-sub-group-index-label": "example.com/group",
        "workload.codeflare.dev.appwrapper/tas-sub-group-count": "2",
    }
    item = declared(
        {"spec": {"sets": [{"pods": TEMPLATE}, {"pods": TEMPLATE}]}},
        {"path": "template.spec.sets[1].pods", "replicas": 4, "annotations": annotations},
        {"path": "template.spec.sets[0].pods"},
    )
    first, second = ADAPTER.pod_sets(wrapper(item))
    assert (first.pods, second.pods) == (4, 1)
    assert first.topology_request == {
        "podIndexLabel": "example.com/index",
        "subGroupIndexLabel": "example.com/group",
        "subGroupCount": 2,
    }


@pytest.mark.parametrize(
    "path", ["", "spec", "template.spec.sets[2]", "template.spec.sets", "template..a", "template[x]"]
)
def test_a_path_to_no_template_is_an_error(path: str) -> None:
    job = wrapper(declared({"spec": {"sets": [{}]}}, {"path": path}))
    with pytest.raises(FieldError, match=r"spec\.components\[0\]\.podSets\[0\]\.path"):
        ADAPTER.pod_sets(job)


@st.composite
def wrappers(draw: st.DrawFn) -> Json:
    head, worker = draw(templates()), draw(templates())
    cluster = component("ray.io/v1", "RayCluster", ray_cluster_spec(head, worker_group("g", worker, replicas=2)))
    job = component("batch/v1", "Job", {"parallelism": draw(st.integers(1, 3)), "template": draw(templates())})
    service: Json = {"template": {"apiVersion": "v1", "kind": "Service"}}
    return wrapper(*draw(st.permutations([cluster, service, job])))


def patched(job: Json, patch: Json) -> Json:
    result: Any = apply_merge_patch(copy.deepcopy(job), copy.deepcopy(patch))
    return result


@given(wrappers(), st.data())
def test_a_start_adds_the_info_of_each_pod_set_and_a_stop_removes_it(job: Json, data: st.DataObject) -> None:
    original = ADAPTER.pod_sets(job)
    workload = build_workload(job, ADAPTER.resource, original, ManifestOptions())
    read = read_workload(workload).workload
    assert read is not None
    assert [item.pods for item in read.pod_sets] == [item.pods for item in original]
    infos = [data.draw(pod_set_infos(item.pods, item.name)) for item in original]
    started = patched(job, ADAPTER.start(job, infos).body)
    assert not ADAPTER.is_suspended(started)
    added = [entry for item in started["spec"]["components"] for entry in item.get("podSetInfos", ())]
    assert [entry.get("nodeSelector", {}) for entry in added] == [info.node_selector for info in infos]
    assert [len(item.get("podSetInfos", ())) for item in started["spec"]["components"]] == [
        {"RayCluster": 2, "Service": 0, "Job": 1}[item["template"]["kind"]] for item in job["spec"]["components"]
    ]
    assert matches(workload, ADAPTER, started)
    stop = ADAPTER.next_stop(started, original)
    assert stop is not None
    stopped = patched(started, stop.body)
    assert stopped == job
    assert ADAPTER.next_stop(stopped, original) is None


def test_a_conflict_with_a_template_is_an_error() -> None:
    job = wrapper(component("v1", "Pod", {**TEMPLATE["spec"], "nodeSelector": {"a": "b"}}))
    with pytest.raises(StartConflict, match=r"nodeSelector\.a"):
        ADAPTER.start(job, [PodSetInfo("pods-0", 1, node_selector={"a": "c"})])
    with pytest.raises(StartConflict, match="pod sets: 1 in the AppWrapper, 0 in the admission"):
        ADAPTER.start(job, [])


def test_the_state_of_an_appwrapper_follows_from_its_status() -> None:
    def having(phase: str, *conditions: str) -> Json:
        return wrapper(status={"phase": phase, "conditions": [{"type": name, "status": "True"} for name in conditions]})

    assert not ADAPTER.is_active(having("Suspended"))
    assert ADAPTER.is_active(having("Suspending", "QuotaReserved"))
    assert ADAPTER.pods_ready(having("Running", "QuotaReserved", "PodsReady"))
    assert not ADAPTER.pods_ready(having("Running", "QuotaReserved"))
    assert ADAPTER.finished(having("Running", "PodsReady")) is None
    assert ADAPTER.finished(having("Failed", "ResourcesDeployed")) is None, "its objects are not deleted yet"
    assert ADAPTER.finished(having("Failed")) == FinishedJob(False, "The AppWrapper has failed")
    ended = having("Succeeded", "ResourcesDeployed")
    assert ADAPTER.finished(ended) == FinishedJob(True, "The AppWrapper has succeeded")
    assert ADAPTER.next_stop(ended, ()) is None

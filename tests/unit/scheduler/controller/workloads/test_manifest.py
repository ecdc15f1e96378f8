"""The Workload of a job."""

from __future__ import annotations

import copy
import re
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.controller_jobs import CONTAINER, batch_jobs
from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOB_SETS, JOBS
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.jobs.batch_job import ADAPTER
from zonewise_scheduler.controller.jobs.registry import discover_adapters
from zonewise_scheduler.controller.workloads.manifest import ManifestOptions, build_workload, declared_changes
from zonewise_scheduler.controller.workloads.workload_names import adopted_workload_name, workload_name
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import MAX_EXEC_TIME_LABEL, MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.job_priority import PriorityClasses
from zonewise_scheduler.quota.api.pod_set_manifest import read_pod_set_manifests
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from zonewise_scheduler.controller.jobs.interface import JobAdapter

Json = dict[str, Any]

CLASSES = PriorityClasses({"high": 100, "low": 1}, {"pods": 7, "default": 3}, "default")


def job(labels: Json | None = None, annotations: Json | None = None, **spec: object) -> Json:
    metadata = {"name": "j", "namespace": "ns", "uid": "u-1", "labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"template": {"spec": {"containers": [CONTAINER]}}, **spec}}


def build(built: Json, options: ManifestOptions | None = None) -> Json:
    return build_workload(built, JOBS, ADAPTER.pod_sets(built), options or ManifestOptions(CLASSES))


def test_the_workload_of_a_job_has_its_owner_its_queue_and_its_pods() -> None:
    built = job({"kueue.x-k8s.io/queue-name": "q"}, parallelism=2)
    workload = build(built)
    assert workload["apiVersion"] == "kueue.x-k8s.io/v1beta2"
    assert workload["metadata"] == {
        "name": workload_name(JOBS, "j", "u-1"),
        "namespace": "ns",
        "labels": {"kueue.x-k8s.io/job-uid": "u-1"},
        "annotations": {},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1", "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }  # fmt: skip
    assert workload["spec"] == {
        "podSets": [
            {"name": "main", "count": 2, "template": {"metadata": {}, "spec": {"containers": [CONTAINER]}}},
        ],
        "queueName": "q",
        "priority": 3,
        "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "default"},
        "active": True,
    }


@pytest.mark.parametrize("adapter", discover_adapters(), ids=lambda adapter: adapter.resource.kind)
def test_the_workload_of_each_kind_of_job_has_the_begin_time_of_the_job(adapter: JobAdapter) -> None:
    """The time may change until the Workload has quota."""
    times = ("2026-12-24T08:00:00Z", "2026-12-25T08:00:00Z", None)
    first, *others = (job(annotations={BEGIN_ANNOTATION: time} if time else {}) for time in times)
    workload = build_workload(first, adapter.resource, ADAPTER.pod_sets(first), ManifestOptions(CLASSES))
    result = read_workload(workload)
    assert result.workload is not None
    assert result.workload.begin_at == 1798099200.0
    for changed, time in zip(others, times[1:], strict=True):
        patch = declared_changes(changed, adapter.resource, workload, ManifestOptions(CLASSES))
        assert patch == {"metadata": {"annotations": {BEGIN_ANNOTATION: time}}}


@pytest.mark.parametrize("adapter", discover_adapters(), ids=lambda adapter: adapter.resource.kind)
def test_the_workload_of_each_kind_of_job_names_the_user_who_submitted_it(adapter: JobAdapter) -> None:
    """A Workload of another user, as a prebuilt one may be, takes the user of the job too."""
    submitted = job(annotations={SUBMITTED_BY_ANNOTATION: "ann"})
    workload = build_workload(submitted, adapter.resource, ADAPTER.pod_sets(submitted), ManifestOptions(CLASSES))
    assert workload["metadata"]["annotations"][SUBMITTED_BY_ANNOTATION] == "ann"
    assert declared_changes(submitted, adapter.resource, workload, ManifestOptions(CLASSES)) == {}
    patch = declared_changes(job(), adapter.resource, workload, ManifestOptions(CLASSES))
    assert patch == {"metadata": {"annotations": {SUBMITTED_BY_ANNOTATION: None}}}


@given(batch_jobs())
def test_the_planner_reads_the_workload_of_any_job(built: Json) -> None:
    workload = build(built)
    result = read_workload(workload)
    assert result.problems == ()
    assert result.workload is not None
    pod_sets = ADAPTER.pod_sets(built)
    assert read_pod_set_manifests(workload) == pod_sets
    assert [(item.name, item.pods, item.min_pods) for item in result.workload.pod_sets] == [
        (item.name, item.pods, item.min_count) for item in pod_sets
    ]
    assert result.workload.pod_sets[0].requests == {"cpu": 2000, "memory": 1 << 30}


@given(st.text("abc-.", min_size=1, max_size=253), st.text("0123456789abcdef-", min_size=1, max_size=36))
def test_a_name_is_a_valid_label_value_and_depends_on_kind_and_uid(name: str, uid: str) -> None:
    names = [workload_name(JOBS, name, uid), workload_name(JOB_SETS, name, uid), workload_name(JOBS, name, f"{uid}0")]
    assert len(set(names)) == 3
    assert all(len(item) <= 63 and re.search(r"-[0-9a-f]{5}$", item) for item in names)


def test_the_name_equals_that_of_kueue() -> None:
    # printf 'Job\nbatch\nsample\n1234' | sha1sum
    assert workload_name(JOBS, "sample", "1234") == "job-sample-84fd7"
    assert adopted_workload_name(JOBS, "sample", "1234") == "job-sample-84fd7"


def test_the_name_of_an_adopted_workload_is_truncated_as_by_kueue() -> None:
    name = adopted_workload_name(JOBS, "s" * 253, "1234")
    assert len(name) == 253
    assert name[-6:] == workload_name(JOBS, "s" * 253, "1234")[-6:]


@pytest.mark.parametrize(
    ("labels", "pod_class", "priority"),
    [
        ({"kueue.x-k8s.io/priority-class": "high"}, "pods", ("WorkloadPriorityClass", "high", 100)),
        ({}, "pods", ("PriorityClass", "pods", 7)),
        ({}, "", ("PriorityClass", "default", 3)),
    ],
)
def test_the_priority_class_of_the_workload_precedes_that_of_its_pods(
    labels: Json, pod_class: str, priority: tuple[str, str, int]
) -> None:
    template = {"spec": {"containers": [CONTAINER], "priorityClassName": pod_class}}
    spec = build(job(labels, template=template))["spec"]
    assert (spec["priorityClassRef"]["kind"], spec["priorityClassRef"]["name"], spec["priority"]) == priority


def test_without_any_class_the_priority_is_zero() -> None:
    spec = build(job(), ManifestOptions())["spec"]
    assert spec["priority"] == 0
    assert "priorityClassRef" not in spec


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (
            job({"kueue.x-k8s.io/priority-class": "no"}),
            "metadata.labels.kueue.x-k8s.io/priority-class: there is no such class: 'no'",
        ),
        (job(annotations={BEGIN_ANNOTATION: "soon"}), f"metadata.annotations.{BEGIN_ANNOTATION}: not an RFC 3339 time"),
        (job(annotations={MAX_RUN_ANNOTATION: "-5"}), f"metadata.annotations.{MAX_RUN_ANNOTATION}: neither seconds"),
        (job() | {"metadata": {"name": "j"}}, "metadata.uid: is missing"),
    ],
)
def test_an_invalid_job_is_an_error_that_names_the_field(damaged: Json, message: str) -> None:
    with pytest.raises(FieldError) as error:
        build(damaged)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("labels", "annotations", "deadline", "walltime"),
    [
        ({}, {}, None, inf),
        ({}, {}, 90, 90),
        ({}, {MAX_RUN_ANNOTATION: "1m"}, 90, 60),
        ({MAX_EXEC_TIME_LABEL: "30"}, {MAX_RUN_ANNOTATION: "1m"}, 90, 30),
        ({MAX_EXEC_TIME_LABEL: "300"}, {}, 90, 90),
    ],
)
def test_the_workload_declares_the_smallest_walltime_of_the_job(
    labels: Json, annotations: Json, deadline: int | None, walltime: float
) -> None:
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    workload = build(job(labels, annotations, **spec))
    result = read_workload(workload)
    assert result.problems == ()
    assert result.workload is not None
    assert result.workload.walltime == walltime


def test_the_label_of_kueue_counts_all_admissions_and_a_deadline_only_the_last() -> None:
    workload = build(job({MAX_EXEC_TIME_LABEL: "300"}, activeDeadlineSeconds=200))
    assert workload["spec"]["maximumExecutionTimeSeconds"] == 300
    assert workload["metadata"]["annotations"] == {MAX_RUN_ANNOTATION: "200"}
    result = read_workload(workload | {"status": {"accumulatedPastExecutionTimeSeconds": 50}})
    assert result.workload is not None
    assert result.workload.walltime == 200


def test_only_annotations_for_provisioning_requests_are_copied() -> None:
    built = job({"team": "a"}, {"cost": "1", "provreq.kueue.x-k8s.io/maxRunDuration": "3"})
    metadata = build(built)["metadata"]
    assert metadata["labels"] == {"kueue.x-k8s.io/job-uid": "u-1"}
    assert metadata["annotations"] == {"provreq.kueue.x-k8s.io/maxRunDuration": "3"}


def test_a_uid_that_is_not_a_valid_label_value_is_not_a_label() -> None:
    built = job()
    built["metadata"]["uid"] = "-"
    assert build(built)["metadata"]["labels"] == {}


@given(batch_jobs(), st.sampled_from(["", "high"]), st.none() | st.integers(1, 9), st.none() | st.integers(1, 9))
def test_a_workload_updated_to_its_job_equals_a_new_one(
    built: Json, priority: str, before: int | None, after: int | None
) -> None:
    workload = build(built | {"spec": {**built["spec"], "activeDeadlineSeconds": before}})
    gates = {} if after is None else {"kueue.x-k8s.io/admission-gated-by": f"a.b/{after}"}
    labels = {"kueue.x-k8s.io/queue-name": "other"} | ({"kueue.x-k8s.io/priority-class": priority} if priority else {})
    changed = {
        "metadata": {**built["metadata"], "labels": labels, "annotations": built["metadata"]["annotations"] | gates},
        "spec": {**built["spec"], "activeDeadlineSeconds": after},
    }
    changes = declared_changes(changed, JOBS, workload, ManifestOptions(CLASSES))
    followed: Any = apply_merge_patch(copy.deepcopy(workload), copy.deepcopy(changes))
    assert followed == build(changed)
    assert declared_changes(changed, JOBS, followed, ManifestOptions(CLASSES)) == {}


def test_an_unknown_priority_class_changes_nothing() -> None:
    workload = build(job())
    changed = job({"kueue.x-k8s.io/priority-class": "typo"})
    assert declared_changes(changed, JOBS, workload, ManifestOptions(CLASSES)) == {}


def with_quota(workload: Json) -> Json:
    return workload | {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}


def test_only_the_priority_changes_while_there_is_quota() -> None:
    workload = with_quota(build(job({"kueue.x-k8s.io/priority-class": "low"})))
    changed = job({"kueue.x-k8s.io/priority-class": "high", "kueue.x-k8s.io/queue-name": "other"})
    assert declared_changes(changed, JOBS, workload, ManifestOptions(CLASSES)) == {
        "spec": {
            "priority": 100,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
        }
    }


@pytest.mark.parametrize("classes", [CLASSES, CLASSES._replace(default_pod_class="")])
def test_no_class_is_added_while_there_is_quota(classes: PriorityClasses) -> None:
    """The API server rejects that, and a rejected write delays all others of the Workload."""
    workload = with_quota(build(job(), ManifestOptions(classes)))
    changed = job({"kueue.x-k8s.io/priority-class": "high"})
    assert declared_changes(changed, JOBS, workload, ManifestOptions(classes)) == {}

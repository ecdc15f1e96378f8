"""The priority of a job: that of its WorkloadPriorityClass, or else of the PriorityClass of its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.job_priority import (
    PRIORITY_CLASS_LABEL,
    JobPriority,
    PriorityClasses,
    read_job_priority,
)
from zonewise_scheduler.quota.api.pod_set_manifest import PodSetManifest

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.pod_set_manifest import Json

CLASSES = PriorityClasses({"high": 7, "both": 1}, {"low": -3, "both": 2, "usual": 5}, "usual")
WORKLOAD_CLASS = ("kueue.x-k8s.io", "WorkloadPriorityClass")
POD_CLASS = ("scheduling.k8s.io", "PriorityClass")


def pod_sets(*names: str | None) -> list[PodSetManifest]:
    """Return pod sets with these PriorityClasses; None leaves the field out."""
    return [PodSetManifest("main", 1, {"spec": {} if name is None else {"priorityClassName": name}}) for name in names]


@pytest.mark.parametrize(
    ("label", "of_pods", "default", "priority"),
    [
        (None, (), "", JobPriority()),
        (None, (None, ""), "", JobPriority("", "", "", 0)),
        ("high", (), "", JobPriority(*WORKLOAD_CLASS, "high", 7)),
        ("both", ("both",), "usual", JobPriority(*WORKLOAD_CLASS, "both", 1)),
        (None, ("both",), "usual", JobPriority(*POD_CLASS, "both", 2)),
        ("", (None, "low", "both"), "usual", JobPriority(*POD_CLASS, "low", -3)),
        (None, (None, ""), "usual", JobPriority(*POD_CLASS, "usual", 5)),
        (None, (), "usual", JobPriority(*POD_CLASS, "usual", 5)),
    ],
)
def test_the_class_of_the_job_precedes_those_of_its_pods(
    label: str | None, of_pods: tuple[str | None, ...], default: str, priority: JobPriority
) -> None:
    """The first pod set with a class counts; without any, the default class of the cluster does."""
    labels = {} if label is None else {PRIORITY_CLASS_LABEL: label}
    job = FieldReader({"metadata": {"labels": labels}}, "", [])
    classes = CLASSES._replace(default_pod_class=default)
    assert read_job_priority(job, pod_sets(*of_pods), classes) == priority
    assert job.problems == []


@pytest.mark.parametrize(
    ("labels", "of_pods", "priority", "field"),
    [
        ({PRIORITY_CLASS_LABEL: "low"}, "low", (*WORKLOAD_CLASS, "low"), f"metadata.labels.{PRIORITY_CLASS_LABEL}"),
        ({}, "high", (*POD_CLASS, "high"), "spec.template.spec.priorityClassName"),
    ],
)
def test_an_unknown_class_is_reported_and_counts_as_0(
    labels: Json, of_pods: str, priority: tuple[str, str, str], field: str
) -> None:
    """The classes of jobs and those of pods are separate."""
    job = FieldReader({"metadata": {"labels": labels}}, "", [])
    assert read_job_priority(job, pod_sets(of_pods), CLASSES) == JobPriority(*priority, 0)
    assert job.problems == [f"{field}: there is no such class: {priority[2]!r}"]


def test_a_class_that_is_not_a_string_is_reported_and_counts_as_none() -> None:
    job = FieldReader({"metadata": {"labels": {PRIORITY_CLASS_LABEL: 1}}}, "", [])
    pods = [PodSetManifest("main", 1, {"spec": {"priorityClassName": 1}})]
    assert read_job_priority(job, pods, CLASSES._replace(default_pod_class="")) == JobPriority()
    assert [problem.partition(": ")[0] for problem in job.problems] == [
        f"metadata.labels.{PRIORITY_CLASS_LABEL}",
        "template.spec.priorityClassName",
    ]


@pytest.mark.parametrize(
    ("priority", "reference"),
    [
        (JobPriority(), None),
        (JobPriority("g", "k", "n", 1), {"group": "g", "kind": "k", "name": "n"}),
    ],
)
def test_a_workload_refers_to_the_class(priority: JobPriority, reference: Json | None) -> None:
    assert priority.reference == reference


@pytest.mark.parametrize(
    ("label", "priority"),
    [("", JobPriority(*POD_CLASS, "low", -3)), ("high", JobPriority(*WORKLOAD_CLASS, "high", 7))],
)
def test_the_class_of_a_run_policy_precedes_those_of_the_pods(label: str, priority: JobPriority) -> None:
    """Kubeflow's jobs have a run policy."""
    spec = {"runPolicy": {"schedulingPolicy": {"priorityClass": "low"}}}
    job = FieldReader({"metadata": {"labels": {PRIORITY_CLASS_LABEL: label}}, "spec": spec}, "", [])
    assert read_job_priority(job, pod_sets("usual"), CLASSES) == priority
    assert job.problems == []


def test_an_unknown_class_of_a_run_policy_is_reported() -> None:
    job = FieldReader({"spec": {"runPolicy": {"schedulingPolicy": {"priorityClass": "high"}}}}, "", [])
    assert read_job_priority(job, pod_sets("usual"), CLASSES).value == 0
    assert job.problems == ["spec.runPolicy.schedulingPolicy.priorityClass: there is no such class: 'high'"]

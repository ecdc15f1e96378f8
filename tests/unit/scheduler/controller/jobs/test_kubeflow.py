"""Training jobs of kubeflow.org: each role has a pod set."""

from __future__ import annotations

from typing import Any

import pytest

from support.job_kinds import kubeflow_adapter
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo
from zonewise_scheduler.controller.jobs.kubeflow import ADAPTERS, REPLICA_INDEX_LABEL

Json = dict[str, Any]


def tf_job(status: Json | None = None, **replicas: Json | None) -> Json:
    return {"spec": {"runPolicy": {"suspend": False}, "tfReplicaSpecs": replicas}, "status": status or {}}


def test_each_kind_has_the_plural_of_its_definition() -> None:
    assert [(adapter.resource.kind, adapter.resource.plural) for adapter in ADAPTERS] == [
        ("PyTorchJob", "pytorchjobs"),
        ("TFJob", "tfjobs"),
        ("XGBoostJob", "xgboostjobs"),
        ("PaddleJob", "paddlejobs"),
        ("JAXJob", "jaxjobs"),
        ("MPIJob", "mpijobs"),
    ]
    assert kubeflow_adapter("MPIJob").resource.api_version == "kubeflow.org/v2beta1"
    assert kubeflow_adapter("TFJob").resource.api_version == "kubeflow.org/v1"


def test_pod_sets_are_in_the_order_of_the_roles() -> None:
    job = tf_job(Worker={"replicas": 3}, Evaluator=None, PS={}, Chief={"replicas": 1})
    pod_sets = kubeflow_adapter("TFJob").pod_sets(job)
    assert [(pod_set.name, pod_set.pods) for pod_set in pod_sets] == [("chief", 1), ("ps", 1), ("worker", 3)]
    assert pod_sets[0].topology_request == {"podIndexLabel": REPLICA_INDEX_LABEL}


def test_a_start_resumes_the_job_through_its_run_policy() -> None:
    job = tf_job(Worker={"template": {"spec": {"containers": []}}})
    job["spec"]["runPolicy"] = {"suspend": True, "activeDeadlineSeconds": 60}
    patch = kubeflow_adapter("TFJob").start(job, [PodSetInfo("worker", 1, node_selector={"zone": "a"})])
    template = {"spec": {"nodeSelector": {"zone": "a"}}}
    assert patch.body == {
        "spec": {"runPolicy": {"suspend": False}, "tfReplicaSpecs": {"Worker": {"template": template}}}
    }


def test_a_job_is_active_while_any_role_has_active_pods() -> None:
    adapter = kubeflow_adapter("TFJob")
    assert adapter.is_active(tf_job({"replicaStatuses": {"PS": {"active": 0}, "Worker": {"active": 1}}}))
    assert not adapter.is_active(tf_job({"replicaStatuses": {"PS": {"active": 0}, "Worker": {"succeeded": 1}}}))


@pytest.mark.parametrize(
    ("condition", "ready", "end"),
    [
        ("Running", True, None),
        ("Created", False, None),
        ("Succeeded", False, FinishedJob(succeeded=True, message="m")),
        ("Failed", False, FinishedJob(succeeded=False, message="m")),
    ],
)
def test_readiness_and_end_follow_from_conditions(condition: str, ready: bool, end: FinishedJob | None) -> None:
    job = tf_job({"conditions": [{"type": condition, "status": "True", "message": "m"}]})
    adapter = kubeflow_adapter("TFJob")
    assert (adapter.pods_ready(job), adapter.finished(job)) == (ready, end)
    assert (adapter.next_stop(job, ()) is None) == (end is not None)


def test_an_invalid_job_is_an_error_that_names_the_field() -> None:
    with pytest.raises(FieldError) as error:
        kubeflow_adapter("TFJob").pod_sets(tf_job(Worker={"replicas": "3"}))
    assert str(error.value) == "spec.tfReplicaSpecs.Worker.replicas: not a whole number: '3'"

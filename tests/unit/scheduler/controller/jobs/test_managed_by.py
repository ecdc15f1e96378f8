"""Jobs that MultiKueue manages: they are rejected, and get no Workload."""

from __future__ import annotations

from typing import Any

import pytest

from support.admission_reviews import job, problems_of, rules
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.managed_by import check_managed_by
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind

MULTIKUEUE = "kueue.x-k8s.io/multikueue"


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (("batch", "Job"), {"managedBy": MULTIKUEUE}, "spec.managedBy"),
        (("kubeflow.org", "MPIJob"), {"runPolicy": {"managedBy": MULTIKUEUE}}, "spec.runPolicy.managedBy"),
        (("ray.io", "RayService"), {"managedBy": MULTIKUEUE, "rayClusterConfig": {}}, "spec.managedBy"),
    ],
)
def test_the_field_is_that_of_the_kind(kind: tuple[str, str], spec: Any, field: str) -> None:
    path = adapters_by_kind()[kind].suspend_path
    with pytest.raises(FieldError, match="MultiKueue is not supported") as error:
        check_managed_by({"spec": spec}, path)
    assert str(error.value).startswith(field)
    check_managed_by({"spec": {"managedBy": "kubernetes.io/job-controller"}}, path)


def test_the_webhook_rejects_such_a_job_only_if_it_is_queued() -> None:
    made = job("q")
    made["spec"]["managedBy"] = MULTIKUEUE
    assert problems_of(made) == "spec.managedBy: MultiKueue is not supported: remove the field"
    made["metadata"]["labels"] = {}
    assert problems_of(made, facts=rules()) == ""

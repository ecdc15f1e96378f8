"""Jobs of a kind that is described in the settings."""

from __future__ import annotations

from typing import Any

import pytest

from support.job_kinds import CONFIGURED, TRAINING
from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.jobs.configured_job import ConfiguredJob
from zonewise_scheduler.controller.jobs.interface import FinishedJob, PodSetInfo
from zonewise_scheduler.controller.jobs.job_kind import parse_job_kinds
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind

Json = dict[str, Any]

TEMPLATE: Json = {"spec": {"containers": []}}


def training(status: Json | None = None, **spec: object) -> Json:
    return {"spec": {"run": {"suspend": True}, **spec}, "status": status or {}}


def worker(name: str, **fields: object) -> Json:
    return {"name": name, "template": TEMPLATE, **fields}


def test_absent_templates_have_no_pod_set() -> None:
    job = training(workers=[worker("A", replicas=2), {"name": "none"}, worker("c")])
    assert [(item.name, item.pods) for item in CONFIGURED.pod_sets(job)] == [("a", 2), ("c", 1)]
    job = training(driver=TEMPLATE, **{"a/b~": {"template": TEMPLATE}})
    assert [(item.name, item.pods) for item in CONFIGURED.pod_sets(job)] == [("driver", 1), ("watchers", 2)]


def test_a_start_changes_the_template_of_each_item() -> None:
    job = training(workers=[worker("a"), {"name": "none"}, worker("c")])
    infos = [PodSetInfo("a", 1, node_selector={"zone": "x"}), PodSetInfo("c", 1, node_selector={"zone": "y"})]
    started = CONFIGURED.start(job, infos).body["spec"]
    assert started["run"] == {"suspend": False}
    templates = [item.get("template", {}).get("spec", {}) for item in started["workers"]]
    assert [spec.get("nodeSelector") for spec in templates] == [{"zone": "x"}, None, {"zone": "y"}]


@pytest.mark.parametrize(
    ("status", "active"),
    [
        ({}, False),
        ({"driver": 0, "workers": [{"active": 0}]}, False),
        ({"driver": 1}, True),
        ({"workers": [{}, {"active": 2}]}, True),
    ],
)
def test_any_field_with_active_pods_makes_a_job_active(status: Json, active: bool) -> None:
    assert CONFIGURED.is_active(training(status)) is active


def test_readiness_and_end_follow_from_conditions() -> None:
    def with_condition(condition: str) -> Json:
        return training({"conditions": [{"type": condition, "status": "True", "message": "m"}]})

    assert CONFIGURED.pods_ready(with_condition("Running"))
    assert CONFIGURED.finished(with_condition("Running")) is None
    assert CONFIGURED.finished(with_condition("Complete")) == FinishedJob(succeeded=True, message="m")
    assert CONFIGURED.finished(with_condition("Failed")) == FinishedJob(succeeded=False, message="m")


def test_an_invalid_job_is_an_error_that_names_the_field() -> None:
    with pytest.raises(FieldError) as error:
        CONFIGURED.pod_sets(training(workers=[worker("a"), worker("b", replicas="3")]))
    assert str(error.value) == "spec.workers[1].replicas: not a whole number: '3'"


def test_a_kind_with_an_adapter_is_not_configured_again() -> None:
    [kind] = parse_job_kinds([{**TRAINING, "group": "ray.io", "kind": "RayJob"}])
    with pytest.raises(ValueError, match=r"kind RayJob of group 'ray\.io' has two adapters"):
        adapters_by_kind([ConfiguredJob(kind)])

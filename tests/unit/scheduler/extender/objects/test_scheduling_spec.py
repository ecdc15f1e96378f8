"""The fields of an unbound pod that a scheduling pass needs."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.extender.objects.scheduling_spec import (
    SchedulingSpec,
    read_scheduling_spec,
)
from zonewise_scheduler.nodes.node.avoided_conditions import SINGLE_POD
from zonewise_scheduler.quota.api.pod_group_key import LABEL, GroupKey

Json = dict[str, Any]
CONTAINERS = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]


def pod(spec: Json | None = None, **metadata: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "lab", **metadata},
        "spec": {"containers": CONTAINERS, **(spec or {})},
    }


def read(spec: Json | None = None, **metadata: Any) -> SchedulingSpec:
    return read_scheduling_spec(pod(spec, **metadata), 5.0)


def test_a_plain_pod() -> None:
    """Defaults are those of the API. Requests are counted as in NodeResourcesFit."""
    spec = read()
    assert (spec.scheduler, spec.priority, spec.created, spec.gated, spec.group) == (
        "default-scheduler", 0, 5.0, False, None,
    )  # fmt: skip
    assert spec.constraints.requests.milli_cpus == 2000
    assert spec.is_exact
    assert read({"schedulerName": "zonewise", "priority": 7})[:2] == ("zonewise", 7)


@pytest.mark.parametrize(("labels", "tolerates"), [({}, True), ({LABEL: "g"}, False)])
def test_only_single_pods_tolerate_nodes_that_gangs_avoid(labels: dict[str, str], tolerates: bool) -> None:
    assert (SINGLE_POD in read(labels=labels).constraints.tolerations) is tolerates


@pytest.mark.parametrize(
    ("spec", "metadata"),
    [({"schedulingGates": [{"name": "g"}]}, {}), ({}, {"deletionTimestamp": "2026-01-01T00:00:00Z"})],
)
def test_pods_that_no_scheduler_may_bind(spec: Json, metadata: Json) -> None:
    assert read(spec, **metadata).gated


LEFT_TO_KUBE_SCHEDULER: list[Json] = [
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    {"resourceClaims": [{"name": "r"}]},
    {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
    {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
    {"workloadRef": {"name": "w"}},
]


@pytest.mark.parametrize("spec", LEFT_TO_KUBE_SCHEDULER)
def test_constraints_that_only_kube_scheduler_checks(spec: Json) -> None:
    assert not read(spec).is_exact


@pytest.mark.parametrize(
    ("status", "reason", "is_unschedulable"),
    [
        ("False", "Unschedulable", True),
        ("False", "SchedulerError", True),
        ("False", "SchedulingGated", False),
        ("True", "", False),
    ],
)
def test_a_pod_without_a_node(status: str, reason: str, is_unschedulable: bool) -> None:
    """A pod also counts as tried if its filter call failed, for example during a restart of the extender."""
    conditions = [{"type": "Ready", "status": "False"}, {"type": "PodScheduled", "status": status, "reason": reason}]
    spec = read_scheduling_spec({**pod(), "status": {"conditions": conditions}}, 5.0)
    assert spec.unschedulable == is_unschedulable


def test_a_pod_of_a_group() -> None:
    """The constraints of the pod itself are exact. Gangs of release 1.35 (`workloadRef`) are left to kube-scheduler."""
    spec = read(labels={LABEL: "g"})
    assert spec.is_exact
    assert spec.group == GroupKey("scheduling.x-k8s.io", "lab", "g")
    assert not read({"workloadRef": {"name": "w"}}).is_exact


def test_an_invalid_field() -> None:
    with pytest.raises(FieldError, match="schedulerName"):
        read({"schedulerName": 5})

"""Fields of a pod that the controller does not evaluate."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.pods.unevaluated import unevaluated, unevaluated_pod_sets

Json = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
STORED: Json = {
    "containers": [
        {
            "name": "c",
            "image": "i",
            "resources": {"requests": {"cpu": "1"}, "limits": {"example.com/gpu": "1"}},
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "imagePullPolicy": "Always",
            "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets"}],
        }
    ],
    "volumes": [
        {"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "scratch", "emptyDir": {}},
    ],
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In"}]}]},
            PREFERRED: [{"weight": 1}],
        },
        "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": TERM}]},
    },
    "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
    "restartPolicy": "Never",
    "schedulerName": "default-scheduler",
    "serviceAccountName": "default",
    "priority": 0,
    "preemptionPolicy": "PreemptLowerPriority",
    "securityContext": {},
    "enableServiceLinks": True,
    "dnsPolicy": "ClusterFirst",
    "terminationGracePeriodSeconds": 30,
}
"""A pod in the form in which the API server stores it."""


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": {**copy.deepcopy(STORED), **spec}}


def container(**fields: Any) -> list[Json]:
    return [{"name": "c", **fields}]


def test_an_ordinary_pod_has_no_unevaluated_fields() -> None:
    assert unevaluated(pod()) == ()


REASONS: list[tuple[Json, str]] = [
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, "volumes"),
    ({"volumes": [{"name": "v", "ephemeral": {}}]}, "volumes"),
    ({"volumes": [{"name": "v", "csi": {"driver": "d"}}]}, "volumes"),
    ({"volumes": [{"name": "v", "newKind": {}}]}, "volumes"),
    ({"resourceClaims": [{"name": "r"}]}, "resource claims"),
    ({"affinity": {"podAffinity": {REQUIRED: [TERM]}}}, "pod affinity"),
    ({"affinity": {"podAntiAffinity": {REQUIRED: [TERM]}}}, "pod affinity"),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "topology spread"),
    ({"schedulerName": "other"}, "scheduler"),
    ({"containers": container(ports=[{"containerPort": 1, "hostPort": 80}])}, "host ports"),
    ({"hostNetwork": True, "containers": container(ports=[{"containerPort": 80}])}, "host ports"),
    ({"hostNetwork": True, "hostUsers": False}, "node features"),
    ({"containers": container(restartPolicyRules=[{"action": "RestartAllContainers"}])}, "node features"),
    ({"schedulingGroup": {"podGroupName": "g"}}, "spec.schedulingGroup"),
    ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
    ({"containers": container(resources={"newField": {}})}, "spec.containers.resources.newField"),
    ({"containers": "damaged"}, "invalid fields"),
    ({"affinity": []}, "invalid fields"),
]


@pytest.mark.parametrize(("spec", "reason"), REASONS)
def test_pods_with_unevaluated_fields_are_left_to_kube_scheduler(spec: Json, reason: str) -> None:
    assert reason in unevaluated(pod(**spec))


PLACES: tuple[tuple[str | int, ...], ...] = (
    (),
    ("containers", 0),
    ("containers", 0, "resources"),
    ("volumes", 0),
    ("affinity",),
    ("affinity", "nodeAffinity"),
    ("affinity", "nodeAffinity", REQUIRED),
    ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms", 0),
    ("affinity", "podAntiAffinity"),
    ("tolerations", 0),
)
VALUES: st.SearchStrategy[Any] = st.sampled_from([True, 1, "x", {}, {"a": 1}, [], [{"a": 1}]])


@given(st.sampled_from(PLACES), st.text("abcXYZ", min_size=1).map("new".__add__), VALUES)
def test_a_field_of_a_newer_server_is_a_reason(place: tuple[str | int, ...], field: str, value: Any) -> None:
    """If a later release adds a field to a pod, the pod is left to the scheduler that knows the field."""
    obj = pod()
    owner = obj["spec"]
    for step in place:
        owner = owner[step]
    owner[field] = value
    assert unevaluated(obj)


def test_the_pod_sets_of_a_workload() -> None:
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    port = {"containerPort": 1, "hostPort": 80}
    pod_sets: list[Json] = [
        {"name": "main", "template": {"spec": {"containers": container()}}},
        {"name": "other", "template": {"spec": {"volumes": [claim], "containers": container(ports=[port])}}},
    ]
    assert unevaluated_pod_sets({"spec": {"podSets": pod_sets}}) == {"main": "", "other": "volumes, host ports"}

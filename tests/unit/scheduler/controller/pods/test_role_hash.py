"""Roles, which make pods of a group interchangeable."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.pods.role_hash import role_hash

Json = dict[str, Any]

CONTAINER: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
PORT = {"name": "p", "hostPort": 80, "containerPort": 80, "protocol": "TCP"}
SPREAD: Json = {
    "maxSkew": 1,
    "topologyKey": "z",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"a": "b"}},
}
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["\u00e9", "b"]}]}]}
SPEC: Json = {"containers": [CONTAINER], "nodeSelector": {"a": "1"}}


@pytest.mark.parametrize(
    "same",
    [
        {**SPEC, "containers": [{**CONTAINER, "name": "d", "image": "j", "args": ["--rank=1"]}]},
        {**SPEC, "containers": [{**CONTAINER, "resources": {"requests": {"memory": "1Gi", "cpu": "1"}}}]},
        {**SPEC, "schedulingGates": [{"name": "g"}], "hostname": "h", "tolerations": []},
    ],
    ids=["program", "order of keys", "not for scheduling"],
)
def test_pods_with_equal_requirements_have_the_same_role(same: Json) -> None:
    assert role_hash(same) == role_hash(SPEC)


@pytest.mark.parametrize(
    "other",
    [
        {**SPEC, "containers": [{**CONTAINER, "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]},
        {**SPEC, "containers": [CONTAINER, CONTAINER]},
        {**SPEC, "containers": [], "initContainers": [CONTAINER]},
        {**SPEC, "containers": [{**CONTAINER, "ports": [{"hostPort": 80}]}]},
        {**SPEC, "nodeSelector": {"a": "2"}},
        {**SPEC, "tolerations": [{"operator": "Exists"}]},
        {**SPEC, "priority": 1},
        {**SPEC, "resources": {"requests": {"cpu": "3"}}},
    ],
)
def test_pods_with_different_requirements_have_different_roles(other: Json) -> None:
    assert role_hash(other) != role_hash(SPEC)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"containers": [{"name": "c"}]}, "7aa6c7b8"),
        ({"containers": [CONTAINER], "nodeSelector": {"b": "2", "a": "1"}}, "52d3bea0"),
        ({"containers": [CONTAINER], "resources": {"requests": {"cpu": "3"}}}, "b96946d9"),
        ({"containers": [CONTAINER], "resources": {}}, "54b54c7c"),
        (
            {
                "containers": [{**CONTAINER, "ports": [PORT]}, {"name": "d"}],
                "initContainers": [{"name": "x"}],
                "priority": 0,
                "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
                "runtimeClassName": "r",
                "overhead": {"memory": "1Mi", "cpu": "10m"},
                "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}],
                "topologySpreadConstraints": [SPREAD],
                "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERMS}},
            },
            "7c09f6a8",
        ),
    ],
)
def test_the_hash_is_that_of_kueue(spec: Json, expected: str) -> None:
    """Kueue's GenerateRoleHash has returned the values. Otherwise no pod could replace one of an adopted group."""
    assert role_hash(spec) == expected


def test_invalid_containers_are_an_error() -> None:
    with pytest.raises(FieldError, match=r"spec\.containers"):
        role_hash({"containers": "none"})

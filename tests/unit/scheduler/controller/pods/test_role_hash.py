"""Roles, which make pods of a group interchangeable."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.pods.role_hash import role_hash

Json = dict[str, Any]

CONTAINER: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
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


def test_a_role_is_the_same_in_each_process() -> None:
    assert role_hash(SPEC) == "fdb159d1"


def test_invalid_containers_are_an_error() -> None:
    with pytest.raises(FieldError, match=r"spec\.containers"):
        role_hash({"containers": "none"})

"""The PodGroup that a pod names, in each of the two APIs."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.quota.api.pod_group_key import (
    COSCHEDULING_API_GROUP,
    IN_TREE_API_GROUP,
    LABEL,
    GroupKey,
    read_group_key,
    read_min_member,
)

Json = dict[str, Any]


def pod(labels: Json, spec: Json) -> Json:
    return {"metadata": {"namespace": "ns", "labels": labels}, "spec": spec}


def test_the_field_of_kubernetes_precedes_the_label() -> None:
    in_tree = {"schedulingGroup": {"podGroupName": "a"}}
    assert read_group_key(pod({LABEL: "b"}, in_tree)) == GroupKey(IN_TREE_API_GROUP, "ns", "a")
    assert read_group_key(pod({LABEL: "b"}, {})) == GroupKey(COSCHEDULING_API_GROUP, "ns", "b")
    assert read_group_key(pod({}, {})) is None


def test_each_api_has_its_own_field_for_the_number_of_pods() -> None:
    assert read_min_member(COSCHEDULING_API_GROUP, {"spec": {"minMember": 3}}) == 3
    assert read_min_member(".".join(COSCHEDULING_API_GROUP.split(".")), {"spec": {"minMember": 3}}) == 3
    gang = {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "minMember": 3}}
    assert read_min_member(IN_TREE_API_GROUP, gang) == 4
    assert read_min_member(IN_TREE_API_GROUP, {"spec": {"schedulingPolicy": {"basic": {}}}}) is None
    with pytest.raises(FieldError, match=r"spec\.minMember: not an integer: '3'"):
        read_min_member(COSCHEDULING_API_GROUP, {"spec": {"minMember": "3"}})

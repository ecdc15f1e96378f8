"""PodGroups of both APIs, and the pods that refer to them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.extender.objects.pod_group import PodGroup, decode_in_tree_pod_group, decode_pod_group
from zonewise_scheduler.quota.api.pod_group_key import GroupKey, read_group_key

CUSTOM = GroupKey("scheduling.x-k8s.io", "lab", "trainer")
IN_TREE = GroupKey("scheduling.k8s.io", "lab", "trainer")


def raw(**spec: Any) -> msgspec.Raw:
    metadata = {"name": "trainer", "namespace": "lab", "creationTimestamp": "1970-01-01T00:01:00Z"}
    return msgspec.Raw(json.dumps({"metadata": metadata, "spec": spec}).encode())


def labelled(value: object, **spec: Any) -> dict[str, Any]:
    labels = {"scheduling.x-k8s.io/pod-group": value}
    return {"metadata": {"namespace": "lab", "labels": labels}, "spec": spec}


def test_custom_resource() -> None:
    group = decode_pod_group(raw(minMember=4, scheduleTimeoutSeconds=10, minResources={"cpu": "8"}))
    assert group == PodGroup(CUSTOM, 4, 60.0, schedule_timeout=10.0, min_resources=Resource(8000, 0, 0, 0))
    assert group.is_gang
    assert str(group.key) == "PodGroup lab/trainer"


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": 1, "scheduleTimeoutSeconds": 0}])
def test_defaults_of_the_custom_resource(spec: dict[str, int]) -> None:
    group = decode_pod_group(raw(**spec))
    assert group == PodGroup(CUSTOM, 1, 60.0, schedule_timeout=60.0)
    assert not group.is_gang


def test_in_tree() -> None:
    group = decode_in_tree_pod_group(
        raw(
            schedulingPolicy={"gang": {"minCount": 3}},
            schedulingConstraints={"topology": [{"key": "rack"}]},
            priority=7,
        )
    )
    assert group == PodGroup(IN_TREE, 3, 60.0, 7, level="rack")


def test_in_tree_without_gang() -> None:
    group = decode_in_tree_pod_group(raw(schedulingPolicy={"basic": {}}))
    assert group == PodGroup(IN_TREE, 1, 60.0)
    assert not group.is_gang
    assert decode_in_tree_pod_group(raw(schedulingConstraints={"topology": [{"key": "rack"}]})).is_gang


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": "4"}, "spec.minMember"),
        ({"minMember": True}, "spec.minMember"),
        ({"scheduleTimeoutSeconds": 1.5}, "spec.scheduleTimeoutSeconds"),
    ],
)
def test_invalid_field(spec: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError, match=f"{field}: not an integer"):
        decode_pod_group(raw(**spec))


def test_invalid_time() -> None:
    with pytest.raises(FieldError, match=r"metadata\.creationTimestamp: not a time: 'noon'"):
        decode_pod_group(msgspec.Raw(b'{"metadata": {"name": "a", "creationTimestamp": "noon"}}'))


def test_pods() -> None:
    assert read_group_key({"metadata": {"namespace": "lab"}, "spec": {}}) is None
    assert read_group_key(labelled("trainer")) == CUSTOM
    assert read_group_key(labelled("")) is None
    assert read_group_key(labelled("other", schedulingGroup={"podGroupName": "trainer"})) == IN_TREE


def test_invalid_label() -> None:
    with pytest.raises(FieldError, match="pod-group: not a string: 7"):
        read_group_key(labelled(7))

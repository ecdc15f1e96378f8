"""The requests of queues, made with annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from zonewise_common.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from zonewise_scheduler.controller.workloads.queue_annotations import BIND_ANNOTATION, is_requested, queues_of

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

Json = dict[str, Any]

QUEUES: dict[Any, Json] = {
    (LOCAL_QUEUES, "ns", "l"): {"metadata": {"name": "l"}},
    (CLUSTER_QUEUES, "", "q"): {"metadata": {"name": "q"}},
}


def find(resource: Resource, namespace: str, name: str) -> Json | None:
    return QUEUES.get((resource, namespace, name))


def queue(value: str) -> Json:
    return {"metadata": {"annotations": {BIND_ANNOTATION: value} if value else {}}}


@pytest.mark.parametrize(
    ("values", "requested"),
    [
        ([], False),
        (["", ""], False),
        (["", "true"], True),
        (["true", "false"], True),
        (["false", "true"], False),
        (["yes"], False),
    ],
)
def test_the_first_queue_with_a_value_decides(values: list[str], requested: bool) -> None:
    assert is_requested([queue(value) for value in values], BIND_ANNOTATION) == requested


def test_the_queues_of_a_workload() -> None:
    workload: Json = {"metadata": {"namespace": "ns"}, "spec": {"queueName": "l"}}
    workload["status"] = {"admission": {"clusterQueue": "q"}}
    found = queues_of(workload, find)
    assert [each["metadata"]["name"] for each in found] == ["l", "q"]
    assert queues_of({"metadata": {}}, find) == []

"""What is read of a pod, and what of it is left to kube-scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints, scheduler_only_constraints

HOST: dict[str, Any] = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}


LEFT: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ()),
    ({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {}}]}, ()),
    ({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}, ("volumes",)),
    ({"volumes": [{"name": "v", "ephemeral": {}}]}, ("volumes",)),
    (
        {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [HOST]}}},
        ("pod affinity",),
    ),
    ({"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, ()),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ()),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, ("topology spread",)),
    ({"resourceClaims": [{"name": "gpu"}], "volumes": [{"csi": {}}]}, ("resource claims", "volumes")),
    (
        {"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}]},
        ("resource claims",),
    ),
]


@pytest.mark.parametrize(("spec", "left"), LEFT)
def test_what_needs_other_systems_is_left(spec: dict[str, Any], left: tuple[str, ...]) -> None:
    assert scheduler_only_constraints({"spec": spec}) == left
    assert read_constraints({"spec": spec}).scheduler_only == left


def test_pods_of_one_template_are_equal() -> None:
    spec: dict[str, Any] = {
        "nodeName": "n",
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"key": "a", "operator": "Gt", "value": "1"}],
        "nodeSelector": {"b": "1", "a": "2"},
    }
    one, other = (read_constraints({"metadata": {"name": name}, "spec": spec}, comparisons=True) for name in "ab")
    assert hash(one) == hash(other)
    assert one == other
    assert one.requests == Resource(1000, 0, 1, 0)
    assert one.node_name == "n"
    assert [each.key for each in one.selector] == ["a", "b"]
    assert one.tolerations != read_constraints({"spec": spec}).tolerations


def test_a_pod_without_wishes_has_the_constraints_of_none() -> None:
    assert read_constraints({"spec": {"containers": [{"name": "c"}]}}) == Constraints()

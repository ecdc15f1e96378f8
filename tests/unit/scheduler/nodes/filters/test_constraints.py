"""Constraints of pods, including those that only kube-scheduler checks."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints, scheduler_only_constraints

HOST: dict[str, Any] = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}


CASES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
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


@pytest.mark.parametrize(("spec", "expected"), CASES)
def test_scheduler_only_constraints(spec: dict[str, Any], expected: tuple[str, ...]) -> None:
    assert scheduler_only_constraints({"spec": spec}) == expected
    assert read_constraints({"spec": spec}).scheduler_only == expected


def test_pods_from_one_template() -> None:
    spec: dict[str, Any] = {
        "nodeName": "n",
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"key": "a", "operator": "Gt", "value": "1"}],
        "nodeSelector": {"b": "1", "a": "2"},
    }
    first, second = (read_constraints({"metadata": {"name": name}, "spec": spec}, comparisons=True) for name in "ab")
    assert hash(first) == hash(second)
    assert first == second
    assert first.requests == Resource(1000, 0, 1, 0)
    assert first.node_name == "n"
    assert [requirement.key for requirement in first.selector] == ["a", "b"]
    assert first.tolerations != read_constraints({"spec": spec}).tolerations


def test_plain_pod_has_default_constraints() -> None:
    assert read_constraints({"spec": {"containers": [{"name": "c"}]}}) == Constraints()

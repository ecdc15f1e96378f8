"""Conditions of nodes that gangs avoid."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_common.k8s.taints import Taint, find_matching_untolerated_taint
from zonewise_scheduler.nodes.node.avoided_conditions import (
    KEY,
    SINGLE_POD,
    describe_condition,
    with_avoided_conditions,
    without_avoided_conditions,
)
from zonewise_scheduler.nodes.node.node_info import read_node_info

Json = dict[str, Any]
AVOIDED = Taint(KEY, "GPUHardwareFault XID79", "NoSchedule")


def node(**conditions: str) -> Json:
    entries = [{"type": name, "status": status, "reason": "XID79"} for name, status in conditions.items()]
    taint = {"key": "gpu", "effect": "NoSchedule"}
    return {"metadata": {"name": "node-7"}, "spec": {"taints": [taint]}, "status": {"conditions": entries}}


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_only_true_avoided_conditions_count(status: str) -> None:
    found = read_node_info(with_avoided_conditions(node(GPUHardwareFault=status, Other="True"), ["GPUHardwareFault"]))
    own = Taint("gpu", "", "NoSchedule")
    assert found.taints == ((own, AVOIDED) if status == "True" else (own,))
    assert without_avoided_conditions(found).taints == (own,)


def test_without_types_a_node_does_not_change() -> None:
    obj = node(GPUHardwareFault="True")
    assert with_avoided_conditions(obj, ()) is obj


def test_a_single_pod_tolerates_avoided_conditions() -> None:
    assert find_matching_untolerated_taint([AVOIDED], ()) == AVOIDED
    assert find_matching_untolerated_taint([AVOIDED], (SINGLE_POD,)) is None
    assert find_matching_untolerated_taint([Taint("gpu", "", "NoSchedule")], (SINGLE_POD,)) is not None


def test_the_reason_names_a_few_nodes() -> None:
    assert describe_condition(AVOIDED, ["node-7"]) == "node-7: GPUHardwareFault XID79"
    assert describe_condition(AVOIDED, list("abcde")) == "a, b, c and 2 more: GPUHardwareFault XID79"

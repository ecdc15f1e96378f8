"""Tolerations, by the rules of k8s.io/api/core/v1/toleration.go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.taints import (
    Taint,
    Toleration,
    find_matching_untolerated_taint,
    lasting_tolerations,
    read_tolerations,
)
from zonewise_scheduler.nodes.filters.constraints import read_constraints
from zonewise_scheduler.nodes.filters.filter_plugins import node_unschedulable, taint_toleration
from zonewise_scheduler.nodes.node.node_info import read_node_info


def passes(taint: dict[str, str], *tolerations: dict[str, str], comparisons: bool = False) -> bool:
    pod = read_constraints({"spec": {"tolerations": list(tolerations)}}, comparisons=comparisons)
    return taint_toleration(pod, read_node_info({"spec": {"taints": [taint]}})) is None


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "toleration", "expected"),
    [
        (GPU, {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        (GPU, {"key": "gpu", "value": "yes"}, True),
        (GPU, {"key": "gpu", "value": "no"}, False),
        (GPU, {"key": "gpu"}, False),
        (GPU, {"key": "gpu", "operator": "Exists"}, True),
        (GPU, {"operator": "Exists"}, True),
        (GPU, {"operator": "Exists", "effect": "NoExecute"}, False),
        (GPU, {"key": "cpu", "operator": "Exists"}, False),
        (GPU, {"key": "gpu", "operator": "Near", "value": "yes"}, False),
        (GPU, {"value": "yes"}, True),
        (GPU | {"effect": "NoExecute"}, {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, False),
        (GPU | {"effect": "PreferNoSchedule"}, {}, True),
    ],
)
def test_tolerations(taint: dict[str, str], toleration: dict[str, str], expected: bool) -> None:
    assert passes(taint, toleration) is expected


@pytest.mark.parametrize(
    ("operator", "value", "taint", "expected"),
    [
        ("Gt", "5", "6", True),
        ("Gt", "5", "5", False),
        ("Lt", "5", "4", True),
        ("Lt", "5", "5", False),
        ("Lt", "05", "4", False),
        ("Lt", "5", "+4", False),
        ("Lt", "5", "", False),
        ("Lt", "5", "-0", False),
        ("Gt", "0", str(1 << 63), False),
    ],
)
def test_comparisons_are_of_canonical_integers_and_behind_a_gate(
    operator: str, value: str, taint: str, expected: bool
) -> None:
    tainted, toleration = GPU | {"value": taint}, {"key": "gpu", "operator": operator, "value": value}
    assert passes(tainted, toleration, comparisons=True) is expected
    assert not passes(tainted, toleration)


def test_the_first_untolerated_taint_is_reported() -> None:
    some = tuple(Taint(key, "v", "NoExecute") for key in "abc")
    assert find_matching_untolerated_taint(some, (Toleration("a", "Exists"),)) == some[1]
    assert str(some[1]) == "b=v:NoExecute"
    assert str(Taint("b", "", "NoSchedule")) == "b:NoSchedule"


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_an_unschedulable_node_accepts_pods_that_tolerate_its_taint(toleration: dict[str, str], expected: bool) -> None:
    node = read_node_info({"spec": {"unschedulable": True}})
    assert (node_unschedulable(read_constraints({"spec": {"tolerations": [toleration]}}), node) is None) is expected
    assert node_unschedulable(read_constraints({"spec": {}}), node) is not None


def test_a_toleration_with_seconds_is_temporary() -> None:
    lasting = {"key": "gpu", "operator": "Exists"}
    temporary = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    tolerations = read_tolerations({"tolerations": [temporary, lasting]}, comparisons=False)
    assert [toleration.is_temporary for toleration in tolerations] == [True, False]
    assert lasting_tolerations(tolerations) == tolerations[1:]


@given(st.integers(), st.integers())
def test_exactly_one_comparison_holds(own: int, taint_number: int) -> None:
    """Exactly one of Gt, Lt and Equal holds for any two 64-bit integers."""
    taint = Taint("k", str(taint_number), "NoSchedule")
    toleration_text = [Toleration("k", operator, str(own)).tolerates_taint(taint) for operator in ("Gt", "Equal", "Lt")]
    inside = all(-(1 << 63) <= number < 1 << 63 for number in (own, taint_number))
    assert toleration_text == [inside and taint_number > own, own == taint_number, inside and taint_number < own]


def test_an_operator_that_is_no_string_is_an_error() -> None:
    broken: dict[str, Any] = {"spec": {"tolerations": [{"operator": 3}]}}
    with pytest.raises(ValueError, match=r"spec\.tolerations\.operator: not a string: 3"):
        read_constraints(broken)

"""Node selectors, by the rules of apimachinery's labels and component-helpers' nodeaffinity."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_common.k8s.labels import Requirement
from zonewise_scheduler.nodes.filters.constraints import Constraints, read_constraints
from zonewise_scheduler.nodes.filters.filter_plugins import node_affinity
from zonewise_scheduler.nodes.node.node_info import NodeInfo, read_node_info

LARGEST = (1 << 63) - 1


def node(name: str = "n", **labels: str) -> NodeInfo:
    return read_node_info(
        {"metadata": {"name": name, "labels": {key.replace("_", "-"): labels[key] for key in labels}}}
    )


def affinity(*terms: Any) -> Constraints:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return read_constraints({"spec": {"affinity": {"nodeAffinity": required}}})


def label(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


def selects(pod: Constraints, to: NodeInfo) -> bool:
    return node_affinity(pod, to) is None


@pytest.mark.parametrize(
    ("operator", "values", "value", "expected"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("In", ("",), "", True),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), "a", False),
        ("NotIn", ("a",), None, True),
        ("Exists", (), "", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), None, False),
        ("Gt", ("5",), "many", False),
        ("Gt", ("5",), "5.5", False),
        ("Gt", ("5",), "007", True),
        ("Gt", ("5",), "1_000", False),
        ("Gt", ("5",), "٧", False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("5",), None, False),
        ("Gt", (str(LARGEST - 1),), str(LARGEST), True),
        ("Gt", ("5",), str(LARGEST + 1), False),
    ],
)
def test_operators(operator: str, values: tuple[str, ...], value: str | None, expected: bool) -> None:
    assert Requirement("k", operator, values).matches(value) is expected
    labels = {} if value is None else {"k": value}
    assert selects(affinity(label("k", operator, *values)), node(**labels)) is expected


@pytest.mark.parametrize(
    "term",
    [
        pytest.param({}, id="empty"),
        pytest.param(label("k", "Near", "a"), id="unknown operator"),
        pytest.param(label("k", "In"), id="In without values"),
        pytest.param(label("k", "Exists", "a"), id="Exists with a value"),
        pytest.param(label("k", "Gt", "1", "2"), id="Gt with two"),
        pytest.param(label("k", "Gt", "x"), id="Gt without a number"),
        pytest.param(label("k", "NotIn", "no value!"), id="no label value"),
        pytest.param(label("k", "NotIn", "v" * 64), id="too long a value"),
        pytest.param(label("-k", "DoesNotExist"), id="no label key"),
        pytest.param(label("a_b/k", "DoesNotExist"), id="no prefix"),
        pytest.param(label("/k", "DoesNotExist"), id="empty prefix"),
        pytest.param(field("NotIn", "a", "b"), id="field with two values"),
        pytest.param(field("Exists"), id="field with another operator"),
    ],
)
def test_a_malformed_term_matches_no_node_and_leaves_the_others(term: dict[str, Any]) -> None:
    assert not selects(affinity(term), node(k="a"))
    assert selects(affinity(term, label("k", "In", "a")), node(k="a"))


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (field("In", "n"), True),
        (field("In", "m"), False),
        (field("NotIn", "n"), False),
        (field("NotIn", "m"), True),
        (field("In", "n", key="metadata.uid"), False),
        (field("NotIn", "n", key="metadata.uid"), True),
        (field("In", "n") | label("k", "In", "a"), True),
        (field("In", "n") | label("k", "In", "b"), False),
        (field("In", "m") | label("k", "In", "a"), False),
    ],
)
def test_fields(term: dict[str, Any], expected: bool) -> None:
    assert selects(affinity(term), node("n", k="a")) is expected


def test_terms_are_alternatives_and_the_selector_counts_too() -> None:
    pod = affinity(label("k", "In", "a"), label("k", "In", "b"))
    assert selects(pod, node(k="b"))
    assert not selects(pod, node(k="c"))
    assert not selects(affinity(), node(k="a")), "no term matches no node"
    both = pod._replace(selector=(Requirement("disk", "In", ("ssd",)),))
    assert selects(both, node(k="a", disk="ssd"))
    assert not selects(both, node(k="a"))


@given(st.integers(), st.integers(), st.sampled_from(["Gt", "Lt"]))
def test_numbers_compare_as_numbers(bound: int, value: int, operator: str) -> None:
    """Gt and Lt compare integers if both values are 64-bit integers."""
    fits = all(-LARGEST - 1 <= number <= LARGEST for number in (bound, value))
    expected = fits and (value > bound if operator == "Gt" else value < bound)
    assert Requirement("k", operator, (str(bound),)).matches(str(value)) is expected


@given(st.sampled_from(["a", "b", "", None]), st.lists(st.sampled_from(["a", "b", ""]), min_size=1))
def test_not_in_is_the_opposite_of_in(value: str | None, values: list[str]) -> None:
    in_values, not_in_values = (Requirement("k", operator, tuple(values)) for operator in ("In", "NotIn"))
    assert in_values.matches(value) is not not_in_values.matches(value)


def test_a_label_equal_to_the_name_is_separate() -> None:
    one, other = (
        read_node_info({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": "z"}}})
        for name in ("n1", "n2")
    )
    assert one.labels == other.labels
    assert one.labels.values is other.labels.values
    assert (one.label("kubernetes.io/hostname"), other.label("kubernetes.io/hostname")) == ("n1", "n2")
    assert (one.label("zone"), one.label("rack")) == ("z", None)


def test_an_error_names_the_field() -> None:
    with pytest.raises(FieldError, match=r"spec\.nodeSelector\.k: not a string: 3"):
        read_constraints({"spec": {"nodeSelector": {"k": 3}}})

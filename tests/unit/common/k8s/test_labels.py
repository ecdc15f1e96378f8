"""Label selectors in both notations, tested by the meaning of their operators."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.labels import (
    Requirement,
    SelectorError,
    is_label_value,
    is_qualified_name,
    is_subdomain,
    parse_selector,
    read_label_selector,
    selects,
)

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "x", "y", "z-1", "a.b_c"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("a=x", (Requirement("a", "In", ("x",)),)),
        ("a==x, b != y", (Requirement("a", "In", ("x",)), Requirement("b", "NotIn", ("y",)))),
        ("a in (x,y)", (Requirement("a", "In", ("x", "y")),)),
        ("a notin (x, )", (Requirement("a", "NotIn", ("x", "")),)),
        ("a,!b", (Requirement("a", "Exists"), Requirement("b", "DoesNotExist"))),
        ("a>5,a<7", (Requirement("a", "Gt", ("5",)), Requirement("a", "Lt", ("7",)))),
        ("example.com/a=", (Requirement("example.com/a", "In", ("",)),)),
    ],
)
def test_text(text: str, expected: tuple[Requirement, ...]) -> None:
    assert parse_selector(text) == expected


@pytest.mark.parametrize("text", ["=x", "a in x", "a in (x", "a,", "a b", "a~b", "!"])
def test_invalid_text(text: str) -> None:
    with pytest.raises(SelectorError, match="unable to parse requirement"):
        parse_selector(text)


@given(st.dictionaries(KEYS, VALUES), st.lists(st.tuples(KEYS, VALUES), max_size=3))
def test_all_requirements_must_match(labels: dict[str, str], pairs: list[tuple[str, str]]) -> None:
    selector = parse_selector(",".join(f"{key}={value}" for key, value in pairs))
    assert selects(selector, labels) == all(labels.get(key) == value for key, value in pairs)


def read(selector: dict[str, Any]) -> tuple[tuple[Requirement, ...] | None, list[str]]:
    problems: list[str] = []
    return read_label_selector(FieldReader(selector, "spec.selector.", problems)), problems


def test_label_selector() -> None:
    """The labels come first, sorted by key; the expressions keep their order."""
    expression = {"key": "c", "operator": "NotIn", "values": ["z"]}
    requirements, problems = read({"matchLabels": {"b": "y", "a": "x"}, "matchExpressions": [expression]})
    equal = (Requirement("a", "In", ("x",)), Requirement("b", "In", ("y",)))
    assert requirements == (*equal, Requirement("c", "NotIn", ("z",)))
    assert problems == []
    assert read({}) == ((), [])


@pytest.mark.parametrize(
    ("expressions", "problem"),
    [
        ([{"key": "a", "operator": "Near"}], "spec.selector.matchExpressions: not valid"),
        ([{"key": "a", "operator": "In"}], "spec.selector.matchExpressions: not valid"),
        ([{"key": "-", "operator": "Exists"}], "spec.selector.matchExpressions: not valid"),
        ("a", "spec.selector.matchExpressions: not a list: 'a'"),
        ([1], "spec.selector.matchExpressions[0]: not an object: 1"),
    ],
)
def test_an_invalid_label_selector_is_none(expressions: object, problem: str) -> None:
    requirements, problems = read({"matchLabels": {"a": "x"}, "matchExpressions": expressions})
    assert requirements is None
    assert len(problems) == 1
    assert problem in problems[0]


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("a", True),
        ("A.b_c-d", True),
        ("example.com/a", True),
        ("a" * 63, True),
        (f"{'a' * 253}/a", True),
        ("", False),
        ("/a", False),
        ("example.com/", False),
        ("-a", False),
        ("a_b/a", False),
        ("a" * 64, False),
        (f"{'a' * 254}/a", False),
    ],
)
def test_qualified_names(key: str, valid: bool) -> None:
    assert is_qualified_name(key) is valid


@pytest.mark.parametrize(
    ("value", "valid"), [("", True), ("v" * 63, True), ("v" * 64, False), ("a b", False), ("٧", False)]
)
def test_label_values(value: str, valid: bool) -> None:
    assert is_label_value(value) is valid


@pytest.mark.parametrize(
    ("name", "valid"), [("a.b-c", True), ("A", False), ("", False), ("a..b", False), ("a-", False)]
)
def test_subdomains(name: str, valid: bool) -> None:
    assert is_subdomain(name) is valid

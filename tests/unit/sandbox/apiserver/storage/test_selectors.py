"""Selectors, compared with their meaning for all labels."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.apiserver.kinds import POD
from zonewise_sandbox.apiserver.status_errors import StatusError
from zonewise_sandbox.apiserver.storage.selectors import matches_fields, matches_labels, parse_fields, parse_labels

_KEYS = st.sampled_from(["a", "b", "example.com/c"])
_VALUES = st.sampled_from(["", "x", "y", "z-1", "a.b_c"])
LABELS = st.dictionaries(_KEYS, _VALUES)


def fits(selector: str, labels: dict[str, str]) -> bool:
    return matches_labels(parse_labels(selector), {"metadata": {"labels": labels}})


@given(LABELS, _KEYS, _VALUES)
def test_equality(labels: dict[str, str], key: str, value: str) -> None:
    assert fits(f"{key}={value}", labels) == (labels.get(key) == value)
    assert fits(f"{key} == {value}", labels) == (labels.get(key) == value)
    assert fits(f"{key}!={value}", labels) == (labels.get(key) != value)


@given(LABELS, _KEYS, st.lists(_VALUES, min_size=1))
def test_sets(labels: dict[str, str], key: str, values: list[str]) -> None:
    listed = ", ".join(values)
    assert fits(f"{key} in ({listed})", labels) == (labels.get(key) in values)
    assert fits(f"{key} notin ({listed})", labels) == (labels.get(key) not in values)


@given(LABELS, _KEYS)
def test_existence(labels: dict[str, str], key: str) -> None:
    assert fits(key, labels) == (key in labels)
    assert fits(f"!{key}", labels) == (key not in labels)


@given(LABELS, st.lists(st.tuples(_KEYS, st.sampled_from(["=", "!="]), _VALUES), max_size=4))
def test_all_requirements_must_hold(labels: dict[str, str], terms: list[tuple[str, str, str]]) -> None:
    parts = ["".join(term) for term in terms]
    assert fits(",".join(parts), labels) == all(fits(part, labels) for part in parts)


@given(st.text(alphabet="ab=!,() in<>~", max_size=12), LABELS)
def test_a_selector_is_parsed_or_rejected(text: str, labels: dict[str, str]) -> None:
    """No text raises any other error."""
    with contextlib.suppress(StatusError):
        fits(text, labels)


@pytest.mark.parametrize(("value", "greater"), [("5", False), ("6", True), ("10", True), ("x", False)])
def test_comparisons_are_of_integers(value: str, greater: bool) -> None:
    assert fits("a>5", {"a": value}) == greater


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("spec.nodeName=n1", True),
        ("spec.nodeName==n1,status.phase!=Running", False),
        ("metadata.namespace=", True),
        ("metadata.name!=one", False),
        ("", True),
    ],
)
def test_fields(selector: str, expected: bool) -> None:
    pod = {"metadata": {"name": "one"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
    assert matches_fields(parse_fields(selector, POD), pod) == expected

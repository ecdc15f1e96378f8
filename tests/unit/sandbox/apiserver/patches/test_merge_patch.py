"""Merge patches: the examples of RFC 7386, and laws for all values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from support.json_strategies import OBJECTS, VALUES
from zonewise_sandbox.apiserver.json_values import is_object
from zonewise_sandbox.apiserver.patches.json_patch import equal
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch


def without_nulls(value: Any) -> Any:
    """Return the value without nulls in objects, which no merge patch can express."""
    if is_object(value):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return value


def merge_difference(old: Any, new: Any) -> Any:
    """Return a merge patch that converts the old value to the new one."""
    if not is_object(old) or not is_object(new):
        return new
    removed: dict[str, Any] = {name: None for name in old if name not in new}
    changed = {
        name: merge_difference(old.get(name), part)
        for name, part in new.items()
        if name not in old or not equal(old[name], part)
    }
    return removed | changed


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_rfc_7386(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@given(VALUES, VALUES)
def test_a_merge_patch_changes_neither_side(target: Any, patch: Any) -> None:
    before = copy.deepcopy((target, patch))
    merge_patch(target, patch)
    assert (target, patch) == before


@given(VALUES, VALUES)
def test_a_merge_patch_twice_is_once(target: Any, patch: Any) -> None:
    once = merge_patch(target, patch)
    assert equal(merge_patch(once, patch), once)


@given(VALUES, VALUES)
def test_the_difference_as_a_merge_patch_converts_one_value_to_the_other(old: Any, new: Any) -> None:
    old, new = without_nulls(old), without_nulls(new)
    assert equal(merge_patch(old, merge_difference(old, new)), new)


@given(OBJECTS)
def test_the_empty_merge_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert equal(merge_patch(target, {}), target)

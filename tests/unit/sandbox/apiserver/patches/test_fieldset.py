"""Sets of fields: the laws by which owners are computed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.apiserver.json_values import is_list, is_object
from zonewise_sandbox.apiserver.patches.fieldset import (
    ShapeError,
    compare,
    from_tree,
    merge,
    merged_order,
    path_text,
    remove_fields,
    to_field_set,
    to_tree,
    with_declared,
)
from zonewise_sandbox.apiserver.patches.json_patch import equal
from zonewise_sandbox.apiserver.patches.shapes import BuiltInShape, SchemaShape

STRING = {"type": "string"}
ITEM = {"type": "object", "properties": {"k": STRING, "v": STRING}}
SHAPE = SchemaShape(
    {
        "properties": {
            "word": STRING,
            "keyed": {"items": ITEM, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            "set": {"items": STRING, "x-kubernetes-list-type": "set"},
            "atomic": {"items": ITEM},
            "map": {"additionalProperties": STRING},
            "whole": {"properties": {"a": STRING}, "x-kubernetes-map-type": "atomic"},
            "deep": {"properties": {"a": STRING, "b": {"additionalProperties": STRING}}},
        }
    }
)
_WORDS = st.sampled_from(["x", "y", "z"])
_ITEMS: st.SearchStrategy[dict[str, str]] = st.fixed_dictionaries({"k": st.sampled_from("abc")}, optional={"v": _WORDS})
_KEYED = st.lists(_ITEMS, max_size=3, unique_by=lambda one: one["k"])
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "word": _WORDS,
        "keyed": _KEYED,
        "set": st.lists(st.sampled_from("abc"), unique=True),
        "atomic": _KEYED,
        "map": st.dictionaries(st.sampled_from("abc"), _WORDS),
        "whole": st.dictionaries(st.just("a"), _WORDS),
        "deep": st.fixed_dictionaries({}, optional={"a": _WORDS, "b": st.dictionaries(st.just("c"), _WORDS)}),
    },
)


def sorted_lists(value: Any) -> Any:
    """Return the value with its lists sorted, for comparisons that ignore their order."""
    if is_object(value):
        return {name: sorted_lists(part) for name, part in value.items()}
    return sorted((sorted_lists(item) for item in value), key=str) if is_list(value) else value


def without_empty(value: Any) -> Any:
    if is_object(value):
        parts = {name: without_empty(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in ({}, [])}
    return [without_empty(item) for item in value] if is_list(value) else value


@given(OBJECTS)
def test_a_set_is_read_back_as_written(obj: dict[str, Any]) -> None:
    fields = to_field_set(obj, SHAPE)
    assert from_tree(to_tree(fields)) == fields


@given(OBJECTS)
def test_nothing_differs_from_itself(obj: dict[str, Any]) -> None:
    assert not any(compare(obj, dict(obj), SHAPE))


@given(OBJECTS, OBJECTS)
def test_differences_are_symmetric(old: dict[str, Any], new: dict[str, Any]) -> None:
    present, back = compare(old, new, SHAPE), compare(new, old, SHAPE)
    assert (present.added, present.modified, present.removed) == (back.removed, back.modified, back.added)
    assert any(present) == (not equal(old, new)) or sorted_lists(old) == sorted_lists(new)


@given(OBJECTS, OBJECTS)
def test_applied_fields_are_present(live: dict[str, Any], applied: dict[str, Any]) -> None:
    merged = merge(live, applied, SHAPE)
    assert to_field_set(applied, SHAPE) <= to_field_set(merged, SHAPE) | with_declared(
        to_field_set(merged, SHAPE), SHAPE
    )
    changes = compare(applied, merged, SHAPE)
    assert not changes.removed
    assert not changes.modified


@given(OBJECTS, OBJECTS)
def test_a_merge_removes_nothing(live: dict[str, Any], applied: dict[str, Any]) -> None:
    assert not compare(live, merge(live, applied, SHAPE), SHAPE).removed


@given(OBJECTS, OBJECTS)
def test_a_merge_twice_is_once(live: dict[str, Any], applied: dict[str, Any]) -> None:
    once = merge(live, applied, SHAPE)
    assert equal(sorted_lists(merge(once, applied, SHAPE)), sorted_lists(once))


@given(OBJECTS)
def test_all_fields_of_an_object_are_all_of_it(obj: dict[str, Any]) -> None:
    assert without_empty(remove_fields(obj, with_declared(to_field_set(obj, SHAPE), SHAPE), SHAPE)) == {}


@given(OBJECTS, OBJECTS)
def test_removing_removes_no_other_field(obj: dict[str, Any], other: dict[str, Any]) -> None:
    removed = to_field_set(other, SHAPE)
    left = remove_fields(obj, removed, SHAPE)
    remaining = {path for path in to_field_set(obj, SHAPE) if not any(path[: len(one)] == one for one in removed)}
    assert remaining <= to_field_set(left, SHAPE) | with_declared(to_field_set(left, SHAPE), SHAPE)
    assert not (to_field_set(left, SHAPE) & removed)


_ORDERS = st.lists(st.sampled_from("abcdef"), unique=True)


@given(_ORDERS, _ORDERS)
def test_the_order_of_a_merged_list(before: list[str], after: list[str]) -> None:
    """Each item occurs once; applied items are in the applied order, and the others keep theirs."""
    order = merged_order(before, after)
    assert sorted(order) == sorted({*before, *after})
    assert [key for key in order if key in after] == after
    assert [key for key in order if key not in after] == [key for key in before if key not in after]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("f:spec", "f:size"), ".spec.size"),
        (("f:l", 'k:{"a":"x","b":1}', "f:v"), '.l[a="x",b=1].v'),
        (("f:set", 'v:"x"'), '.set[="x"]'),
    ],
)
def test_paths_in_messages_of_conflicts(path: tuple[str, ...], expected: str) -> None:
    assert path_text(path) == expected


@pytest.mark.parametrize("items", [[{"k": "a"}, {"k": "a"}], [{"v": "x"}]])
def test_items_with_equal_keys(items: list[Any]) -> None:
    with pytest.raises(ShapeError):
        to_field_set({"keyed": items}, SHAPE)


def test_a_port_without_a_protocol_is_of_tcp() -> None:
    """The default of a list key counts (listMapKey protocol)."""
    pod = {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}]}]}}
    found = to_field_set(pod, BuiltInShape("Pod"))
    assert any('k:{"containerPort":80,"protocol":"TCP"}' in path for path in found)

"""Patches as functions: the examples of the RFCs, and the laws that hold for all values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.apiserver.json_patch import MAX_OPERATIONS, JsonPatchError, equal, json_patch
from zonewise_sandbox.apiserver.json_values import is_object
from zonewise_sandbox.apiserver.merge_patch import merge_patch
from zonewise_sandbox.apiserver.strategic_merge_patch import StrategicPatchError, strategic_merge_patch

_KEYS = st.sampled_from(["a", "b", "c", "a/b", "m~n", ""])
_LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "y"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3), max_leaves=8
)
OBJECTS = st.dictionaries(_KEYS, VALUES, max_size=3)


def without_nulls(value: Any) -> Any:
    """The value without the nulls in objects, which no merge patch can say."""
    if is_object(value):
        return {name: without_nulls(part) for name, part in value.items() if part is not None}
    return value


def merge_difference(old: Any, new: Any) -> Any:
    """A merge patch that makes the new value of the old one."""
    if not is_object(old) or not is_object(new):
        return new
    gone: dict[str, Any] = {name: None for name in old if name not in new}
    changed = {
        name: merge_difference(old.get(name), part)
        for name, part in new.items()
        if name not in old or not equal(old[name], part)
    }
    return gone | changed


def json_difference(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """A JSON patch that makes the new object of the old one."""

    def at(name: str) -> str:
        return "/" + name.replace("~", "~0").replace("/", "~1")

    gone = [{"op": "remove", "path": at(name)} for name in old if name not in new]
    return [*gone, *({"op": "add", "path": at(name), "value": part} for name, part in new.items())]


# --- merge patch


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
def test_the_difference_as_a_merge_patch_makes_the_one_of_the_other(old: Any, new: Any) -> None:
    old, new = without_nulls(old), without_nulls(new)
    assert equal(merge_patch(old, merge_difference(old, new)), new)


@given(OBJECTS)
def test_the_empty_merge_patch_changes_nothing(target: dict[str, Any]) -> None:
    assert equal(merge_patch(target, {}), target)


# --- JSON patch


OF_RFC_6902: list[tuple[Any, list[Any], Any]] = [
    ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"baz": "qux", "foo": "bar"}),
    (
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    ({"foo": ["bar", "qux", "baz"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["bar", "baz"]}),
    (
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    (
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    ({"foo": "bar"}, [{"op": "add", "path": "/child", "value": {"g": {}}}], {"foo": "bar", "child": {"g": {}}}),
    ({"/": 9, "~1": 10}, [{"op": "test", "path": "/~01", "value": 10}], {"/": 9, "~1": 10}),
    ({"foo": ["bar"]}, [{"op": "add", "path": "/foo/-", "value": ["abc"]}], {"foo": ["bar", ["abc"]]}),
    ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 2}}], {"b": 2}),
    ({"a": 1}, [{"op": "test", "path": "", "value": {"a": 1}}], {"a": 1}),
    ({"": 1}, [{"op": "replace", "path": "/", "value": 2}], {"": 2}),
]


@pytest.mark.parametrize(("target", "operations", "result"), OF_RFC_6902)
def test_the_examples_of_rfc_6902(target: Any, operations: list[Any], result: Any) -> None:
    assert json_patch(target, operations) == result


@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "test", "path": "/a", "value": "1"}],
        [{"op": "test", "path": "/a", "value": True}],
        [{"op": "add", "path": "/list/4", "value": 1}],
        [{"op": "add", "path": "/list/01", "value": 1}],
        [{"op": "add", "path": "/list/x", "value": 1}],
        [{"op": "replace", "path": "/list/3", "value": 1}],
        [{"op": "remove", "path": "/list/-"}],
        [{"op": "remove", "path": ""}],
        [{"op": "add", "path": "/a/b", "value": 1}],
        [{"op": "add", "path": "a", "value": 1}],
        [{"op": "add", "path": "/b"}],
        [{"op": "move", "path": "/b"}],
        [{"op": "move", "from": "/list", "path": "/list/0"}],
        [{"op": "move", "from": "/none", "path": "/b"}],
        [{"path": "/a"}],
        ["nonsense"],
        [{"op": "add", "path": 1, "value": 1}],
    ],
)
def test_operations_that_cannot_be_applied(operations: list[Any]) -> None:
    target = {"a": 1, "list": [1, 2, 3]}
    with pytest.raises(JsonPatchError):
        json_patch(target, operations)
    assert target == {"a": 1, "list": [1, 2, 3]}


def test_too_many_operations_are_refused() -> None:
    with pytest.raises(JsonPatchError, match="too many"):
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * (MAX_OPERATIONS + 1))


@given(OBJECTS, OBJECTS)
def test_the_difference_as_a_json_patch_makes_the_one_of_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    assert equal(json_patch(old, json_difference(old, new)), new)
    assert equal(old, before)


@given(OBJECTS, VALUES)
def test_what_is_added_can_be_tested_and_removed(target: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/new", "value": value},
        {"op": "test", "path": "/new", "value": value},
        {"op": "remove", "path": "/new"},
    ]
    assert equal(json_patch(target, operations), target)


@given(OBJECTS, VALUES)
def test_a_copy_is_a_value_of_its_own(target: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/from", "value": {"inner": value}},
        {"op": "copy", "from": "/from", "path": "/to"},
        {"op": "add", "path": "/to/more", "value": 1},
    ]
    made = json_patch(target, operations)
    assert equal(made["from"], {"inner": value})


@given(VALUES, VALUES)
def test_equality_is_that_of_json(left: Any, right: Any) -> None:
    """Numbers are numbers, but true is not 1."""
    assert equal(left, left)
    assert equal(left, right) == equal(right, left)
    assert not equal(True, 1)
    assert equal(1, 1.0)


# --- strategic merge patch


def containers(*names: str) -> dict[str, Any]:
    return {"containers": [{"name": name, "image": name} for name in names]}


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        ({"containers": [{"name": "b", "image": "x"}]}, {"a": "a", "b": "x"}),
        ({"containers": [{"name": "c", "image": "c"}]}, {"a": "a", "b": "b", "c": "c"}),
        ({"containers": [{"name": "a", "$patch": "delete"}]}, {"b": "b"}),
        ({"containers": [{"$patch": "replace"}, {"name": "c", "image": "c"}]}, {"c": "c"}),
        ({"containers": None}, {}),
        ({"$patch": "replace", **containers("z")}, {"z": "z"}),
        ({"$patch": "delete"}, {}),
        ({"$retainKeys": ["other"], "other": 1}, {}),
        (
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a", "image": "x"}],
            },
            {"b": "b", "a": "x"},
        ),
    ],
)
def test_items_with_keys(patch: dict[str, Any], expected: dict[str, str]) -> None:
    made = strategic_merge_patch("Pod", containers("a", "b"), patch)
    assert {item["name"]: item["image"] for item in made.get("containers", ())} == expected
    assert [item["name"] for item in made.get("containers", ())] == list(expected)


def test_service_ports_have_another_key_than_containers() -> None:
    service = strategic_merge_patch("Service", {"ports": [{"port": 80}]}, {"ports": [{"port": 80, "name": "http"}]})
    assert service == {"ports": [{"port": 80, "name": "http"}]}
    container = {"ports": [{"containerPort": 80}]}
    assert strategic_merge_patch("Pod", container, {"ports": [{"containerPort": 81}]}) == {
        "ports": [{"containerPort": 80}, {"containerPort": 81}]
    }


@pytest.mark.parametrize("patch", [{"$patch": "nonsense"}, {"containers": [{"image": "x"}]}, {"containers": ["x"]}])
def test_patches_that_make_no_sense(patch: dict[str, Any]) -> None:
    with pytest.raises(StrategicPatchError):
        strategic_merge_patch("Pod", containers("a"), patch)


@given(OBJECTS, OBJECTS)
def test_without_lists_with_keys_it_is_a_merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """But that nothing turns into an object, or out of one, other than by the patch itself."""
    assert equal(strategic_merge_patch("Pod", target, patch), merge_patch(target, patch))


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_items_are_joined_and_none_is_lost(before: list[str], patch: list[str]) -> None:
    made = strategic_merge_patch("Pod", containers(*before), containers(*patch))
    assert [item["name"] for item in made["containers"]] == before + [name for name in patch if name not in before]

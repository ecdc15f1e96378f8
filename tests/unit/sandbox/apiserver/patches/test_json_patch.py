"""JSON patches: the examples of RFC 6902, and laws for all values."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from support.json_strategies import OBJECTS, VALUES
from zonewise_sandbox.apiserver.patches.json_patch import MAX_OPERATIONS, JsonPatchError, equal, json_patch


def json_difference(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a JSON patch that converts the old object to the new one."""

    def at(name: str) -> str:
        return "/" + name.replace("~", "~0").replace("/", "~1")

    removed = [{"op": "remove", "path": at(name)} for name in old if name not in new]
    return [*removed, *({"op": "add", "path": at(name), "value": part} for name, part in new.items())]


EXAMPLES: list[tuple[Any, list[Any], Any]] = [
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


@pytest.mark.parametrize(("target", "operations", "result"), EXAMPLES)
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


def test_too_many_operations_are_rejected() -> None:
    with pytest.raises(JsonPatchError, match="too many"):
        json_patch({}, [{"op": "test", "path": "", "value": {}}] * (MAX_OPERATIONS + 1))


@given(OBJECTS, OBJECTS)
def test_the_difference_as_a_json_patch_converts_one_object_to_the_other(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    before = copy.deepcopy(old)
    assert equal(json_patch(old, json_difference(old, new)), new)
    assert equal(old, before)


@given(OBJECTS, VALUES)
def test_an_added_value_can_be_tested_and_removed(target: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/new", "value": value},
        {"op": "test", "path": "/new", "value": value},
        {"op": "remove", "path": "/new"},
    ]
    assert equal(json_patch(target, operations), target)


@given(OBJECTS, VALUES)
def test_a_copy_is_independent(target: dict[str, Any], value: Any) -> None:
    operations = [
        {"op": "add", "path": "/from", "value": {"inner": value}},
        {"op": "copy", "from": "/from", "path": "/to"},
        {"op": "add", "path": "/to/more", "value": 1},
    ]
    result = json_patch(target, operations)
    assert equal(result["from"], {"inner": value})


@given(VALUES, VALUES)
def test_equality_is_that_of_json(left: Any, right: Any) -> None:
    """Numbers of different types may be equal, but true does not equal 1."""
    assert equal(left, left)
    assert equal(left, right) == equal(right, left)
    assert not equal(True, 1)
    assert equal(1, 1.0)

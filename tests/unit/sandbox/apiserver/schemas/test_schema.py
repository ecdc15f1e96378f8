"""Structural schemas: pruning, defaults and validation as functions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_sandbox.apiserver.schemas.schema import prune, set_defaults, validate

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 5, "multipleOf": 1, "default": 3},
        "word": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[a-z]*$"},
        "list": {
            "type": "array",
            "minItems": 1,
            "items": {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}},
        },
        "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "boolean"}},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "object"}},
        },
        "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "one": {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 7}]},
        "no": {"type": "integer", "not": {"minimum": 5}},
        "all": {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 7}]},
        "nothing": {"type": "string", "nullable": True},
    },
}
_LEAVES = st.none() | st.booleans() | st.integers(-1, 9) | st.floats(0, 2) | st.sampled_from(["", "a", "abcd", "A"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner), max_leaves=4
)
OBJECTS = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "unheard"]), VALUES, max_size=4)


def broken(obj: dict[str, Any]) -> set[str]:
    return {cause.field for cause in validate(obj, SCHEMA)}


FAULTS: list[tuple[dict[str, Any], set[str]]] = [
    ({"n": 6}, {"n"}),
    ({"n": "1"}, {"n"}),
    ({"n": 1.5}, {"n"}),
    ({"n": 2.0}, set()),
    ({"n": True}, {"n"}),
    ({"word": ""}, {"word"}),
    ({"word": "abcd"}, {"word"}),
    ({"word": "a\n"}, {"word"}),
    ({"list": []}, {"list"}),
    ({"list": [{"a": 1}, 2]}, {"list[0].a", "list[1]"}),
    ({"map": {"a": 1}}, {"map.a"}),
    ({"map": {"a": True, "b": True, "c": True}}, {"map"}),
    ({"either": 1.5}, {"either"}),
    ({"either": "x"}, set()),
    ({"one": 6}, {"one"}),
    ({"one": 8}, set()),
    ({"no": 6}, {"no"}),
    ({"no": 4}, set()),
    ({"all": 4}, {"all"}),
    ({"all": 6}, set()),
    ({"nothing": None}, set()),
    ({"word": None}, {"word"}),
]


@pytest.mark.parametrize(("obj", "fields"), FAULTS)
def test_errors_name_the_field(obj: dict[str, Any], fields: set[str]) -> None:
    assert broken(obj) == fields


def test_unknown_fields_are_pruned_and_named() -> None:
    unknown: list[str] = []
    obj = {"n": 1, "x": 1, "list": [{"a": "b", "y": 1}], "free": {"z": {"deep": 1}, "a": {"w": 1}}, "map": {"k": True}}
    assert prune(obj, SCHEMA, unknown) == {
        "n": 1,
        "list": [{"a": "b"}],
        "free": {"z": {"deep": 1}, "a": {}},
        "map": {"k": True},
    }
    assert unknown == ["x", "list[0].y", "free.a.w"]


def test_the_schema_does_not_apply_to_metadata() -> None:
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}}
    assert prune(obj, SCHEMA, []) == obj


def test_defaults_reach_into_lists() -> None:
    assert set_defaults({"list": [{}]}, SCHEMA) == {"n": 3, "list": [{"a": "x"}]}


@given(OBJECTS)
def test_what_is_pruned_has_nothing_left_to_prune(obj: dict[str, Any]) -> None:
    once = prune(obj, SCHEMA, [])
    unknown: list[str] = []
    assert prune(once, SCHEMA, unknown) == once
    assert unknown == []


@given(OBJECTS)
def test_defaults_twice_are_defaults_once(obj: dict[str, Any]) -> None:
    once = set_defaults(obj, SCHEMA)
    assert set_defaults(once, SCHEMA) == once


@given(OBJECTS)
def test_pruning_neither_fixes_nor_causes_errors(obj: dict[str, Any]) -> None:
    assert broken(prune(obj, SCHEMA, [])) == broken(obj)

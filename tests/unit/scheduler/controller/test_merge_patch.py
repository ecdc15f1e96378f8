"""Merge patches between two objects, applied by the in-memory API server."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given

from support.json_edits import without_absent_fields
from support.json_strategies import OBJECTS
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch as apply_merge_patch
from zonewise_scheduler.controller.merge_patch import combine_patches, merge_patch

Json = dict[str, Any]


@given(OBJECTS, OBJECTS)
def test_a_patch_transforms_one_object_into_the_other(before: Json, after: Json) -> None:
    patched = apply_merge_patch(copy.deepcopy(before), merge_patch(before, after))
    assert without_absent_fields(patched) == without_absent_fields(after)


@given(OBJECTS)
def test_equal_objects_need_no_patch(obj: Json) -> None:
    assert merge_patch(obj, copy.deepcopy(obj)) == {}


def test_a_patch_contains_only_fields_that_change() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": [1, 2], "e": "", "f": 1}
    after = {"a": {"b": 1, "c": 3}, "d": [2], "e": "", "g": {}}
    assert merge_patch(before, after) == {"a": {"c": 3}, "d": [2], "f": None}


@given(OBJECTS, OBJECTS, OBJECTS)
def test_combined_patches_equal_their_successive_application(obj: Json, first: Json, second: Json) -> None:
    patches: list[Json] = [{"p": first, "q": first}, {"p": {f"{name}'": value for name, value in second.items()}}, {}]
    one_by_one = {"p": copy.deepcopy(obj)}
    for patch in patches:
        one_by_one = apply_merge_patch(one_by_one, copy.deepcopy(patch))
    assert apply_merge_patch({"p": copy.deepcopy(obj)}, combine_patches(*patches)) == one_by_one

"""Strategic merge patches: lists with keys, directives, and equality with merge patches otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_strategies import OBJECTS
from zonewise_sandbox.apiserver.patches.json_patch import equal
from zonewise_sandbox.apiserver.patches.merge_patch import merge_patch
from zonewise_sandbox.apiserver.patches.strategic_merge_patch import StrategicPatchError, strategic_merge_patch


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
    result = strategic_merge_patch("Pod", containers("a", "b"), patch)
    assert {item["name"]: item["image"] for item in result.get("containers", ())} == expected
    assert [item["name"] for item in result.get("containers", ())] == list(expected)


def test_service_ports_have_another_key_than_containers() -> None:
    service = strategic_merge_patch("Service", {"ports": [{"port": 80}]}, {"ports": [{"port": 80, "name": "http"}]})
    assert service == {"ports": [{"port": 80, "name": "http"}]}
    container = {"ports": [{"containerPort": 80}]}
    assert strategic_merge_patch("Pod", container, {"ports": [{"containerPort": 81}]}) == {
        "ports": [{"containerPort": 80}, {"containerPort": 81}]
    }


@pytest.mark.parametrize("patch", [{"$patch": "nonsense"}, {"containers": [{"image": "x"}]}, {"containers": ["x"]}])
def test_invalid_patches(patch: dict[str, Any]) -> None:
    with pytest.raises(StrategicPatchError):
        strategic_merge_patch("Pod", containers("a"), patch)


@given(OBJECTS, OBJECTS)
def test_without_lists_with_keys_it_is_a_merge_patch(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """JSON objects without keyed lists merge exactly as in RFC 7386."""
    assert equal(strategic_merge_patch("Pod", target, patch), merge_patch(target, patch))


@given(st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcdef"), unique=True))
def test_items_are_joined_and_none_is_lost(before: list[str], patch: list[str]) -> None:
    result = strategic_merge_patch("Pod", containers(*before), containers(*patch))
    assert [item["name"] for item in result["containers"]] == before + [name for name in patch if name not in before]

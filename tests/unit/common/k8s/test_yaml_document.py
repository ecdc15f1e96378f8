"""YAML documents: a value, or one type of error."""

from __future__ import annotations

import contextlib
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s import yaml_document
from zonewise_common.k8s.yaml_document import check_aliases, load_documents, load_first_document, load_yaml

LOADERS = (load_yaml, load_first_document, load_documents)


def test_values() -> None:
    assert load_yaml(b'{"a": [1, true, null]}') == load_yaml("a:\n  - 1\n  - yes\n  -\n") == {"a": [1, True, None]}
    assert load_yaml("") is load_first_document("") is None
    assert load_documents("a: 1\n---\n- b\n") == [{"a": 1}, ["b"]]
    assert load_documents("") == []


@pytest.mark.parametrize(
    "content",
    ["a: [", "[" * 1000, "!!int ''", "!!bool x", "!!timestamp x", "2001-99-99", "9" * 5000, "\ud800", b"\xff"],
)
def test_any_damage_is_a_value_error(content: bytes | str) -> None:
    for load in LOADERS:
        with pytest.raises(ValueError, match=r"^no YAML: "):
            load(content)


def repeated(levels: int, times: int) -> str:
    """Return YAML in which each level repeats the one before it."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * times)}]" for i in range(1, levels + 1))]
    return "\n".join(lines)


@pytest.mark.parametrize("content", [repeated(9, 10), "a: &a [*a]", "a: &a {b: [*a]}"])
def test_values_that_aliases_repeat_too_often_are_a_value_error(content: str) -> None:
    """Otherwise, 500 bytes would keep a program busy for ever."""
    for load in LOADERS:
        with pytest.raises(ValueError, match="with its aliases, it has more than 10000000 values"):
            load(content)


def test_aliases_may_repeat_values() -> None:
    assert load_yaml("a: &a [1]\nb: [*a, *a]\n") == {"a": [1], "b": [[1], [1]]}
    load_yaml(repeated(5, 10))


@given(st.lists(st.integers(0, 3), max_size=6), st.booleans())
def test_the_number_of_values_is_counted(sizes: list[int], lists: bool) -> None:
    """Each level contains the one before it as often as its size says."""
    value, number = cast("object", 0), 1
    for size in sizes:
        parts = [value] * size
        value, number = (parts if lists else dict(enumerate(parts))), 1 + size * number
    with patch.object(yaml_document, "_MAX_VALUES", number):
        check_aliases(value)
    with patch.object(yaml_document, "_MAX_VALUES", number - 1), pytest.raises(ValueError, match="with its aliases"):
        check_aliases(value)


@pytest.mark.parametrize(
    "content", ["a: 1\n---\n", "---\na: 1\n---\nb: 2\n", "a: 1\n...\n---\n[", b"a: 1\n---\nb: [\n"]
)
def test_several_documents(content: bytes | str) -> None:
    """Only the first document is read, or the file is rejected."""
    assert load_first_document(content) == {"a": 1}
    with pytest.raises(ValueError, match=r"^no YAML: "):
        load_yaml(content)


@given(st.text(st.sampled_from("!&*[]{}:,-?\"'|># \nintbolsx019."), max_size=20))
def test_any_text(content: str) -> None:
    for load in LOADERS:
        with contextlib.suppress(ValueError):
            load(content)

"""YAML documents: a value, or one type of error."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.yaml_document import load_first_document, load_yaml


def test_values() -> None:
    assert load_yaml(b'{"a": [1, true, null]}') == load_yaml("a:\n  - 1\n  - yes\n  -\n") == {"a": [1, True, None]}
    assert load_yaml("") is load_first_document("") is None


@pytest.mark.parametrize(
    "content",
    ["a: [", "[" * 1000, "!!int ''", "!!bool x", "!!timestamp x", "2001-99-99", "9" * 5000, "\ud800", b"\xff"],
)
def test_any_damage_is_a_value_error(content: bytes | str) -> None:
    for load in (load_yaml, load_first_document):
        with pytest.raises(ValueError, match=r"^no YAML: "):
            load(content)


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
    for load in (load_yaml, load_first_document):
        with contextlib.suppress(ValueError):
            load(content)

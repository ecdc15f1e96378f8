"""The names of admission gates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.admission_gates import (
    ADMISSION_GATES_ANNOTATION,
    is_admission_gate,
    read_admission_gates,
)


@pytest.mark.parametrize(
    ("text", "gates"),
    [("", ()), ("a.b/c", ("a.b/c",)), (" a.b/c , d/e", ("a.b/c", "d/e")), (" ", ("",)), ("a,", ("a", ""))],
)
def test_an_annotation_that_is_not_empty_has_a_gate(text: str, gates: tuple[str, ...]) -> None:
    assert read_admission_gates({ADMISSION_GATES_ANNOTATION: text}) == gates


@given(st.text())
def test_only_the_empty_annotation_has_no_gate(text: str) -> None:
    assert bool(read_admission_gates({ADMISSION_GATES_ANNOTATION: text})) == (text != "")


def test_without_the_annotation_there_is_no_gate() -> None:
    assert read_admission_gates({}) == ()


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("example.com/budget", True), ("a/b", True), ("a/b/c:d", True), ("a" * 61 + "/b", True),
        ("a" * 62 + "/b", False), ("a", False), ("a/", False), ("/b", False), ("", False), ("A/b", False),
        ("a/b c", False), ("a/b#", False), ("a/é", False),
    ],
)  # fmt: skip
def test_a_name_is_a_domain_and_a_path(name: str, valid: bool) -> None:
    assert is_admission_gate(name) == valid

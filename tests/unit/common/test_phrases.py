"""Numbers and lists of names in sentences."""

from __future__ import annotations

import pytest

from zonewise_common.phrases import first_names, of_number


@pytest.mark.parametrize(("number", "word"), [(0, "pods"), (1, "pod"), (2, "pods")])
def test_the_form_of_a_word(number: int, word: str) -> None:
    assert of_number(number, "pod", "pods") == word


@pytest.mark.parametrize(
    ("names", "text"), [("", ""), ("ab", "a, b"), ("abc", "a, b, c"), ("abcd", "a, b, c and 1 more")]
)
def test_the_first_names(names: str, text: str) -> None:
    assert first_names(names) == text

"""Arguments of template functions: which texts are numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.rules.template.arguments import to_number


@pytest.mark.parametrize(
    ("text", "number"), [("0o17", 15), ("-0O17", -15), ("017", 15), ("00", 0), ("0", 0), ("0x1f", 31), ("0b11", 3)]
)
def test_a_prefix_sets_the_base(text: str, number: int) -> None:
    assert to_number(text) == number


@pytest.mark.parametrize("text", ["0o", "0O", "-0o", "0x", "0b", "08", "0o8", "", "+"])
def test_a_prefix_without_valid_digits_is_not_a_number(text: str) -> None:
    """Go's strconv.ParseInt rejects it, so the number is 0."""
    assert to_number(text) == 0


@given(st.text("-0oOx7", max_size=3))
def test_no_text_raises(text: str) -> None:
    assert isinstance(to_number(text), int)

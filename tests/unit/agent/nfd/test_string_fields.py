"""Values of YAML as the text of a string field."""

from __future__ import annotations

import pytest

from zonewise.nfd.string_fields import field_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        ("", ""),
        (5, "5"),
        (-1, "-1"),
        (2.0, "2"),
        (24.04, "24.04"),
        (True, "true"),
        (False, "false"),
        (None, ""),
    ],
)
def test_scalars(value: object, text: str) -> None:
    """The texts are those that Go's decoder assigns."""
    assert field_text(value) == text


@pytest.mark.parametrize("value", [[], {}, ["x"]])
def test_other_values(value: object) -> None:
    """A list or a mapping is unchanged, so that the parser can report it."""
    assert field_text(value) is value

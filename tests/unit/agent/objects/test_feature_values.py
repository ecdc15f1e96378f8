"""Values in the format of NFD."""

from __future__ import annotations

from zonewise.objects.feature_values import known_attributes


def test_texts() -> None:
    """Go prints booleans in lower case. Unknown values are absent, empty ones are not."""
    values = {"b": True, "a": False, "number": -1, "text": "", "unknown": None}
    assert list(known_attributes(values).items()) == [("a", "false"), ("b", "true"), ("number", "-1"), ("text", "")]

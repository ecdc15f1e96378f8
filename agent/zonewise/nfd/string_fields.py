"""The text that Go's decoder of YAML assigns to a field of type string (sigs.k8s.io/yaml, convertToJSONableObject)."""

from __future__ import annotations


def field_text(value: object) -> object:
    """Return the text of a string, a number, true, false or null; any other value unchanged."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return str(value) if isinstance(value, (int, float)) else value

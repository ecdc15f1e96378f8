"""Objects as YAML text."""

from __future__ import annotations

from zonewise.objects.yaml_text import render_yaml


def test_texts_stay_texts() -> None:
    """Without quotes kubectl reads them as numbers and booleans: a label may have any of them."""
    assert render_yaml({"b": "1e-4", "a": "y"}) == "b: '1e-4'\na: 'y'\n"

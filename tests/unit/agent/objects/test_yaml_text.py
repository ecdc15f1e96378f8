"""Objects as YAML text."""

from __future__ import annotations

from zonewise.objects.yaml_text import render_yaml


def test_texts_remain_texts() -> None:
    """Without quotes, kubectl reads labels such as these as numbers and booleans."""
    assert render_yaml({"b": "1e-4", "a": "y"}) == "b: '1e-4'\na: 'y'\n"

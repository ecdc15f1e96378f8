"""Names as label values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.labels import is_label_value
from zonewise_scheduler.fabric.label_values import label_value


def test_a_valid_name_is_unchanged() -> None:
    """Also at the limit."""
    for name in ("A09-P1-IBLEAF-04-04", "a.b_c", "x" * 63):
        assert label_value(name) == name


def test_another_name_is_replaced() -> None:
    """It remains readable."""
    assert label_value("rack 7/leaf").startswith("rack-7-leaf-")
    assert label_value("x" * 64).startswith("x" * 54 + "-")
    assert label_value("").isalnum()
    assert label_value("///").isalnum()


@given(st.lists(st.text(), unique=True))
def test_values_are_valid_and_different(names: list[str]) -> None:
    """Different names have different values."""
    values = [label_value(name) for name in names]
    assert all(value and is_label_value(value) for value in values)
    assert len(set(values)) == len(names)

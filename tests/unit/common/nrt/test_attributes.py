"""Pairs in one attribute: written in one order, read back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.nrt.attributes import read_pairs, write_pairs

TEXT = st.text("abz./-019", max_size=5)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_there_and_back(pairs: dict[str, str]) -> None:
    """Names of resources and drivers have neither commas nor equals signs, and come back with their values."""
    assert read_pairs(write_pairs(pairs)) == pairs


def test_sorted_by_name() -> None:
    """The same pairs are the same text."""
    assert write_pairs({"b": 1, "a": "2/3"}) == "a=2/3,b=1"


def test_damage() -> None:
    """What is no pair is an error that shows it."""
    with pytest.raises(ValueError, match="'b'"):
        read_pairs("a=1,b")

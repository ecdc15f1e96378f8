"""Amounts and sets of zones in words."""

from __future__ import annotations

import pytest

from zonewise_scheduler.admission.explain.phrases import free_in_words


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ({}, "no zone has any"),
        ({0: 4, 1: 2, 2: 1, 3: 0}, "zone 0 has 4 free, zone 1 has 2, zone 2 has 1, zone 3 has 0"),
        ({0: 4, 1: 2, 2: 1, 3: 0, 4: 5}, "none of the 5 zones has more than 5 free"),
    ],
)
def test_up_to_four_zones_are_listed(free: dict[int, int], words: str) -> None:
    assert free_in_words("cpu", free) == words

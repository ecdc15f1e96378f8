"""The cache of results by slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.nodes.arrays.verdict_cache import VerdictCache

if TYPE_CHECKING:
    from zonewise_scheduler.nodes.arrays.types import I64


@given(st.lists(st.tuples(st.integers(1, 12), st.sets(st.integers(0, 11)), st.sampled_from("ab")), min_size=1))
def test_results_are_always_those_of_the_present_slots(rounds: list[tuple[int, set[int], str]]) -> None:
    """Slots are added, changed and removed between queries for two results."""
    cache, values = VerdictCache(), np.zeros((2, 12), np.int64)
    size = 0
    for number, (new_size, changed, key) in enumerate(rounds, 1):
        slots = {slot for slot in changed if slot < new_size} | set(range(size, new_size))
        values[:, list(slots)] = number
        if slots:
            cache.invalidate(np.array(sorted(slots)))
        size = new_size

        def compute(stale: I64 | None, size: int = size) -> I64:
            return values[:, :size].copy() if stale is None else values[:, stale]

        assert cache.get_or_compute(key, size, compute).tolist() == values[:, :size].tolist()

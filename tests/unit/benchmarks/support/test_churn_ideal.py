"""The bound of the churn benchmark: the fullest subset, and the mean of a short history."""

from __future__ import annotations

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.support.churn_ideal import Change, fullest_subset, ideal_mean


@given(sizes=st.lists(st.integers(1, 16), max_size=8), capacity=st.integers(0, 16))
def test_no_subset_is_fuller(sizes: list[int], capacity: int) -> None:
    named = {f"p{index}": size for index, size in enumerate(sizes)}
    subset = fullest_subset(named, capacity)
    every = chain.from_iterable(combinations(named.values(), count) for count in range(len(named) + 1))
    best = max(total for candidate in every if (total := sum(candidate)) <= capacity)
    assert len(set(subset)) == len(subset)
    assert sum(named[name] for name in subset) == best


def test_a_deleted_pod_holds_its_cpus_until_its_end() -> None:
    changes = [Change(0.0, "a", 10), Change(0.0, "b", 8), Change(2.0, "a", None)]
    times = [0.0, 1.0, 2.0, 3.0, 3.5]
    # zone of 10: "a" runs until 2 + 1, then "b"
    assert ideal_mean(changes, [10], 1.0, times) == (10 + 10 + 10 + 8 + 8) / 5


def test_a_waiting_pod_that_is_deleted_never_starts() -> None:
    changes = [Change(0.0, "a", 10), Change(0.5, "b", 4), Change(1.0, "b", None), Change(1.5, "a", None)]
    assert ideal_mean(changes, [10], 0.0, [0.0, 1.0, 2.0]) == (10 + 10 + 0) / 3

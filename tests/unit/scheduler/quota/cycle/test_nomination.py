"""The search for fewer pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.workload_types import PodSet
from zonewise_scheduler.quota.cycle.nomination import search_pod_counts


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_as_many_pods_as_fit(bounds: list[tuple[int, int]], capacity: int) -> None:
    """Within the bounds of each pod set; one more step towards all pods would not fit."""
    pod_sets = [PodSet(f"{i}", minimum + more, min_pods=minimum) for i, (minimum, more) in enumerate(bounds)]
    counts = search_pod_counts(pod_sets, lambda counts: counts if sum(counts) <= capacity else None)
    min_total, max_total = sum(minimum for minimum, _ in bounds), sum(pod_set.pods for pod_set in pod_sets)
    if max_total == min_total:
        assert counts is None
    elif counts is None:
        assert min_total > capacity
    else:
        assert all(
            pod_set.min_pods <= count <= pod_set.pods
            for pod_set, count in zip(pod_sets, counts, strict=True)
            if pod_set.min_pods is not None
        )
        assert sum(counts) <= capacity
        assert sum(counts) == max_total or sum(counts) + len(bounds) > capacity

"""The nodes of a leaf as a bound on its pods."""

from __future__ import annotations

import numpy as np

from zonewise_scheduler.tas.snapshot.leaf_nodes import NodeBound, bound_by_nodes


def test_the_lower_count_names_the_limiting_resource() -> None:
    """The sums over racks are limited by resource 0, and the single nodes by resource 1."""
    bound = NodeBound(np.array([1, 3, 5]), np.array([1, 1, 1]))
    pod_count, limiting = bound_by_nodes(np.array([2, 3, 4]), np.array([0, 0, 0]), bound)
    assert (pod_count.tolist(), limiting.tolist()) == ([1, 3, 4], [1, 0, 0])
    pod_count, limiting = bound_by_nodes(np.array([2]), np.array([0]), bound, np.array([0]))
    assert (pod_count.tolist(), limiting.tolist()) == ([1], [1])

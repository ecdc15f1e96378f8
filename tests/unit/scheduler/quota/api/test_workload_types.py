"""Requests of pod sets with another number of pods."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.workload_types import PodSetResources


@pytest.mark.parametrize(
    ("pods", "scaled", "requests"),
    [
        (4, 4, {"cpu": 4000, "memory": 400}),
        (4, 3, {"cpu": 3000, "memory": 300}),
        (4, 0, {"cpu": 0, "memory": 0}),
        (0, 3, {"cpu": 4000, "memory": 400}),
    ],
)
def test_requests_are_scaled_by_pods(pods: int, scaled: int, requests: dict[str, int]) -> None:
    """Those of no pods cannot be scaled, and stay."""
    resources = PodSetResources("main", pods, {"cpu": 4000, "memory": 400})
    assert resources.scaled_to(scaled) == PodSetResources("main", scaled, requests)


def test_scaled_requests_stay_within_64_bits() -> None:
    assert PodSetResources("main", 1, {"memory": UNLIMITED - 1}).scaled_to(3).requests == {"memory": UNLIMITED}

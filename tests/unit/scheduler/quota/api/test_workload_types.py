"""Requests of pod sets with another number of pods, and since when a workload is pending."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.workload_types import Eviction, PodSetResources, Workload


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


@pytest.mark.parametrize(("reason", "since"), [("AdmissionCheck", 9), ("PodsReadyTimeout", 9), ("Preempted", 1)])
def test_a_workload_is_pending_since_its_eviction_by_a_check_or_a_timeout(reason: str, since: float) -> None:
    workload = Workload("ns", "w", (), created_at=1.0, eviction=Eviction(reason, 9.0))
    assert workload.queue_order_timestamp() == since

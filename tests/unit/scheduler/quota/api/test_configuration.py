"""The settings of queues: their defaults, and the decay of usage."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS, AdmissionFairSharingConfig


def test_the_defaults_are_those_of_kueue() -> None:
    """apis/config/v1beta2/defaults.go, pkg/features/kube_features.go; the interval is 5 minutes."""
    switches = {name: value for name, value in DEFAULT_SETTINGS._asdict().items() if isinstance(value, bool)}
    assert switches == {
        "fair_sharing": False,
        "partial_admission": True,
        "ignore_undeclared_resources": False,
        "requeue_from_eviction": True,
        "recompute_topology_assignment": True,
        "fail_fast_node_replacement": True,
    }
    assert AdmissionFairSharingConfig() == (0.0, 300.0, None)


@pytest.mark.parametrize(("seconds", "decayed"), [(0.0, 0.0), (10.0, 0.5), (20.0, 0.75), (30.0, 0.875)])
def test_half_of_the_remaining_usage_decays_each_half_life(seconds: float, decayed: float) -> None:
    """Without a half-life, nothing decays."""
    assert AdmissionFairSharingConfig(usage_half_life_time=10.0).alpha_rate(seconds) == decayed
    assert AdmissionFairSharingConfig().alpha_rate(seconds) == 0.0

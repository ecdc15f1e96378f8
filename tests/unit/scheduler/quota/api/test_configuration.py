"""The settings of queues: their defaults, and the decay of usage."""

from __future__ import annotations

import pytest

from zonewise_scheduler.quota.api.configuration import (
    DEFAULT_SETTINGS,
    AdmissionFairSharingConfig,
    parse_admission_fair_sharing,
)


def test_the_defaults_are_those_of_kueue() -> None:
    """apis/config/v1beta2/defaults.go, pkg/features/kube_features.go; the interval is 5 minutes."""
    switches = {name: value for name, value in DEFAULT_SETTINGS._asdict().items() if isinstance(value, bool)}
    assert switches == {
        "fair_sharing": False,
        "partial_admission": True,
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


def test_admission_fair_sharing_is_written_as_in_kueues_configuration() -> None:
    config = parse_admission_fair_sharing(
        {"usageHalfLifeTime": "168h", "usageSamplingInterval": "1m30s", "resourceWeights": {"cpu": 2, "memory": 0.5}}
    )
    assert config == AdmissionFairSharingConfig(604_800.0, 90.0, {"cpu": 2.0, "memory": 0.5})
    assert parse_admission_fair_sharing(config.as_object()) == config
    assert parse_admission_fair_sharing({"resourceWeights": {1: 2}}).resource_weights == {"1": 2.0}
    assert parse_admission_fair_sharing({"resourceWeights": {"cpu": None}}).resource_weights == {"cpu": 1.0}
    assert parse_admission_fair_sharing({"usageSamplingInterval": "1s"}).usage_sampling_interval == 1.0
    assert parse_admission_fair_sharing({}) == AdmissionFairSharingConfig()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"usageHalfLifeTime": 5}, "admissionFairSharing.usageHalfLifeTime: not a string: 5"),
        ({"usageHalfLifeTime": "-1s"}, ("admissionFairSharing.usageHalfLifeTime: not a duration, such as 1h30m or 45s"
         ": '-1s'")),
        ({"usageSamplingInterval": "0s"}, "admissionFairSharing.usageSamplingInterval: must be at least 1s: '0s'"),
        ({"usageSamplingInterval": "0.9s"}, "admissionFairSharing.usageSamplingInterval: must be at least 1s: '0.9s'"),
        ({"resourceWeights": {"cpu": -1}}, "admissionFairSharing.resourceWeights.cpu: not a non-negative number: -1"),
        ({"halfLife": "1h"}, "admissionFairSharing.halfLife: unknown field"),
    ],
)  # fmt: skip
def test_an_invalid_field_of_admission_fair_sharing_is_an_error(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        parse_admission_fair_sharing(value)
    assert str(error.value) == message

"""Settings that apply to all queues (apis/config/v1beta2/configuration_types.go, pkg/features/kube_features.go)."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from zonewise_common.k8s.duration import format_duration, parse_duration
from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES, ResourceSettings

ADMISSION_FAIR_SHARING_SETTING = "admissionFairSharing"
_MIN_INTERVAL = 1.0
"""Shortest time between samples, in seconds: each one costs a step of the controller."""

PreemptionStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
"""When fair sharing allows the preemption of a workload (KEP-1714, rules S2-a and S2-b)."""


class AdmissionFairSharingConfig(NamedTuple):
    """The configuration admissionFairSharing (KEP-4136): how the usage of LocalQueues decays."""

    usage_half_life_time: float = 0.0
    """Seconds; 0: past usage does not count."""
    usage_sampling_interval: float = 300.0
    """Seconds between samples."""
    resource_weights: Mapping[str, float] | None = None
    """Weights by resource; 1 for a resource that is missing."""

    def alpha_rate(self, seconds: float) -> float:
        """Return the fraction of usage that decays within a time (calculateAlphaRate)."""
        return 1.0 - 0.5 ** (seconds / self.usage_half_life_time) if self.usage_half_life_time else 0.0

    def as_object(self) -> dict[str, Any]:
        """Return the setting as parse_admission_fair_sharing() reads it."""
        return {
            "usageHalfLifeTime": format_duration(self.usage_half_life_time),
            "usageSamplingInterval": format_duration(self.usage_sampling_interval),
            "resourceWeights": dict(self.resource_weights or {}),
        }


def parse_admission_fair_sharing(value: object) -> AdmissionFairSharingConfig:
    """Return the setting `admissionFairSharing`. Raises ValueError that lists each invalid field and its value."""
    problems: list[str] = []
    reader = FieldReader({ADMISSION_FAIR_SHARING_SETTING: value}, "", problems).child(ADMISSION_FAIR_SHARING_SETTING)
    default = AdmissionFairSharingConfig()
    weights = reader.child("resourceWeights")
    config = AdmissionFairSharingConfig(
        _duration(reader, "usageHalfLifeTime", default.usage_half_life_time),
        _duration(reader, "usageSamplingInterval", default.usage_sampling_interval),
        {str(name): weights.non_negative(name, 1.0) for name in weights.obj} or None,
    )
    if config.usage_sampling_interval < _MIN_INTERVAL:
        reader.report("usageSamplingInterval", "must be at least 1s")
    reader.report_unknown()
    if problems:
        raise ValueError("; ".join(problems))
    return config


def _duration(reader: FieldReader, name: str, default: float) -> float:
    text = reader.text(name)
    if not text:
        return default
    try:
        return parse_duration(text)
    except ValueError:
        reader.report(name, "not a duration, such as 1h30m or 45s")
        return default


class QuotaSettings(NamedTuple):
    """The settings of queues, quotas and preemption."""

    fair_sharing: bool = False
    preemption_strategies: tuple[PreemptionStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    """Strategies, tried one after the other; if empty, the two defaults."""
    partial_admission: bool = True
    resources: ResourceSettings = ALL_RESOURCES
    """Which requests of pods count."""
    requeue_from_eviction: bool = True
    """requeuingStrategy.timestamp Eviction: see Workload.queue_order_timestamp."""
    recompute_topology_assignment: bool = True
    """TASRecomputeAssignmentWithinSchedulingCycle: a workload that loses its placement gets another in the same
    cycle."""
    fail_fast_node_replacement: bool = True
    """TASFailedNodeReplacementFailFast: a workload with an unhealthy node and no replacement is evicted at once."""
    admission_fair_sharing: AdmissionFairSharingConfig | None = None
    """admissionFairSharing; None if admission never follows usage."""


DEFAULT_SETTINGS = QuotaSettings()

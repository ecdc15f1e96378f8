"""Settings that apply to all queues (apis/config/v1beta2/configuration_types.go, pkg/features/kube_features.go)."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

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


class QuotaSettings(NamedTuple):
    """The settings of queues, quotas and preemption."""

    fair_sharing: bool = False
    preemption_strategies: tuple[PreemptionStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    """Strategies, tried one after the other; if empty, the two defaults."""
    partial_admission: bool = True
    ignore_undeclared_resources: bool = False
    """quotaCheckStrategy IgnoreUndeclared: resources without a quota do not count."""
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

"""Flavor assignments as values: the flavors of each pod set, or the reasons why it gets none.

pkg/scheduler/flavorassigner/flavorassigner.go Assignment, PodSetAssignment, Status.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode, worst_mode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Amounts, DelayedTopologyRequest, Usage
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
    from zonewise_scheduler.quota.topology.types import TopologyAssignment

NoFitReason = Literal["", "InUse", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]
"""Why a flavor does not fit, from the least to the most severe reason.

The last four are reasons of the condition QuotaReserved (apis/kueue/v1beta2/workload_types.go).
"""

_SEVERITY: dict[NoFitReason, int] = {reason: i for i, reason in enumerate(get_args(NoFitReason))}

SCAN_ENDED = -1
"""The index before the first flavor, so that the next scan starts with the first one."""


class FlavorStatus(NamedTuple):
    """One reason why one flavor does not fit."""

    reason: NoFitReason
    flavor: str = ""
    """"" if the reason applies to all flavors."""
    resource: str = ""
    """"" if the reason applies to all resources."""
    missing: int = 0
    """The amount of missing quota; 0 if quota is not the reason."""
    message: str = ""


class FlavorAssignment(NamedTuple):
    """The flavor of a resource."""

    name: str
    mode: FlavorAssignmentMode
    borrowing: int = 0
    """See GranularMode.borrowing_level."""
    tried_flavor_idx: int = SCAN_ENDED
    """Index of the last flavor that the scan tried; the next scan starts after it. SCAN_ENDED if no flavor is left."""


class ConsideredFlavor(NamedTuple):
    """The result of the scan for one flavor."""

    flavor: str
    mode: FlavorAssignmentMode
    statuses: tuple[FlavorStatus, ...] = ()

    @property
    def no_fit_reason(self) -> NoFitReason:
        """The most severe reason of its statuses."""
        return most_severe_reason(status.reason for status in self.statuses)


@dataclass(frozen=True)
class PodSetAssignment:
    """The flavors of a pod set."""

    name: str
    pods: int
    requests: Amounts
    """The requests of all its pods."""
    flavors: Mapping[str, FlavorAssignment] = field(default_factory=dict[str, FlavorAssignment])
    """Flavors by resource."""
    statuses: tuple[FlavorStatus, ...] = ()
    error: str = ""
    """Why no topology request can be built for its pods."""
    considered_flavors: tuple[ConsideredFlavor, ...] = ()
    topology_assignment: TopologyAssignment | None = None
    """The placement of its pods; None if the flavor has no topology, or if the placement is decided later."""
    delayed_topology_request: DelayedTopologyRequest = ""

    @cached_property
    def representative_mode(self) -> FlavorAssignmentMode:
        """The worst mode of its resources.

        This differs from upstream if the preference is PreemptionOverBorrowing. A flavor then counts as Fit although
        one resource must be borrowed and another needs a preemption. Kueue treats such a pod set as fitting. In every
        cycle, it then finds that the pod set does not fit, or starts it while its victims run. In this implementation,
        the victims are preempted first.
        """
        if self.error or (self.statuses and not self.flavors):
            return FlavorAssignmentMode.NO_FIT
        return worst_mode((flavor.mode for flavor in self.flavors.values()), FlavorAssignmentMode.FIT)


class AssignmentClusterQueueState(NamedTuple):
    """The position of the flavor scan, carried from one cycle to the next (pkg/workload/workload.go)."""

    last_tried_flavor_idx: Mapping[str, Mapping[str, int]]
    """FlavorAssignment.tried_flavor_idx by pod set and resource."""
    scheduling_cycle: int = 0
    """The number of the cycle of that scan."""

    @property
    def pending_flavors(self) -> bool:
        """Whether some flavors have not been tried yet."""
        by_pod_set = self.last_tried_flavor_idx.values()
        return any(index != SCAN_ENDED for by_resource in by_pod_set for index in by_resource.values())

    def next_flavor_to_try(self, pod_set: str, resource: str) -> int:
        """Return the index of the first flavor to try."""
        return self.last_tried_flavor_idx.get(pod_set, {}).get(resource, SCAN_ENDED) + 1


NO_LAST_ASSIGNMENT = AssignmentClusterQueueState({})


@dataclass(frozen=True)
class Assignment:
    """The flavors of a workload. If it does not fit, the pod sets end with the first one that does not fit."""

    pod_sets: tuple[PodSetAssignment, ...]
    usage: Usage
    """The usage that it would add to that of the workload slice that it replaces."""
    no_fit_reason: NoFitReason = ""
    """The reason that is reported if it does not fit."""
    placement_requests: Mapping[str, Sequence[PlacementRequest]] = field(
        default_factory=dict[str, "Sequence[PlacementRequest]"]
    )
    """The pods to place in topologies, by flavor."""

    @cached_property
    def representative_mode(self) -> FlavorAssignmentMode:
        """The worst mode of its pod sets."""
        return worst_mode((pod_set.representative_mode for pod_set in self.pod_sets), FlavorAssignmentMode.NO_FIT)

    @property
    def has_topology_assignment(self) -> bool:
        """Whether some of its pods have a placement."""
        return any(pod_set.topology_assignment is not None for pod_set in self.pod_sets)

    @property
    def borrows(self) -> int:
        """The largest borrowing level; see GranularMode.borrowing_level."""
        return max((flavor.borrowing for pod_set in self.pod_sets for flavor in pod_set.flavors.values()), default=0)

    @property
    def nonzero_usage(self) -> Usage:
        """The usage without amounts of 0."""
        return {key: amount for key, amount in self.usage.items() if amount}

    @property
    def frs_need_preemption(self) -> frozenset[FlavorResource]:
        """The flavor resources that a preemption must free."""
        return frozenset(
            FlavorResource(flavor.name, resource)
            for pod_set in self.pod_sets
            for resource, flavor in pod_set.flavors.items()
            if flavor.mode is FlavorAssignmentMode.PREEMPT
        )

    @property
    def last_tried_flavor_idx(self) -> Mapping[str, Mapping[str, int]]:
        """The position of the scan, for the AssignmentClusterQueueState of the next scan."""
        return {
            pod_set.name: {resource: flavor.tried_flavor_idx for resource, flavor in pod_set.flavors.items()}
            for pod_set in self.pod_sets
        }


def most_severe_reason(reasons: Iterable[NoFitReason]) -> NoFitReason:
    """Return the most severe reason; "" if there are none, or if the only reason is quota in use."""
    severe = set(reasons) - {"InUse"}
    return max(severe, key=_SEVERITY.__getitem__) if severe else ""


def least_severe_reason(reasons: Iterable[NoFitReason]) -> NoFitReason:
    """Return the least severe reason; "" if there are none."""
    unique = set(reasons)
    return min(unique, key=_SEVERITY.__getitem__) if unique else ""

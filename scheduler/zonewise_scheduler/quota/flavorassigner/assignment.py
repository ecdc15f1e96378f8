"""What flavors a workload gets, or why not."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.flavorassigner.granular_mode import FlavorAssignmentMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.quota.api.workload_types import Amounts, DelayedTopologyRequest, Usage
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest
    from zonewise_scheduler.quota.preemption.preemption_oracle import PreemptionPossibility

NoFitReason = Literal["", "InUse", "TopologyPlacementFailed", "WaitingForQuota", "ExceedsMaxQuota", "NoMatchingFlavor"]
"""What stands in the way, from the least to the most severe; the last four are reasons of the condition QuotaReserved
(workload_types.go)."""

_SEVERITY: dict[NoFitReason, int] = {
    "": 0, "InUse": 0, "TopologyPlacementFailed": 1, "WaitingForQuota": 2, "ExceedsMaxQuota": 3, "NoMatchingFlavor": 4,
}  # fmt: skip


class FlavorStatus(NamedTuple):
    """What stands in the way of one flavor."""

    reason: NoFitReason
    flavor: str = ""
    """"": of all."""
    resource: str = ""
    """"": of all."""
    missing: int = 0
    """How much more quota it would take, as an amount; 0 where it is not that."""
    message: str = ""


class FlavorAssignment(NamedTuple):
    """The flavor of a resource."""

    name: str
    mode: FlavorAssignmentMode
    borrowing: int = 0
    """See Grade."""
    tried_flavor_idx: int = -1
    """The place in the scan where it ended, so that the next goes on behind it; -1: at the end, it begins again."""


class ConsideredFlavor(NamedTuple):
    """What the scan found of one flavor."""

    flavor: str
    mode: FlavorAssignmentMode
    borrowing: int = 0
    preemption_possibility: PreemptionPossibility | None = None
    statuses: tuple[FlavorStatus, ...] = ()

    @property
    def no_fit_reason(self) -> NoFitReason:
        """The most severe of its hindrances."""
        return most_severe_reason(one.reason for one in self.statuses)


@dataclass(frozen=True)
class PodSetAssignment:
    """The flavors of a pod set."""

    name: str
    pods: int
    requests: Amounts
    """Of all its pods."""
    flavors: Mapping[str, FlavorAssignment] = field(default_factory=dict[str, FlavorAssignment])
    """By resource."""
    statuses: tuple[FlavorStatus, ...] = ()
    error: str = ""
    """Why there is no telling where its pods are to be placed."""
    considered_flavors: tuple[ConsideredFlavor, ...] = ()
    topology_assignment: object | None = None
    """Where its pods go; None where that is not decided here."""
    delayed_topology_request: DelayedTopologyRequest = ""

    @cached_property
    def representative_mode(self) -> FlavorAssignmentMode:
        """The worst of its resources'.

        By a preference for preemption over borrowing, a flavor counts as one to be had where one resource of it has to
        be borrowed and for another somebody has to give way. Kueue takes the pod set for one that fits at once, and
        then finds in every cycle that it does not, or starts it while its victims run. Here these are told to go.
        """
        if self.error or (self.statuses and not self.flavors):
            return FlavorAssignmentMode.NO_FIT
        return min((one.mode for one in self.flavors.values()), default=FlavorAssignmentMode.FIT)


class AssignmentClusterQueueState(NamedTuple):
    """Where the scan of flavors has come to, from one cycle to the next."""

    last_tried_flavor_idx: Mapping[str, Mapping[str, int]]
    """By pod set, by resource: FlavorChoice.tried."""
    scheduling_cycle: int = 0
    """The number of the cycle that it is of."""

    @property
    def pending_flavors(self) -> bool:
        """Tell whether there are flavors that were not tried yet."""
        return any(place != -1 for one in self.last_tried_flavor_idx.values() for place in one.values())

    def next_flavor_to_try(self, pod_set: str, resource: str) -> int:
        """Return the place of the first flavor to try."""
        return self.last_tried_flavor_idx.get(pod_set, {}).get(resource, -1) + 1


NO_LAST_ASSIGNMENT = AssignmentClusterQueueState({})


@dataclass(frozen=True)
class Assignment:
    """The flavors of a workload; of one that does not fit, of the pod sets up to the first that does not."""

    pod_sets: tuple[PodSetAssignment, ...]
    usage: Usage
    """What it would use, beyond what a workload that it replaces does."""
    no_fit_reason: NoFitReason = ""
    """The reason that is told, where it does not fit."""
    placement_requests: Mapping[str, Sequence[PlacementRequest]] = field(
        default_factory=dict[str, "Sequence[PlacementRequest]"]
    )
    """What of it is to be placed in topologies, by flavor."""

    @cached_property
    def representative_mode(self) -> FlavorAssignmentMode:
        """The worst of its pod sets'."""
        return min((one.representative_mode for one in self.pod_sets), default=FlavorAssignmentMode.NO_FIT)

    @property
    def has_topology_assignment(self) -> bool:
        """Tell whether places were found for some of its pods."""
        return any(one.topology_assignment is not None for one in self.pod_sets)

    @property
    def borrows(self) -> int:
        """From how far it borrows: see Grade."""
        return max((one.borrowing for pods in self.pod_sets for one in pods.flavors.values()), default=0)

    @property
    def nonzero_usage(self) -> Usage:
        """The usage without what is nothing."""
        return {key: amount for key, amount in self.usage.items() if amount}

    @property
    def frs_need_preemption(self) -> frozenset[FlavorResource]:
        """What others would have to give way from."""
        return frozenset(
            FlavorResource(one.name, resource)
            for pods in self.pod_sets
            for resource, one in pods.flavors.items()
            if one.mode == FlavorAssignmentMode.PREEMPT
        )

    @property
    def last_tried_flavor_idx(self) -> Mapping[str, Mapping[str, int]]:
        """What the Progress of the next scan is made from."""
        return {
            pods.name: {resource: one.tried_flavor_idx for resource, one in pods.flavors.items()}
            for pods in self.pod_sets
        }


def most_severe_reason(reasons: Iterable[NoFitReason]) -> NoFitReason:
    """Return the most severe; "" where there is none."""
    worst = sorted(reasons, key=_SEVERITY.__getitem__)[-1:]
    return worst[0] if worst and _SEVERITY[worst[0]] else ""


def least_severe_reason(reasons: Iterable[NoFitReason]) -> NoFitReason:
    """Return the least severe; "" where there is none."""
    mildest = sorted(reasons, key=_SEVERITY.__getitem__)[:1]
    return mildest[0] if mildest else ""

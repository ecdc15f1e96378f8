"""The inputs of a search for victims, and the steps that both searches share (preemption.go)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage, Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest

PreemptionReason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]
"""The reasons of the condition Preempted (apis/kueue/v1beta2/workload_types.go)."""


class Target(NamedTuple):
    """A victim: a workload to preempt."""

    workload: Workload
    reason: PreemptionReason


@dataclass(frozen=True)
class PreemptionContext:
    """A preemptor and what it lacks."""

    snapshot: Snapshot
    preemptor: Workload
    preemptor_cq: ClusterQueueSnapshot
    workload_usage: Usage
    """The usage of the preemptor after its admission."""
    frs_need_preemption: frozenset[FlavorResource]
    """The flavor resources that are not fully available."""
    settings: QuotaSettings = DEFAULT_SETTINGS
    placement_requests: Mapping[str, Sequence[PlacementRequest]] = field(
        default_factory=dict[str, "Sequence[PlacementRequest]"]
    )
    """The pods of the preemptor to place in topologies, by flavor."""

    def workload_fits(self, *, allow_borrowing: bool) -> bool:
        """Return whether the preemptor fits now; without `allow_borrowing`, within its queue's nominal quota."""
        for key, amount in self.workload_usage.items():
            if not allow_borrowing and self.preemptor_cq.borrowing_with(key, amount):
                return False
            if amount > max(0, self.preemptor_cq.available(key)):
                return False
        if not self.placement_requests:
            return True
        find = self.snapshot.tas_snapshot.find_topology_assignments
        return not isinstance(find(self.preemptor, self.placement_requests, empty=False), TopologyPlacementFailure)


def fill_back_workloads(context: PreemptionContext, targets: list[Target], *, allow_borrowing: bool) -> list[Target]:
    """Return only the targets that are needed, always including the last one (fillBackWorkloads).

    Before the call, no target is in the snapshot; afterwards, the targets that are not needed are in it again. They are
    tried in reverse order.
    """
    needed = targets[-1:]
    for target in reversed(targets[:-1]):
        context.snapshot.add_workload(target.workload)
        if not context.workload_fits(allow_borrowing=allow_borrowing):
            context.snapshot.remove_workload(target.workload)
            needed.append(target)
    needed.reverse()
    return needed


def restore_snapshot(context: PreemptionContext, targets: list[Target]) -> None:
    """Add the targets back to the snapshot."""
    for target in targets:
        context.snapshot.add_workload(target.workload)

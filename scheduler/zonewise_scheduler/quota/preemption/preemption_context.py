"""What preemption is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.quota.api.workload_types import DEFAULT_SETTINGS
from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologyPlacementFailure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings, Usage, Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import PlacementRequest

PreemptionReason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"
]
"""As in the condition Preempted (workload_types.go)."""


class Target(NamedTuple):
    """A workload that is to give way."""

    workload: Workload
    reason: PreemptionReason


@dataclass(frozen=True)
class PreemptionContext:
    """A workload that needs others to give way."""

    snapshot: Snapshot
    preemptor: Workload
    preemptor_cq: ClusterQueueSnapshot
    """Of the workload."""
    workload_usage: Usage
    """What it will use."""
    frs_need_preemption: frozenset[FlavorResource]
    """What of it is not free."""
    settings: QuotaSettings = DEFAULT_SETTINGS
    placement_requests: Mapping[str, Sequence[PlacementRequest]] = field(
        default_factory=dict[str, "Sequence[PlacementRequest]"]
    )
    """What of its pods is to be placed in topologies, by flavor."""

    def workload_fits(self, *, allow_borrowing: bool) -> bool:
        """Tell whether it fits now; without `borrowing`, within its queue's nominal quota."""
        for key, amount in self.workload_usage.items():
            if not allow_borrowing and self.preemptor_cq.borrowing_with(key, amount):
                return False
            if amount > max(0, self.preemptor_cq.available(key)):
                return False
        if not self.placement_requests:
            return True
        found = self.snapshot.tas_snapshot.find_topology_assignments(
            self.preemptor, self.placement_requests, empty=False
        )
        return not isinstance(found, TopologyPlacementFailure)


def fill_back_workloads(context: PreemptionContext, targets: list[Target], *, allow_borrowing: bool) -> list[Target]:
    """Put back, last first, those without whom it fits as well; all are out of the snapshot, and the last is needed.

    Returns those that must go, which are still out. preemption.go fillBackWorkloads.
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
    """Put the targets back into the snapshot."""
    for target in targets:
        context.snapshot.add_workload(target.workload)

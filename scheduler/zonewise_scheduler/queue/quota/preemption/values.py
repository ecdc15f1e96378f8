"""What preemption is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.queue.quota.model.workload import DEFAULTS
from zonewise_scheduler.queue.quota.places import NoPlace

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Settings, Usage, Workload
    from zonewise_scheduler.queue.quota.places import Wish
    from zonewise_scheduler.queue.quota.tree.node import QueueNode
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

Reason = Literal["InClusterQueue", "InCohortReclamation", "InCohortFairSharing", "InCohortReclaimWhileBorrowing"]
"""As in the condition Preempted (workload_types.go)."""


class Target(NamedTuple):
    """A workload that is to give way."""

    workload: Workload
    reason: Reason


@dataclass(frozen=True)
class Ask:
    """A workload that needs others to give way."""

    snapshot: Snapshot
    workload: Workload
    queue: QueueNode
    """Of the workload."""
    usage: Usage
    """What it will use."""
    contested: frozenset[FlavorResource]
    """What of it is not free."""
    settings: Settings = DEFAULTS
    wishes: Mapping[str, Sequence[Wish]] = field(default_factory=dict[str, "Sequence[Wish]"])
    """What of its pods is to be placed in topologies, by flavor."""

    def fits(self, *, borrowing: bool) -> bool:
        """Tell whether it fits now; without `borrowing`, within its queue's nominal quota."""
        for key, amount in self.usage.items():
            if not borrowing and self.queue.exceeds(key, amount):
                return False
            if amount > max(0, self.queue.available(key)):
                return False
        if not self.wishes:
            return True
        found = self.snapshot.places.find(self.workload, self.wishes, empty=False)
        return not isinstance(found, NoPlace)


def fill_back(ask: Ask, targets: list[Target], *, borrowing: bool) -> list[Target]:
    """Put back, last first, those without whom it fits as well; all are out of the snapshot, and the last is needed.

    Returns those that must go, which are still out. preemption.go fillBackWorkloads.
    """
    needed = targets[-1:]
    for target in reversed(targets[:-1]):
        ask.snapshot.add(target.workload)
        if not ask.fits(borrowing=borrowing):
            ask.snapshot.remove(target.workload)
            needed.append(target)
    needed.reverse()
    return needed


def restore(ask: Ask, targets: list[Target]) -> None:
    """Put the targets back into the snapshot."""
    for target in targets:
        ask.snapshot.add(target.workload)

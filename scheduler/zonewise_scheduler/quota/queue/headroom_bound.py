"""Who need not be looked at again: bounds of what a queue can have, by which a turn passes without a nomination.

Something has changed, and all that were set aside have their turn again; most of them for nothing. Of one that was
refused before, and that has not what it needs now either, that is known from a bound: the most of a FlavorResource that
a workload of some priority could have, were all gone that it may preempt. If in each flavor it asks for more than that
of some resource, nomination would end with NoFit or NoCandidates, whatever the order of flavors and candidates.

Why that is so (classical preemption; flavors/room.py, preemption/candidates.py, preemption/classical.py). Let a be what
is asked of a key, and s what those of its own queue hold of it that its policy lets it preempt.

- It is not free: the bound is at least what is available.
- A victim of another queue is taken only with the nearer claim to what it has, or in the attempt without borrowing, or
  if the queue may preempt while it borrows; of queues that may do so there is no bound. There is no nearer claim where
  each subtree below the root is exceeded with a: the queue's own if a is more than nominal less used, and a cohort's
  if it is more than that of the cohort and what is local to those below. The attempt without borrowing ends within the
  nominal quota of the queue, whose own usage falls by s at most: it fails if a is more than nominal less used plus s.
- So there are victims in the queue alone. Available grows by no more than what is taken out of the queue: at each node
  it falls by one at most for each one that is used more. With all of them gone it is at most what it is, plus s.

Other pod sets and resources only ask for more. By fair sharing any queue of the tree may have to give way, so there is
a bound only for queues that do not reclaim.

Where starts are promised to others, one that has all it needs now may not have it for as long as it runs. In a flavor
that has enough free of everything it makes nobody give way, unless it lacks places there, and then none but of its own
queue if that does not reclaim. So it is refused if there will be less at a promised time before its latest end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.quota.api.amount import UNLIMITED, minus, plus
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import flavor_alternatives

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives, FlavorRequests
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


BoundReason = Literal["", "NoQuota", "Reserved"]
"""What certainly keeps one from starting now; Reserved: what is promised to others; "": perhaps nothing does."""


class FutureHeadroom(Protocol):
    """What there will be when others start to whom that is promised."""

    def max_available(self, queue: str, key: FlavorResource, walltime: float, priority: int | None) -> int:
        """Return the most of a key that one of a queue could have for `limit` seconds from now on, beside them.

        `priority`: of one that may make others of its queue give way, as far as its policy lets it; None: nobody does.
        """
        ...


class HeadroomBound:
    """The bounds for one state of a snapshot; forget() is told when that changes."""

    def __init__(self, snapshot: Snapshot, settings: QuotaSettings, future: FutureHeadroom | None = None) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._later = future
        self._most: dict[tuple[str, int, FlavorResource], int] = {}

    def invalidate(self) -> None:
        """Take note that something has been admitted or has ended."""
        self._most.clear()

    def alternatives(self, head: Head) -> FlavorAlternatives | None:
        """Return what it has to have one of, good for all of its shape; None where a bound says nothing of it."""
        return flavor_alternatives(flavor_assigner(self._snapshot, head, self._settings))

    def inadmissible_reason(
        self, queue: str, priority: int, walltime: float, alternatives: FlavorAlternatives
    ) -> BoundReason:
        """Tell whether one that needs this, and declares to run for so many seconds, would certainly be refused now."""
        most, found = self._most, "NoQuota"
        for needed in alternatives:
            for key, amount in needed:
                bound = most.get((queue, priority, key))
                if bound is None:
                    bound = most[queue, priority, key] = self._bound(
                        self._snapshot.cluster_queues[queue], priority, key
                    )
                if amount > bound:
                    break
            else:
                if self._later is None or not self._is_promised(self._later, queue, priority, walltime, needed):
                    return ""
                found = "Reserved"
        return found

    def affects_cycle(self, queue: str) -> bool:
        """Tell whether others of a cycle are decided otherwise for a refusal.

        A queue that cannot reclaim keeps quota for one that waits while the cycle lasts (cycle.reservation); and fair
        sharing lets who would be refused take part in its tournament.
        """
        return (
            self._settings.fair_sharing
            or self._snapshot.cluster_queues[queue].spec.preemption.reclaim_within_cohort != "Any"
        )

    def _is_promised(
        self, later: FutureHeadroom, queue: str, priority: int, limit: float, needed: FlavorRequests
    ) -> bool:
        """Tell whether a flavor has what is needed now, and will not have it when it is promised to others."""
        node = self._snapshot.cluster_queues[queue]
        if any(amount > node.available(key) for key, amount in needed):
            return False
        placed = self._snapshot.resource_flavors is not None and any(
            self._snapshot.resource_flavors[key.flavor].topology_name for key, _ in needed
        )
        if placed and node.parent is not None and node.spec.preemption.reclaim_within_cohort not in {"Never", ""}:
            return False
        return any(
            amount > later.max_available(queue, key, limit, priority if placed else None) for key, amount in needed
        )

    def _bound(self, queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> int:
        """Return the most of a key that could be had; unlimited where nobody knows."""
        rules = queue.spec.preemption
        yields = preemptible_usage(queue, priority, key)
        most = max(0, plus(queue.available(key), yields))
        if queue.parent is None or rules.reclaim_within_cohort in {"Never", ""}:
            return most
        if self._settings.fair_sharing or rules.borrow_within_cohort != "Never":
            return UNLIMITED
        most = max(most, plus(minus(queue.subtree_quota.get(key, 0), queue.usage.get(key, 0)), yields))
        local = queue.local_available(key)
        for cohort in queue.path_parent_to_root():
            if cohort.parent is None:
                break
            most = max(most, plus(local, minus(cohort.subtree_quota.get(key, 0), cohort.usage.get(key, 0))))
            local = plus(local, cohort.local_available(key))
        return most


def preemptible_usage(queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> int:
    """Return the most that those of the queue hold whom one of a priority may preempt there."""
    within = queue.spec.preemption.within_cluster_queue
    if within in {"Never", ""}:
        return 0
    found = 0
    for other, standing in queue.priority_usage.items():
        if other < priority or (other == priority and within == "LowerOrNewerEqualPriority"):
            found += standing.usage.get(key, 0)
    return found

"""Headroom bounds: upper bounds on what a queue can get, used to skip nominations that are certain to fail.

After a change, all inadmissible workloads become active again, most of them needlessly. The headroom bound is the
largest amount of a FlavorResource that a workload of a given priority can get with any preemption.

Invariant: if a workload's requests exceed some bound in each of its flavors, its nomination ends with NoFit or
NoCandidates. The order of flavors and candidates does not matter. The relevant code is fits_resource_quota and
classical_preemptions.

Proof, for classical preemption. Let `a` be the request, which exceeds the bound. Let `s` be the usage of the workloads
in the queue that the policy allows the workload to preempt.

1. The request is not available, since the bound is at least what is available.
2. No victim is in another queue. Such a victim needs one of three conditions:
   - The preemptor has the hierarchical advantage. It has none if `a` exceeds the quota of each subtree below the root.
     `a` exceeds the queue's own quota if it is more than nominal quota minus usage. It exceeds a cohort's quota if it
     is more than the cohort's quota minus usage, plus the unused local quota of the nodes below.
   - The attempt is without borrowing. It must end within the nominal quota of the queue, whose own usage decreases by
     at most `s`. It fails if `a` is more than nominal quota minus usage plus `s`.
   - The queue may preempt while it borrows. Such queues have no bound.
3. So all victims are in the queue itself. The available amount grows by no more than the usage that is removed from the
   queue. At each node, it falls by at most 1 for each 1 of added usage. Without all victims, it is at most the current
   amount plus `s`.
4. Additional pod sets and resources only increase the requests.

With fair sharing, any queue of the tree may lose workloads, so only queues that do not reclaim have a bound.

With reservations, a workload may have everything that it needs now, but not until its deadline. In a flavor with enough
available quota, it preempts no workload unless it lacks a placement. In that case, it preempts only in its own queue,
if the queue does not reclaim. So it is inadmissible if less is available at a reserved start before its deadline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.quota.api.amount import UNLIMITED, minus, plus
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import flavor_alternatives

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives, FlavorRequests
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


BoundReason = Literal["", "NoQuota", "Reserved"]
"""What is certain to prevent a workload from starting now; Reserved means reservations, and "" that nothing is
certain."""


class FutureHeadroom(Protocol):
    """The amounts available alongside the reservations."""

    def max_available(self, queue: str, key: FlavorResource, walltime: float, priority: int | None) -> int:
        """Return the largest amount of a key that a workload of a queue could use for `walltime` seconds from now on.

        `priority`: that of a workload that may preempt in its own queue, as far as the policy allows; None if it may
        not.
        """
        ...


class HeadroomBound:
    """The bounds for one state of a snapshot; invalidate() must be called when that state changes."""

    def __init__(self, snapshot: Snapshot, settings: QuotaSettings, future: FutureHeadroom | None = None) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._future = future
        self._bounds: dict[tuple[str, int, FlavorResource], int] = {}
        self._available: dict[tuple[str, FlavorResource], int] = {}
        """Available amounts without any preemption."""
        flavors = () if snapshot.resource_flavors is None else snapshot.resource_flavors.values()
        self._placing_flavors = {flavor.name for flavor in flavors if flavor.topology_name}
        """The names of the flavors with a topology."""

    def invalidate(self) -> None:
        """Forget the bounds, after a workload has been admitted or has ended."""
        self._bounds.clear()
        self._available.clear()

    def alternatives(self, head: Head) -> FlavorAlternatives | None:
        """Return the alternative requests of a head and of all workloads with its shape; None if no bound applies."""
        return flavor_alternatives(flavor_assigner(self._snapshot, head, self._settings))

    def inadmissible_reason(
        self, queue: str, priority: int, walltime: float, alternatives: FlavorAlternatives
    ) -> BoundReason:
        """Return why a workload with this priority, walltime (seconds) and alternatives is certainly inadmissible."""
        bounds, reason = self._bounds, "NoQuota"
        for requests in alternatives:
            for key, amount in requests:
                bound = bounds.get((queue, priority, key))
                if bound is None:
                    node = self._snapshot.cluster_queues[queue]
                    bound = bounds[queue, priority, key] = self._bound(node, priority, key)
                if amount > bound:
                    break
            else:
                if self._future is None or not self._is_reserved(self._future, queue, priority, walltime, requests):
                    return ""
                reason = "Reserved"
        return reason

    def affects_cycle(self, queue: str) -> bool:
        """Return whether an inadmissible head affects decisions about other heads of its cycle.

        A queue that cannot reclaim holds quota for the rest of the cycle (quota_resources_to_reserve). With fair
        sharing, an inadmissible head takes part in the tournament.
        """
        return (
            self._settings.fair_sharing
            or self._snapshot.cluster_queues[queue].spec.preemption.reclaim_within_cohort != "Any"
        )

    def _is_reserved(
        self, future: FutureHeadroom, queue: str, priority: int, walltime: float, requests: FlavorRequests
    ) -> bool:
        """Return whether a flavor's requests are available now, but not at a reserved start before the deadline."""
        for key, amount in requests:
            available = self._available.get((queue, key))
            if available is None:
                available = self._available[queue, key] = self._snapshot.cluster_queues[queue].available(key)
            if amount > available:
                return False
        preemptor_priority = None
        if self._placing_flavors and any(key.flavor in self._placing_flavors for key, _ in requests):
            node, preemptor_priority = self._snapshot.cluster_queues[queue], priority
            if node.parent is not None and node.spec.preemption.reclaims:
                return False
        for key, amount in requests:  # noqa: SIM110 -- a play asks tens of thousands of times
            if amount > future.max_available(queue, key, walltime, preemptor_priority):
                return True
        return False

    def _bound(self, queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> int:
        """Return the largest amount of a key that a workload can get; UNLIMITED if no bound is known."""
        preemption = queue.spec.preemption
        preemptible = preemptible_usage(queue, priority, key)
        bound = max(0, plus(queue.available(key), preemptible))
        if queue.parent is None or not preemption.reclaims:
            return bound
        if self._settings.fair_sharing or preemption.borrow_within_cohort != "Never":
            return UNLIMITED
        unused_nominal = minus(queue.subtree_quota[key], queue.usage[key])
        bound = max(bound, plus(unused_nominal, preemptible))
        local_available = queue.local_available(key)
        cohort = queue.parent
        while cohort.parent is not None:
            unused = minus(cohort.subtree_quota[key], cohort.usage[key])
            bound = max(bound, plus(local_available, unused))
            local_available = plus(local_available, cohort.local_available(key))
            cohort = cohort.parent
        return bound


def preemptible_usage(queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> int:
    """Return an upper bound on the usage that a workload of this priority may preempt within its queue."""
    policy = queue.spec.preemption.within_cluster_queue
    if policy in {"Never", ""}:
        return 0
    limit = priority + (policy == "LowerOrNewerEqualPriority")
    return sum(
        entry.usage.get(key, 0) for running_priority, entry in queue.priority_usage.items() if running_priority < limit
    )

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

import sys
from math import inf
from typing import TYPE_CHECKING, Literal, Protocol

from zonewise_scheduler.quota.api.amount import UNLIMITED, minus, plus
from zonewise_scheduler.quota.cycle.nomination import flavor_assigner
from zonewise_scheduler.quota.flavorassigner.flavorassigner import flavor_alternatives

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot, ResourceNode
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

    _BoundRequests = tuple[tuple["_KeyBound", int], ...]
    """The amounts of the keys of one flavor."""
    _BoundAlternatives = tuple[_BoundRequests, ...]

BoundReason = Literal["", "NoQuota", "Reserved"]
"""What is certain to prevent a workload from starting now; Reserved means reservations, and "" that nothing is
certain."""


class FutureHeadroom(Protocol):
    """The amounts available alongside the reservations."""

    @property
    def now(self) -> float:
        """The time, in seconds, from which the amounts are available."""
        ...

    @property
    def version(self) -> int:
        """A number that grows whenever an amount changes."""
        ...

    def latest_end(self, queue: str, key: FlavorResource, amount: int, priority: int | None) -> float:
        """Return the latest end, in seconds, of a workload of a queue that uses an amount of a key from now on.

        Infinite if it may use the amount forever; LATEST_KNOWN_END if it may do so until any known end. `priority`:
        that of a workload that may preempt in its own queue, as far as the policy allows; None if it may not.
        """
        ...


LATEST_KNOWN_END = sys.float_info.max
"""The latest end, in seconds, of a workload with a walltime."""
MAX_SHAPES = 20_000
"""Number of shapes beyond which the bounds begin anew, since most of these shapes are no longer pending."""


class _KeyBound:
    """What workloads of one priority can get of one key in a queue, and in others that have the same available."""

    __slots__ = ("available", "key", "most", "priority", "queue", "version")

    def __init__(self, queue: ClusterQueueSnapshot, key: FlavorResource, priority: int) -> None:
        self.queue = queue
        self.key = key
        self.priority = priority
        self.version = -1
        self.most = self.available = 0
        """With any preemption, and without any."""


class ShapeBound:
    """How long workloads with the same alternatives may run from now on."""

    __slots__ = ("alternatives", "latest_end", "version")

    def __init__(self, alternatives: _BoundAlternatives) -> None:
        self.alternatives = alternatives
        self.version = -1
        self.latest_end = inf
        """Their latest end, in seconds; negative infinity if they certainly lack quota."""


class HeadroomBound:
    """The bounds for the states of a snapshot; invalidate() must be called when the state changes."""

    def __init__(self, snapshot: Snapshot, settings: QuotaSettings, future: FutureHeadroom | None = None) -> None:
        self.snapshot = snapshot
        self._settings = settings
        self._future = future
        self._version = 0
        """Number of changes of the state."""
        self._alternatives: dict[tuple[str, Hashable], FlavorAlternatives | None] = {}
        """Cache of alternatives(): they depend on quotas, not on usage."""
        self._key_bounds: dict[tuple[ResourceNode, int, FlavorResource], _KeyBound] = {}
        """By the node that lends to the queue, priority and key; queues without preemption share them."""
        self._shape_bounds: dict[_BoundAlternatives, ShapeBound] = {}
        """All queues with the same key bounds share them."""
        flavors = () if snapshot.resource_flavors is None else snapshot.resource_flavors.values()
        self._placing_flavors = {flavor.name for flavor in flavors if flavor.topology_name}
        """The names of the flavors with a topology."""

    def applies_to(self, snapshot: Snapshot, future: FutureHeadroom | None) -> bool:
        """Return whether the bounds are those of a snapshot and its reservations, and may be kept."""
        shapes = max(len(self._alternatives), len(self._shape_bounds))
        return self.snapshot is snapshot and self._future is future and shapes <= MAX_SHAPES

    def invalidate(self) -> None:
        """Forget the bounds, after a workload has been admitted or has ended."""
        self._version += 1

    def alternatives(self, head: Head) -> FlavorAlternatives | None:
        """Return the alternative requests of a head and of all workloads with its shape; None if no bound applies."""
        if head.workload.admission is not None:
            return None
        key = head.cluster_queue, head.workload.scheduling_shape
        if key not in self._alternatives:
            self._alternatives[key] = flavor_alternatives(flavor_assigner(self.snapshot, head, self._settings))
        return self._alternatives[key]

    def shape_bound(self, queue: str, priority: int, alternatives: FlavorAlternatives) -> ShapeBound:
        """Return the bound of a queue's workloads with this priority and these alternatives."""
        node = self.snapshot.cluster_queues[queue]
        bound_alternatives = tuple(
            tuple((self._key_bound(node, priority, key), amount) for key, amount in requests)
            for requests in alternatives
        )
        return self._shape_bounds.setdefault(bound_alternatives, ShapeBound(bound_alternatives))

    def inadmissible_reason(self, shape: ShapeBound, walltime: float) -> BoundReason:
        """Return why a workload with this bound and walltime (seconds) is certainly inadmissible."""
        future = self._future
        version = self._version if future is None else self._version + future.version
        if shape.version != version:
            shape.version = version
            shape.latest_end = self._latest_end(shape.alternatives)
        latest = shape.latest_end
        if latest == inf:
            return ""
        if latest == -inf:
            return "NoQuota"
        return "Reserved" if future is not None and future.now + walltime > latest else ""

    def affects_cycle(self, queue: str) -> bool:
        """Return whether an inadmissible head affects decisions about other heads of its cycle.

        A queue that cannot reclaim holds quota for the rest of the cycle (quota_resources_to_reserve). With fair
        sharing, an inadmissible head takes part in the tournament.
        """
        return (
            self._settings.fair_sharing
            or self.snapshot.cluster_queues[queue].spec.preemption.reclaim_within_cohort != "Any"
        )

    def _key_bound(self, queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> _KeyBound:
        node: ResourceNode = queue
        if not queue.spec.preemption.preempts:
            node, priority = queue.lender(key), 0
        return self._key_bounds.setdefault((node, priority, key), _KeyBound(queue, key, priority))

    def _latest_end(self, alternatives: _BoundAlternatives) -> float:
        """Return the latest end of a shape's workloads; see ShapeBound."""
        latest = -inf
        for requests in alternatives:
            for bound, amount in requests:
                if bound.version != self._version:
                    bound.version = self._version
                    bound.available = bound.queue.available(bound.key)
                    bound.most = self._most(bound)
                if amount > bound.most:
                    break
            else:
                latest = max(latest, self._reserved_end(requests))
                if latest == inf:
                    break
        return latest

    def _reserved_end(self, requests: _BoundRequests) -> float:
        """Return until when a flavor's requests are available alongside the reservations, if they are available now."""
        future, latest = self._future, inf
        if future is None:
            return inf
        for bound, amount in requests:
            if amount > bound.available:
                return inf
        places = self._placing_flavors and any(bound.key.flavor in self._placing_flavors for bound, _ in requests)
        for bound, amount in requests:
            queue = bound.queue
            if places and queue.parent is not None and queue.spec.preemption.reclaims:
                return inf
            end = future.latest_end(queue.name, bound.key, amount, bound.priority if places else None)
            latest = min(latest, end)
        return latest

    def _most(self, bound: _KeyBound) -> int:
        """Return the largest amount of a key that a workload can get; UNLIMITED if no bound is known."""
        queue, key, preemption = bound.queue, bound.key, bound.queue.spec.preemption
        preemptible = preemptible_usage(queue, bound.priority, key)
        most = max(0, plus(bound.available, preemptible))
        if queue.parent is None or not preemption.reclaims:
            return most
        if self._settings.fair_sharing or preemption.borrow_within_cohort != "Never":
            return UNLIMITED
        unused_nominal = minus(queue.subtree_quota[key], queue.usage[key])
        most = max(most, plus(unused_nominal, preemptible))
        local_available = queue.local_available(key)
        cohort = queue.parent
        while cohort.parent is not None:
            unused = minus(cohort.subtree_quota[key], cohort.usage[key])
            most = max(most, plus(local_available, unused))
            local_available = plus(local_available, cohort.local_available(key))
            cohort = cohort.parent
        return most


def preemptible_usage(queue: ClusterQueueSnapshot, priority: int, key: FlavorResource) -> int:
    """Return an upper bound on the usage that a workload of this priority may preempt within its queue."""
    policy = queue.spec.preemption.within_cluster_queue
    if policy in {"Never", ""}:
        return 0
    limit = priority + (policy == "LowerOrNewerEqualPriority")
    return sum(
        entry.usage.get(key, 0) for running_priority, entry in queue.priority_usage.items() if running_priority < limit
    )

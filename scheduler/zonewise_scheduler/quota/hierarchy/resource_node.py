"""The nodes of the quota tree: quotas, usage and available amounts (pkg/cache/scheduler/resource_node.go).

- The quota of a subtree is the node's own nominal quota plus what its children lend.
- The local quota is the part of the subtree's quota above the lending limit. Only the subtree itself can use it.
- Usage fills the local quota first. Only usage beyond the local quota also counts at the parent.
- The available amount is the unused local quota plus what is available at the parent, up to the borrowing limit.
- The available amount is negative at a root whose usage exceeds its quota. This happens when quotas are lowered.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource, resource_quotas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
    from zonewise_scheduler.quota.api.resource_quota import ResourceQuota
    from zonewise_scheduler.quota.api.workload_types import Usage, Workload
    from zonewise_scheduler.quota.hierarchy.drs import DRS


class Amounts(dict["FlavorResource", int]):
    """Amounts by flavor resource; 0 for all that are not named. Unlike a Counter, it is copied fast."""

    def __missing__(self, key: FlavorResource) -> int:
        return 0


class ResourceNode:
    """A node of the tree. Only `usage` changes once the tree is built."""

    def __init__(self, spec: ClusterQueue | Cohort) -> None:
        self.name = spec.name
        self.fair_weight = spec.fair_weight
        self.quotas: dict[FlavorResource, ResourceQuota] = dict(resource_quotas(spec.resource_groups))
        self.parent: CohortSnapshot | None = None
        self.subtree_quota = Amounts({key: quota.nominal for key, quota in self.quotas.items()})
        """The quota of the node and all nodes below it."""
        self.usage = Amounts()
        """The usage that counts against `subtree_quota`."""
        self.share: DRS | None = None
        """The share of this usage, if dominant_resource_share() has computed it."""

    def copy(self) -> Self:
        """Return a copy with its own usage, but with the original's parent and children."""
        node = object.__new__(type(self))
        node.__dict__.update(self.__dict__)  # reservations copy every node for each start, and copy.copy() is slow
        node.usage = Amounts(self.usage)
        return node

    def path_parent_to_root(self) -> Iterator[CohortSnapshot]:
        """Yield the ancestor cohorts, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    # --- quotas

    @cached_property
    def _local_quota(self) -> dict[FlavorResource, int]:
        return {
            key: max(0, minus(self.subtree_quota[key], quota.lending_limit))
            for key, quota in self.quotas.items()
            if quota.lending_limit is not None
        }

    @cached_property
    def _limited(self) -> frozenset[FlavorResource]:
        """The flavor resources with a lending or borrowing limit; of others, as much is available as at the parent."""
        limits = {key: (quota.lending_limit, quota.borrowing_limit) for key, quota in self.quotas.items()}
        return frozenset(key for key, both in limits.items() if both != (None, None))

    def local_quota(self, key: FlavorResource) -> int:
        """Return the part of the subtree's quota that is not lent."""
        return self._local_quota.get(key, 0)

    def potential_available(self, key: FlavorResource) -> int:
        """Return the amount that would be available without any usage."""
        subtree_quota = self.subtree_quota[key]
        if self.parent is None:
            return subtree_quota
        potential = plus(self.local_quota(key), self.parent.potential_available(key))
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            potential = min(plus(subtree_quota, quota.borrowing_limit), potential)
        return potential

    @cached_property
    def lendable(self) -> Mapping[str, int]:
        """The amounts available without any usage, by resource, over all flavors of the tree (calculateLendable)."""
        root = self
        while root.parent is not None:
            root = root.parent
        lendable: dict[str, int] = {}
        for key in root.subtree_quota:
            lendable[key.resource] = plus(lendable.get(key.resource, 0), self.potential_available(key))
        return lendable

    # --- usage

    def local_available(self, key: FlavorResource) -> int:
        """Return the unused part of the local quota."""
        return max(0, minus(self.local_quota(key), self.usage[key]))

    def available(self, key: FlavorResource) -> int:
        """Return how much more can be used, including the quota of ancestors; may be negative."""
        if self.parent is None:
            return minus(self.subtree_quota[key], self.usage[key])
        parent_available = self.parent.available(key)
        if key not in self._limited:
            return parent_available
        subtree_quota, usage, local_quota = self.subtree_quota[key], self.usage[key], self.local_quota(key)
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            unused = minus(minus(subtree_quota, local_quota), max(0, minus(usage, local_quota)))
            parent_available = min(plus(unused, quota.borrowing_limit), parent_available)
        return plus(max(0, minus(local_quota, usage)), parent_available)

    def lender(self, key: FlavorResource) -> ResourceNode:
        """Return the highest node up to which no limit applies; available() of this node is always the same."""
        node: ResourceNode = self
        while node.parent is not None and key not in node._limited:
            node = node.parent
        return node

    def borrowing_with(self, key: FlavorResource, more: int = 0) -> bool:
        """Return whether the node borrows, that is, exceeds the subtree's quota, with this additional usage."""
        return self.subtree_quota[key] < plus(self.usage[key], more)

    def is_within_nominal(self, keys: Iterable[FlavorResource]) -> bool:
        """Return whether the node borrows none of these (IsWithinNominalInResources)."""
        return not any(self.borrowing_with(key) for key in keys)

    def usage_beyond(self, usage: Usage) -> Usage:
        """Return the part of additional usage that add_usage() would add at the parent."""
        beyond = {key: minus(amount, self.local_available(key)) for key, amount in usage.items()}
        return {key: amount for key, amount in beyond.items() if amount > 0}

    def add_amount(self, key: FlavorResource, amount: int) -> None:
        """Add usage at this node, and the part beyond the local quota at its parent."""
        node: ResourceNode | None = self
        while node is not None:
            usage = node.usage[key]
            beyond = minus(amount, node.local_available(key)) if node._local_quota or usage < 0 else amount
            node.usage[key] = plus(usage, amount)
            node.share = None
            if beyond <= 0:
                return
            amount, node = beyond, node.parent

    def remove_amount(self, key: FlavorResource, amount: int) -> None:
        """Remove usage that add_amount() added."""
        node: ResourceNode | None = self
        while node is not None:
            usage = node.usage[key]
            beyond = minus(usage, node.local_quota(key)) if node._local_quota else usage
            node.usage[key] = minus(usage, amount)
            node.share = None
            if beyond <= 0:
                return
            amount, node = min(amount, beyond), node.parent

    def add_usage(self, usage: Usage) -> None:
        """Add usage of several flavor resources."""
        for key, amount in usage.items():
            self.add_amount(key, amount)

    def remove_usage(self, usage: Usage) -> None:
        """Remove usage of several flavor resources."""
        for key, amount in usage.items():
            self.remove_amount(key, amount)


class PriorityUsage(NamedTuple):
    """The running workloads of one priority in a queue. Copies of the queue share it."""

    workloads: int
    """Their number."""
    usage: Usage

    def changed(self, workload: Workload, sign: int) -> PriorityUsage:
        """Return the result of adding a workload (sign 1) or removing it (sign -1)."""
        more = {key: self.usage.get(key, 0) + sign * amount for key, amount in workload.usage.items()}
        return PriorityUsage(self.workloads + sign, {**self.usage, **more})


NO_USAGE = PriorityUsage(0, {})


class ClusterQueueSnapshot(ResourceNode):
    """A ClusterQueue in the tree."""

    def __init__(self, spec: ClusterQueue) -> None:
        super().__init__(spec)
        self.spec = spec
        self.rg_by_resource = {
            resource: group for group in reversed(spec.resource_groups) for resource in group.covered_resources
        }
        self.priority_usage: dict[int, PriorityUsage] = {}
        """Usage by priority, only for priorities with running workloads."""

    @cached_property
    def keys_by_resource(self) -> Mapping[str, tuple[FlavorResource, ...]]:
        """The flavors of each resource, in the order of the scan."""
        return {
            resource: tuple(FlavorResource(name, resource) for name in group.flavor_names)
            for resource, group in self.rg_by_resource.items()
        }

    def copy(self) -> Self:
        """Return a copy with its own usage, but with the original's parent."""
        node = super().copy()
        node.priority_usage = dict(self.priority_usage)
        return node

    def count_workload(self, workload: Workload) -> None:
        """Count a workload that now runs in this queue. Its usage is added separately."""
        entry = self.priority_usage.get(workload.priority, NO_USAGE)
        self.priority_usage[workload.priority] = entry.changed(workload, 1)

    def uncount_workload(self, workload: Workload) -> None:
        """Stop counting a workload that no longer runs in this queue."""
        entry = self.priority_usage[workload.priority].changed(workload, -1)
        if entry.workloads:
            self.priority_usage[workload.priority] = entry
        else:
            del self.priority_usage[workload.priority]

    @property
    def root(self) -> CohortSnapshot | None:
        """The root cohort; None if the queue is in no cohort."""
        node = self.parent
        while node is not None and node.parent is not None:
            node = node.parent
        return node


class CohortSnapshot(ResourceNode):
    """A Cohort in the tree."""

    def __init__(self, spec: Cohort) -> None:
        super().__init__(spec)
        self.child_cohorts: list[CohortSnapshot] = []
        self.child_cqs: list[ClusterQueueSnapshot] = []
        """Only active queues. An inactive queue is omitted, although its quota is lent."""

    def subtree_cluster_queues(self) -> Iterator[ClusterQueueSnapshot]:
        """Yield the queues of this cohort and of all cohorts below it."""
        yield from self.child_cqs
        for cohort in self.child_cohorts:
            yield from cohort.subtree_cluster_queues()

    @cached_property
    def height(self) -> int:
        """The distance to the furthest node below."""
        return max([int(bool(self.child_cqs)), *(cohort.height + 1 for cohort in self.child_cohorts)])


def find_height_of_lowest_subtree_that_fits(
    queue: ClusterQueueSnapshot, key: FlavorResource, amount: int
) -> tuple[int, bool]:
    """Return the height of the lowest subtree with enough quota for more usage, and whether it is below the root.

    The height is 0 if the queue need not borrow. If no subtree has enough quota, it is the height of the tree.
    Upstream: hierarchical_preemption.go FindHeightOfLowestSubtreeThatFits.
    """
    if queue.parent is None or not queue.borrowing_with(key, amount):
        return 0, queue.parent is not None
    remaining = minus(amount, queue.local_available(key))
    cohort = queue.parent
    while cohort.parent is not None and cohort.borrowing_with(key, remaining):
        remaining = minus(remaining, cohort.local_available(key))
        cohort = cohort.parent
    return cohort.height, cohort.parent is not None

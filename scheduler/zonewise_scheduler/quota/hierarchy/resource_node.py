"""A ClusterQueue or Cohort in the tree: its quotas, what is used, and what it can get (pkg/cache/scheduler/
resource_node.go).

The rules. The quota of a subtree is the node's own nominal quota with what its children lend. What a node does not
lend (its subtree's quota above its lending limit) is local to it: only its own subtree uses that. Usage fills what is
local first, and only what is more than local counts against the parent too. Available is what is left of local, and
what the parent has available, as far as the borrowing limit allows; it is negative at a root that is used beyond its
quota, which happens when quotas are lowered.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.resource_quota import resource_quotas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource, ResourceQuota
    from zonewise_scheduler.quota.api.workload_types import Usage, Workload


class ResourceNode:
    """A node of the tree; `usage` changes, all else is fixed once the tree is built."""

    def __init__(self, spec: ClusterQueue | Cohort) -> None:
        self.name = spec.name
        self.fair_weight = spec.fair_weight
        self.quotas: dict[FlavorResource, ResourceQuota] = dict(resource_quotas(spec.resource_groups))
        self.parent: CohortSnapshot | None = None
        self.subtree_quota: dict[FlavorResource, int] = {key: quota.nominal for key, quota in self.quotas.items()}
        """The quota of the node and of what is below it."""
        self.usage: dict[FlavorResource, int] = {}
        """What counts against `subtree`."""

    def copy(self) -> Self:
        """Return another with usage of its own; its parent, and what is below it, are still those of this one."""
        other = copy(self)
        other.usage = dict(self.usage)
        return other

    def path_parent_to_root(self) -> Iterator[CohortSnapshot]:
        """Yield the cohorts above, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    # --- quotas

    @cached_property
    def _local(self) -> dict[FlavorResource, int]:
        return {
            key: max(0, minus(self.subtree_quota.get(key, 0), quota.lending_limit))
            for key, quota in self.quotas.items()
            if quota.lending_limit is not None
        }

    def local_quota(self, key: FlavorResource) -> int:
        """Return the part of the subtree's quota that is not lent."""
        return self._local.get(key, 0)

    def potential_available(self, key: FlavorResource) -> int:
        """Return what would be available if nothing were used."""
        own = self.subtree_quota.get(key, 0)
        if self.parent is None:
            return own
        most = plus(self.local_quota(key), self.parent.potential_available(key))
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            most = min(plus(own, quota.borrowing_limit), most)
        return most

    @cached_property
    def lendable(self) -> Mapping[str, int]:
        """What would be available if nothing were used, by resource, over all flavors of the tree."""
        root = self
        while root.parent is not None:
            root = root.parent
        found: dict[str, int] = {}
        for key in root.subtree_quota:
            found[key.resource] = plus(found.get(key.resource, 0), self.potential_available(key))
        return found

    # --- usage

    def local_available(self, key: FlavorResource) -> int:
        """Return what is left of the part that is not lent."""
        return max(0, minus(self.local_quota(key), self.usage.get(key, 0)))

    def available(self, key: FlavorResource) -> int:
        """Return what is left for more usage, here and above; it may be negative."""
        own, used = self.subtree_quota.get(key, 0), self.usage.get(key, 0)
        if self.parent is None:
            return minus(own, used)
        above = self.parent.available(key)
        local = self.local_quota(key)
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            unused = minus(minus(own, local), max(0, minus(used, local)))
            above = min(plus(unused, quota.borrowing_limit), above)
        return plus(max(0, minus(local, used)), above)

    def borrowing_with(self, key: FlavorResource, more: int = 0) -> bool:
        """Tell whether the subtree's quota is exceeded with so much more usage: whether it borrows."""
        return self.subtree_quota.get(key, 0) < plus(self.usage.get(key, 0), more)

    def is_within_nominal(self, keys: Iterable[FlavorResource]) -> bool:
        """Tell whether nothing of these is borrowed."""
        return not any(self.borrowing_with(key) for key in keys)

    def add_amount(self, key: FlavorResource, amount: int) -> None:
        """Use more here, and above what is more than local."""
        beyond = minus(amount, self.local_available(key))
        self.usage[key] = plus(self.usage.get(key, 0), amount)
        if self.parent is not None and beyond > 0:
            self.parent.add_amount(key, beyond)

    def remove_amount(self, key: FlavorResource, amount: int) -> None:
        """Use less: what add() added."""
        used = self.usage.get(key, 0)
        beyond = minus(used, self.local_quota(key))
        self.usage[key] = minus(used, amount)
        if self.parent is not None and beyond > 0:
            self.parent.remove_amount(key, min(amount, beyond))

    def add_usage(self, usage: Usage) -> None:
        """Use more of several."""
        for key, amount in usage.items():
            self.add_amount(key, amount)

    def remove_usage(self, usage: Usage) -> None:
        """Use less of several."""
        for key, amount in usage.items():
            self.remove_amount(key, amount)


class PriorityUsage:
    """Those of one priority that run in a queue: how many, and what they hold."""

    __slots__ = ("count", "usage")

    def __init__(self, count: int = 0, usage: Usage | None = None) -> None:
        self.count = count
        self.usage: dict[FlavorResource, int] = dict(usage or {})


class ClusterQueueSnapshot(ResourceNode):
    """A ClusterQueue."""

    def __init__(self, spec: ClusterQueue) -> None:
        super().__init__(spec)
        self.spec = spec
        self.rg_by_resource = {
            resource: group for group in reversed(spec.resource_groups) for resource in group.covered_resources
        }
        self.priority_usage: dict[int, PriorityUsage] = {}
        """By priority; of those only that some run of."""

    def copy(self) -> Self:
        """Return another with usage of its own; its parent is still that of this one."""
        other = super().copy()
        other.priority_usage = {
            priority: PriorityUsage(one.count, one.usage) for priority, one in self.priority_usage.items()
        }
        return other

    def count_workload(self, workload: Workload) -> None:
        """Count one that runs here; its usage is added apart from it."""
        one = self.priority_usage.get(workload.priority)
        if one is None:
            one = self.priority_usage[workload.priority] = PriorityUsage()
        one.count += 1
        for key, amount in workload.usage.items():
            one.usage[key] = one.usage.get(key, 0) + amount

    def uncount_workload(self, workload: Workload) -> None:
        """Count one that does not run here any more."""
        one = self.priority_usage[workload.priority]
        one.count -= 1
        if not one.count:
            del self.priority_usage[workload.priority]
            return
        for key, amount in workload.usage.items():
            one.usage[key] -= amount

    @property
    def root(self) -> CohortSnapshot | None:
        """The root cohort; None where it is in no cohort."""
        node = self.parent
        while node is not None and node.parent is not None:
            node = node.parent
        return node


class CohortSnapshot(ResourceNode):
    """A Cohort."""

    def __init__(self, spec: Cohort) -> None:
        super().__init__(spec)
        self.child_cohorts: list[CohortSnapshot] = []
        self.child_cqs: list[ClusterQueueSnapshot] = []
        """Those that take part: no queue that is held is here, though its quota is lent on."""

    def subtree_cluster_queues(self) -> Iterator[ClusterQueueSnapshot]:
        """Yield the queues here and below."""
        yield from self.child_cqs
        for cohort in self.child_cohorts:
            yield from cohort.subtree_cluster_queues()

    @cached_property
    def height(self) -> int:
        """How far the furthest node below is."""
        return max(
            [min(len(self.child_cqs) + len(self.child_cohorts), 1), *(one.height + 1 for one in self.child_cohorts)]
        )


def find_height_of_lowest_subtree_that_fits(
    queue: ClusterQueueSnapshot, key: FlavorResource, amount: int
) -> tuple[int, bool]:
    """Return the height of the lowest subtree whose quota has room for more usage, and whether it is not all the tree.

    0 where the queue need not borrow. Where there is no such subtree, the height of the tree.
    hierarchical_preemption.go FindHeightOfLowestSubtreeThatFits.
    """
    if queue.parent is None or not queue.borrowing_with(key, amount):
        return 0, queue.parent is not None
    rest = minus(amount, queue.local_available(key))
    height = 0
    for cohort in queue.path_parent_to_root():
        height = cohort.height
        if not cohort.borrowing_with(key, rest):
            return height, cohort.parent is not None
        rest = minus(rest, cohort.local_available(key))
    return height, False

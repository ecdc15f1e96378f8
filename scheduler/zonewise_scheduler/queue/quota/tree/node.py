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

from zonewise_scheduler.queue.quota.model.amounts import minus, plus
from zonewise_scheduler.queue.quota.model.quotas import each_quota

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue, Cohort
    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource, Quota
    from zonewise_scheduler.queue.quota.model.workload import Usage, Workload


class Node:
    """A node of the tree; `usage` changes, all else is fixed once the tree is built."""

    def __init__(self, spec: ClusterQueue | Cohort) -> None:
        self.name = spec.name
        self.weight = spec.weight
        self.quotas: dict[FlavorResource, Quota] = dict(each_quota(spec.groups))
        self.parent: CohortNode | None = None
        self.subtree: dict[FlavorResource, int] = {key: quota.nominal for key, quota in self.quotas.items()}
        """The quota of the node and of what is below it."""
        self.usage: dict[FlavorResource, int] = {}
        """What counts against `subtree`."""

    def copy(self) -> Self:
        """Return another with usage of its own; its parent, and what is below it, are still those of this one."""
        other = copy(self)
        other.usage = dict(self.usage)
        return other

    def ancestors(self) -> Iterator[CohortNode]:
        """Yield the cohorts above, the nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    # --- quotas

    @cached_property
    def _local(self) -> dict[FlavorResource, int]:
        return {
            key: max(0, minus(self.subtree.get(key, 0), quota.lending))
            for key, quota in self.quotas.items()
            if quota.lending is not None
        }

    def local(self, key: FlavorResource) -> int:
        """Return the part of the subtree's quota that is not lent."""
        return self._local.get(key, 0)

    def potential(self, key: FlavorResource) -> int:
        """Return what would be available if nothing were used."""
        own = self.subtree.get(key, 0)
        if self.parent is None:
            return own
        most = plus(self.local(key), self.parent.potential(key))
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing is not None:
            most = min(plus(own, quota.borrowing), most)
        return most

    @cached_property
    def lendable(self) -> Mapping[str, int]:
        """What would be available if nothing were used, by resource, over all flavors of the tree."""
        root = self
        while root.parent is not None:
            root = root.parent
        found: dict[str, int] = {}
        for key in root.subtree:
            found[key.resource] = plus(found.get(key.resource, 0), self.potential(key))
        return found

    # --- usage

    def local_available(self, key: FlavorResource) -> int:
        """Return what is left of the part that is not lent."""
        return max(0, minus(self.local(key), self.usage.get(key, 0)))

    def available(self, key: FlavorResource) -> int:
        """Return what is left for more usage, here and above; it may be negative."""
        own, used = self.subtree.get(key, 0), self.usage.get(key, 0)
        if self.parent is None:
            return minus(own, used)
        above = self.parent.available(key)
        local = self.local(key)
        quota = self.quotas.get(key)
        if quota is not None and quota.borrowing is not None:
            unused = minus(minus(own, local), max(0, minus(used, local)))
            above = min(plus(unused, quota.borrowing), above)
        return plus(max(0, minus(local, used)), above)

    def exceeds(self, key: FlavorResource, more: int = 0) -> bool:
        """Tell whether the subtree's quota is exceeded with so much more usage: whether it borrows."""
        return self.subtree.get(key, 0) < plus(self.usage.get(key, 0), more)

    def within_nominal(self, keys: Iterable[FlavorResource]) -> bool:
        """Tell whether nothing of these is borrowed."""
        return not any(self.exceeds(key) for key in keys)

    def add(self, key: FlavorResource, amount: int) -> None:
        """Use more here, and above what is more than local."""
        beyond = minus(amount, self.local_available(key))
        self.usage[key] = plus(self.usage.get(key, 0), amount)
        if self.parent is not None and beyond > 0:
            self.parent.add(key, beyond)

    def remove(self, key: FlavorResource, amount: int) -> None:
        """Use less: what add() added."""
        used = self.usage.get(key, 0)
        beyond = minus(used, self.local(key))
        self.usage[key] = minus(used, amount)
        if self.parent is not None and beyond > 0:
            self.parent.remove(key, min(amount, beyond))

    def add_usage(self, usage: Usage) -> None:
        """Use more of several."""
        for key, amount in usage.items():
            self.add(key, amount)

    def remove_usage(self, usage: Usage) -> None:
        """Use less of several."""
        for key, amount in usage.items():
            self.remove(key, amount)


class Standing:
    """Those of one priority that run in a queue: how many, and what they hold."""

    __slots__ = ("count", "usage")

    def __init__(self, count: int = 0, usage: Usage | None = None) -> None:
        self.count = count
        self.usage: dict[FlavorResource, int] = dict(usage or {})


class QueueNode(Node):
    """A ClusterQueue."""

    def __init__(self, spec: ClusterQueue) -> None:
        super().__init__(spec)
        self.spec = spec
        self.group_of = {resource: group for group in reversed(spec.groups) for resource in group.covered}
        self.standing: dict[int, Standing] = {}
        """By priority; of those only that some run of."""

    def copy(self) -> Self:
        """Return another with usage of its own; its parent is still that of this one."""
        other = super().copy()
        other.standing = {priority: Standing(one.count, one.usage) for priority, one in self.standing.items()}
        return other

    def enter(self, workload: Workload) -> None:
        """Count one that runs here; its usage is added apart from it."""
        one = self.standing.get(workload.priority)
        if one is None:
            one = self.standing[workload.priority] = Standing()
        one.count += 1
        for key, amount in workload.usage.items():
            one.usage[key] = one.usage.get(key, 0) + amount

    def leave(self, workload: Workload) -> None:
        """Count one that does not run here any more."""
        one = self.standing[workload.priority]
        one.count -= 1
        if not one.count:
            del self.standing[workload.priority]
            return
        for key, amount in workload.usage.items():
            one.usage[key] -= amount

    @property
    def root(self) -> CohortNode | None:
        """The root cohort; None where it is in no cohort."""
        node = self.parent
        while node is not None and node.parent is not None:
            node = node.parent
        return node


class CohortNode(Node):
    """A Cohort."""

    def __init__(self, spec: Cohort) -> None:
        super().__init__(spec)
        self.cohorts: list[CohortNode] = []
        self.queues: list[QueueNode] = []
        """Those that take part: no queue that is held is here, though its quota is lent on."""

    def all_queues(self) -> Iterator[QueueNode]:
        """Yield the queues here and below."""
        yield from self.queues
        for cohort in self.cohorts:
            yield from cohort.all_queues()

    @cached_property
    def height(self) -> int:
        """How far the furthest node below is."""
        return max([min(len(self.queues) + len(self.cohorts), 1), *(one.height + 1 for one in self.cohorts)])


def borrowing_height(queue: QueueNode, key: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height of the lowest subtree whose quota has room for more usage, and whether it is not all the tree.

    0 where the queue need not borrow. Where there is no such subtree, the height of the tree.
    hierarchical_preemption.go FindHeightOfLowestSubtreeThatFits.
    """
    if queue.parent is None or not queue.exceeds(key, amount):
        return 0, queue.parent is not None
    rest = minus(amount, queue.local_available(key))
    height = 0
    for cohort in queue.ancestors():
        height = cohort.height
        if not cohort.exceeds(key, rest):
            return height, cohort.parent is not None
        rest = minus(rest, cohort.local_available(key))
    return height, False

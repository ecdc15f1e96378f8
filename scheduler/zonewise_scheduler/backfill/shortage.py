"""Which quota there is too little of, and whose limit that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.quota.flavorassigner.assignment import FlavorStatus
    from zonewise_scheduler.quota.hierarchy.resource_node import CohortSnapshot, ResourceNode

LimitKind = Literal["nominal", "borrowing", "cohort"]
"""The quota of a ClusterQueue in no cohort; what a ClusterQueue or Cohort may borrow; all the quota of a tree."""


class QuotaShortage(NamedTuple):
    """One resource of one flavor, in amounts."""

    flavor: str
    resource: str
    requested: int
    available: int
    """What its ClusterQueue could have of it now."""
    limit_kind: LimitKind
    """What stands in the way: raised, or less used, it leaves more."""
    limiting_node: str
    """The ClusterQueue or Cohort that it is of."""
    limit_amount: int
    """How much it is in all."""
    not_lent: int = 0
    """What others in the tree have left over, and do not lend."""
    exceeds_max_quota: bool = False
    """It is too little even where nothing is used; then `left` is what there would be."""


def quota_shortage(queue: ClusterQueueSnapshot, reason: FlavorStatus) -> QuotaShortage | None:
    """Return what a flavor lacks by a hindrance; None where that is not quota."""
    if not reason.missing:
        return None
    key = FlavorResource(reason.flavor, reason.resource)
    never = reason.reason == "ExceedsMaxQuota"
    left = queue.potential_available(key) if never else max(0, queue.available(key))
    node, limit = _binding(queue, key, empty=never)
    quota = node.quotas.get(key)
    borrowing = None if quota is None else quota.borrowing_limit
    size = borrowing if limit == "borrowing" and borrowing is not None else node.subtree_quota.get(key, 0)
    withheld = 0 if limit != "cohort" else _withheld(queue, key, empty=never)
    return QuotaShortage(
        key.flavor, key.resource, plus(left, reason.missing), left, limit, node.name, size, withheld, never
    )


def _binding(queue: ClusterQueueSnapshot, key: FlavorResource, *, empty: bool) -> tuple[ResourceNode, LimitKind]:
    """Return the nearest node that leaves no more than it does by a limit of its own; see Node.available, potential."""
    node: ResourceNode = queue
    while node.parent is not None:
        quota = node.quotas.get(key)
        if quota is not None and quota.borrowing_limit is not None:
            local = node.local_quota(key)
            over = 0 if empty else max(0, minus(node.usage.get(key, 0), local))
            may = plus(minus(minus(node.subtree_quota.get(key, 0), local), over), quota.borrowing_limit)
            if may <= (node.parent.potential_available(key) if empty else node.parent.available(key)):
                return node, "borrowing"
        node = node.parent
    return node, "nominal" if isinstance(node, ClusterQueueSnapshot) else "cohort"


def _withheld(queue: ClusterQueueSnapshot, key: FlavorResource, *, empty: bool) -> int:
    """Return what is left over in the tree beside a queue, and is not lent."""
    own: set[ResourceNode] = {queue, *queue.path_parent_to_root()}
    found = 0
    for node in _below(queue.root):
        if node not in own:
            found = plus(found, node.local_quota(key) if empty else node.local_available(key))
    return found


def _below(cohort: CohortSnapshot | None) -> Iterator[ResourceNode]:
    if cohort is not None:
        yield from cohort.child_cqs
        for one in cohort.child_cohorts:
            yield one
            yield from _below(one)

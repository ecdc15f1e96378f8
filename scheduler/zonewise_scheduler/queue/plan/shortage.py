"""Which quota there is too little of, and whose limit that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from zonewise_scheduler.queue.quota.model.amounts import minus, plus
from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
from zonewise_scheduler.queue.quota.tree.node import QueueNode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.queue.quota.flavors.assignment import Hindrance
    from zonewise_scheduler.queue.quota.tree.node import CohortNode, Node

Limit = Literal["nominal", "borrowing", "cohort"]
"""The quota of a ClusterQueue in no cohort; what a ClusterQueue or Cohort may borrow; all the quota of a tree."""


class Shortage(NamedTuple):
    """One resource of one flavor, in amounts."""

    flavor: str
    resource: str
    asked: int
    left: int
    """What its ClusterQueue could have of it now."""
    limit: Limit
    """What stands in the way: raised, or less used, it leaves more."""
    node: str
    """The ClusterQueue or Cohort that it is of."""
    size: int
    """How much it is in all."""
    withheld: int = 0
    """What others in the tree have left over, and do not lend."""
    never: bool = False
    """It is too little even where nothing is used; then `left` is what there would be."""


def shortage_of(queue: QueueNode, found: Hindrance) -> Shortage | None:
    """Return what a flavor lacks by a hindrance; None where that is not quota."""
    if not found.missing:
        return None
    key = FlavorResource(found.flavor, found.resource)
    never = found.why == "ExceedsMaxQuota"
    left = queue.potential(key) if never else max(0, queue.available(key))
    node, limit = _binding(queue, key, empty=never)
    quota = node.quotas.get(key)
    borrowing = None if quota is None else quota.borrowing
    size = borrowing if limit == "borrowing" and borrowing is not None else node.subtree.get(key, 0)
    withheld = 0 if limit != "cohort" else _withheld(queue, key, empty=never)
    return Shortage(key.flavor, key.resource, plus(left, found.missing), left, limit, node.name, size, withheld, never)


def _binding(queue: QueueNode, key: FlavorResource, *, empty: bool) -> tuple[Node, Limit]:
    """Return the nearest node that leaves no more than it does by a limit of its own; see Node.available, potential."""
    node: Node = queue
    while node.parent is not None:
        quota = node.quotas.get(key)
        if quota is not None and quota.borrowing is not None:
            local = node.local(key)
            over = 0 if empty else max(0, minus(node.usage.get(key, 0), local))
            may = plus(minus(minus(node.subtree.get(key, 0), local), over), quota.borrowing)
            if may <= (node.parent.potential(key) if empty else node.parent.available(key)):
                return node, "borrowing"
        node = node.parent
    return node, "nominal" if isinstance(node, QueueNode) else "cohort"


def _withheld(queue: QueueNode, key: FlavorResource, *, empty: bool) -> int:
    """Return what is left over in the tree beside a queue, and is not lent."""
    own: set[Node] = {queue, *queue.ancestors()}
    found = 0
    for node in _below(queue.root):
        if node not in own:
            found = plus(found, node.local(key) if empty else node.local_available(key))
    return found


def _below(cohort: CohortNode | None) -> Iterator[Node]:
    if cohort is not None:
        yield from cohort.queues
        for one in cohort.cohorts:
            yield one
            yield from _below(one)

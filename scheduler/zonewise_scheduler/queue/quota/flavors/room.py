"""How a queue can have so much of one flavor: free, by preemption, or not at all (fitsResourceQuota)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.flavors.assignment import Hindrance
from zonewise_scheduler.queue.quota.flavors.modes import Grade, Reach
from zonewise_scheduler.queue.quota.model.amounts import minus
from zonewise_scheduler.queue.quota.tree.node import borrowing_height

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.preemption.targets import Oracle, Possibility
    from zonewise_scheduler.queue.quota.tree.node import QueueNode

_REACH: dict[Possibility, Reach] = {
    "NoCandidates": Reach.NO_CANDIDATES, "Preempt": Reach.PREEMPT, "Reclaim": Reach.RECLAIM,
}  # fmt: skip
POSSIBILITY: dict[Reach, Possibility] = {reach: possibility for possibility, reach in _REACH.items()}


def grade_of(
    queue: QueueNode, workload: Workload, key: FlavorResource, amount: int, oracle: Oracle, *, fair: bool
) -> tuple[Grade, Hindrance | None]:
    """Return how a workload can have an amount, and what stands in the way; None where it is free.

    Others are asked to give way only where that may be of use: for no more than the nominal quota, where a subtree
    smaller than the tree has quota enough, or where the queue may preempt while it borrows.
    """
    potential = queue.potential(key)
    if amount > potential:
        missing = minus(amount, potential)
        return Grade(Reach.NO_FIT, 0), Hindrance("ExceedsMaxQuota", key.flavor, key.resource, missing)
    height, within_tree = borrowing_height(queue, key, amount)
    available = max(0, queue.available(key))
    if amount <= available:
        return Grade(Reach.FIT, height), None
    missing = minus(amount, available)
    if amount <= queue.subtree.get(key, 0) or within_tree or _borrows_by_force(queue, fair=fair):
        possibility, after = oracle(queue, workload, key, amount)
        return Grade(_REACH[possibility], after), Hindrance("InUse", key.flavor, key.resource, missing)
    return Grade(Reach.NO_FIT, height), Hindrance("WaitingForQuota", key.flavor, key.resource, missing)


def _borrows_by_force(queue: QueueNode, *, fair: bool) -> bool:
    rules = queue.spec.preemption
    return rules.borrow != "Never" or (fair and rules.reclaim != "Never")

"""How a queue can have so much of one flavor: free, by preemption, or not at all (fitsResourceQuota)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import minus
from zonewise_scheduler.quota.flavorassigner.assignment import FlavorStatus
from zonewise_scheduler.quota.flavorassigner.granular_mode import GranularMode, PreemptionMode
from zonewise_scheduler.quota.hierarchy.resource_node import find_height_of_lowest_subtree_that_fits

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.preemption.preemption_oracle import PreemptionOracle, PreemptionPossibility

_REACH: dict[PreemptionPossibility, PreemptionMode] = {
    "NoCandidates": PreemptionMode.NO_CANDIDATES, "Preempt": PreemptionMode.PREEMPT, "Reclaim": PreemptionMode.RECLAIM,
}  # fmt: skip
PREEMPTION_POSSIBILITY: dict[PreemptionMode, PreemptionPossibility] = {
    reach: possibility for possibility, reach in _REACH.items()
}


def fits_resource_quota(
    queue: ClusterQueueSnapshot,
    workload: Workload,
    key: FlavorResource,
    amount: int,
    oracle: PreemptionOracle,
    *,
    fair_sharing: bool,
) -> tuple[GranularMode, FlavorStatus | None]:
    """Return how a workload can have an amount, and what stands in the way; None where it is free.

    Others are asked to give way only where that may be of use: for no more than the nominal quota, where a subtree
    smaller than the tree has quota enough, or where the queue may preempt while it borrows.
    """
    potential = queue.potential_available(key)
    if amount > potential:
        missing = minus(amount, potential)
        return GranularMode(PreemptionMode.NO_FIT, 0), FlavorStatus(
            "ExceedsMaxQuota", key.flavor, key.resource, missing
        )
    height, within_tree = find_height_of_lowest_subtree_that_fits(queue, key, amount)
    available = max(0, queue.available(key))
    if amount <= available:
        return GranularMode(PreemptionMode.FIT, height), None
    missing = minus(amount, available)
    if amount <= queue.subtree_quota.get(key, 0) or within_tree or _borrows_by_force(queue, fair=fair_sharing):
        possibility, after = oracle(queue, workload, key, amount)
        return GranularMode(_REACH[possibility], after), FlavorStatus("InUse", key.flavor, key.resource, missing)
    return GranularMode(PreemptionMode.NO_FIT, height), FlavorStatus(
        "WaitingForQuota", key.flavor, key.resource, missing
    )


def _borrows_by_force(queue: ClusterQueueSnapshot, *, fair: bool) -> bool:
    rules = queue.spec.preemption
    return rules.borrow_within_cohort != "Never" or (fair and rules.reclaim_within_cohort != "Never")

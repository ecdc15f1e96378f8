"""The dominant resource share (DRS): the share of the lendable quota that a node borrows, divided by its weight.

pkg/cache/scheduler/fair_sharing.go, KEP-1714. For each resource, the ratio is the borrowed amount over all flavors, in
thousandths of the amount that the parent could lend. The largest ratio counts. A root node and a queue without a cohort
borrow nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import minus, plus
from zonewise_scheduler.quota.hierarchy.drs import DRS

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


def dominant_resource_share(node: ResourceNode, requests: Usage | None = None) -> DRS:
    """Return the share of a node, with `requests` added to its usage."""
    if requests:
        return _compute_share(node, requests)
    if node.share is None:
        node.share = _compute_share(node, {})
    return node.share


def _compute_share(node: ResourceNode, requests: Usage) -> DRS:
    not_borrowing = DRS(fair_weight=node.fair_weight)
    if node.parent is None:
        return not_borrowing
    borrowing: dict[str, int] = {}
    borrowed_frs: list[FlavorResource] = []
    for key, quota in node.subtree_quota.items():
        usage = plus(requests.get(key, 0), node.usage[key])
        if usage > quota:
            borrowing[key.resource] = plus(borrowing.get(key.resource, 0), minus(usage, quota))
            borrowed_frs.append(key)
    if not borrowed_frs:
        return not_borrowing
    ratios = {
        resource: float(amount) * 1000.0 / float(lendable)
        for resource, amount in sorted(borrowing.items())
        if (lendable := node.parent.lendable[resource])
    }
    dominant_resource = max(ratios, key=ratios.__getitem__, default="")
    return DRS(ratios.get(dominant_resource, 0.0), node.fair_weight, dominant_resource, tuple(borrowed_frs))

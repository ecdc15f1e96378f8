"""The dominant resource share (DRS): the share of the lendable quota that a node borrows, divided by its weight.

pkg/cache/scheduler/fair_sharing.go, KEP-1714. For each resource, the ratio is the borrowed amount over all flavors, in
thousandths of the amount that the parent could lend. The largest ratio counts. A node with weight 0 that borrows has an
infinite share; two such nodes are compared by their ratios. A root node and a queue without a cohort borrow nothing.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import UNLIMITED, minus, plus

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode


class DRS(NamedTuple):
    """The share of a node; a larger share is less fair."""

    unweighted_ratio: float = 0.0
    """The largest ratio, in thousandths."""
    fair_weight: float = 1.0
    dominant_resource: str = ""
    borrowed_frs: tuple[FlavorResource, ...] = ()

    @property
    def comparison_key(self) -> tuple[float, float]:
        """The key by which shares are compared (CompareDRS)."""
        share = self.precise_weighted_share
        return share, share if self.fair_weight else self.unweighted_ratio

    @property
    def precise_weighted_share(self) -> float:
        """The share, in thousandths."""
        if self.fair_weight:
            return self.unweighted_ratio / self.fair_weight
        return math.inf if self.unweighted_ratio else 0.0

    @property
    def rounded_weighted_share(self) -> int:
        """The share for a status: rounded up, and the largest integer if it is infinite."""
        share = self.precise_weighted_share
        return UNLIMITED if math.isinf(share) else min(math.ceil(share), UNLIMITED)

    @property
    def precise_weighted_share_serialized(self) -> str:
        """The share for a message: the shortest decimal that represents the number, without an exponent."""
        share = self.precise_weighted_share
        return "+Inf" if math.isinf(share) else f"{Decimal(repr(share)):f}".removesuffix(".0")

    def is_borrowing_on(self, usage: Usage) -> bool:
        """Return whether the node borrows a flavor resource in the usage."""
        return any(amount > 0 and key in self.borrowed_frs for key, amount in usage.items())


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

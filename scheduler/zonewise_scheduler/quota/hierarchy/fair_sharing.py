"""The dominant resource share: how much of what could be lent a node borrows, by its weight.

Source: pkg/cache/scheduler/fair_sharing.go, KEP-1714.

Of each resource: what is borrowed over all flavors, in thousandths of what the parent could have available of it. The
largest counts, divided by the node's weight. A node that borrows with weight 0 has an infinite share; two such are
compared by what they borrow. A root, and a queue in no cohort, borrow nothing.
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
    """A node's share; the larger, the less fair."""

    unweighted_ratio: float = 0.0
    """Thousandths, before the weight; -1 for what is smaller than any share."""
    fair_weight: float = 1.0
    dominant_resource: str = ""
    """The dominant one."""
    borrowed_frs: tuple[FlavorResource, ...] = ()

    @property
    def comparison_key(self) -> tuple[float, float]:
        """What shares are compared by."""
        infinite = self.fair_weight == 0 and self.unweighted_ratio != 0
        return (math.inf, self.unweighted_ratio) if infinite else (self.precise_weighted_share, 0.0)

    @property
    def precise_weighted_share(self) -> float:
        """The share, in thousandths."""
        if self.unweighted_ratio == 0:
            return 0.0
        return self.unweighted_ratio / self.fair_weight if self.fair_weight else math.inf

    @property
    def rounded_weighted_share(self) -> int:
        """As statuses tell it: rounded up; the largest integer where it is infinite."""
        return (
            UNLIMITED
            if math.isinf(self.precise_weighted_share)
            else min(math.ceil(self.precise_weighted_share), UNLIMITED)
        )

    @property
    def precise_weighted_share_serialized(self) -> str:
        """As messages tell it: the shortest decimal that is this number, without an exponent."""
        return (
            "+Inf"
            if math.isinf(self.precise_weighted_share)
            else f"{Decimal(repr(self.precise_weighted_share)):f}".removesuffix(".0")
        )

    def is_borrowing_on(self, usage: Usage) -> bool:
        """Tell whether anything that is used here is borrowed."""
        return any(usage.get(key, 0) > 0 for key in self.borrowed_frs)


NEGATIVE_DRS = DRS(unweighted_ratio=-1.0)


def dominant_resource_share(node: ResourceNode, requests: Usage | None = None) -> DRS:
    """Return a node's share, with so much more usage at the node."""
    if node.parent is None:
        return DRS(fair_weight=node.fair_weight)
    borrowing: dict[str, int] = {}
    borrowed: list[FlavorResource] = []
    for key, quota in node.subtree_quota.items():
        used = node.usage.get(key, 0)
        amount = minus(plus(requests.get(key, 0), used) if requests else used, quota)
        if amount > 0:
            borrowing[key.resource] = plus(borrowing.get(key.resource, 0), amount)
            borrowed.append(key)
    ratio, resource = 0.0, ""
    for name in sorted(borrowing):
        lendable = node.parent.lendable.get(name, 0)
        if lendable > 0 and float(borrowing[name]) * 1000.0 / float(lendable) > ratio:
            ratio, resource = float(borrowing[name]) * 1000.0 / float(lendable), name
    return DRS(ratio, node.fair_weight, resource, tuple(borrowed))

"""The value of a dominant resource share (pkg/cache/scheduler/fair_sharing.go DRS, KEP-1714).

A node with weight 0 that borrows has an infinite share; two such nodes are compared by their ratios.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.api.amount import UNLIMITED

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Usage


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

    def is_borrowing_on(self, usage: Usage) -> bool:
        """Return whether the node borrows a flavor resource in the usage."""
        return any(amount > 0 and key in self.borrowed_frs for key, amount in usage.items())

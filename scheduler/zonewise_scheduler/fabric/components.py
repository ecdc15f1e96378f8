"""Sets of connected switches, which grow as links are added (union-find)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Components:
    """Disjoint sets of switches."""

    def __init__(self, ranks: Mapping[str, tuple[int, str]]) -> None:
        """Start with a set for each switch. A set has the lowest rank of its switches."""
        self._parents = {switch: switch for switch in ranks}
        self._sizes = dict.fromkeys(ranks, 1)
        self._ranks = dict(ranks)

    def root(self, switch: str) -> str:
        """Return the id of the set of a switch."""
        parents = self._parents
        while parents[switch] != switch:
            parents[switch] = parents[parents[switch]]
            switch = parents[switch]
        return switch

    def rank(self, root: str) -> tuple[int, str]:
        """Return the lowest rank in a set."""
        return self._ranks[root]

    def join(self, one: str, two: str) -> None:
        """Join the sets of two switches."""
        large, small = self.root(one), self.root(two)
        if large == small:
            return
        if self._sizes[large] < self._sizes[small]:
            large, small = small, large
        self._parents[small] = large
        self._sizes[large] += self._sizes[small]
        self._ranks[large] = min(self._ranks[large], self._ranks[small])

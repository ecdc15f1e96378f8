"""Backoff of nodes for shapes of pods after mispredictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


class NodeBackoff:
    """The number of mispredictions and the end of the backoff, by node and shape."""

    def __init__(self, timeouts: LedgerTimeouts) -> None:
        self._initial, self._max = timeouts.initial_backoff, timeouts.max_backoff
        self._backoffs: dict[tuple[str, PodShape], tuple[int, float]] = {}

    def record_misprediction(self, node: str, shape: PodShape, at: float) -> None:
        """Start the backoff of a node for a shape; each misprediction doubles its length."""
        mispredictions = self._backoffs.get((node, shape), (0, 0.0))[0] + 1
        backoff = min(self._max, self._initial * 2.0 ** min(mispredictions - 1, 64))
        self._backoffs[node, shape] = mispredictions, at + backoff

    def remaining(self, node: str, shape: PodShape, at: float) -> float:
        """Return the remaining seconds of a backoff, or 0 without a backoff."""
        return max(0.0, self._backoffs.get((node, shape), (0, at))[1] - at) if self._backoffs else 0.0

    def nodes(self, shape: PodShape, at: float) -> list[str]:
        """Return the nodes in backoff for a shape."""
        return [node for (node, other), (_, until) in self._backoffs.items() if other == shape and until > at]

    def forget(self, node: str, shape: PodShape) -> None:
        """Reset a backoff because the node has admitted such a pod."""
        self._backoffs.pop((node, shape), None)

    def expire(self, at: float) -> None:
        """Drop the backoffs that ended longer ago than the longest backoff lasts."""
        for key in [key for key, (_, until) in self._backoffs.items() if until + self._max <= at]:
            del self._backoffs[key]

"""Pairs of a node and a shape of pod that are set aside after a miss, longer with each one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


class NodeBackoff:
    """The pairs: how often each was missed, and until when it is set aside."""

    def __init__(self, timeouts: LedgerTimeouts) -> None:
        self._first, self._longest = timeouts.initial_backoff, timeouts.max_backoff
        self._pairs: dict[tuple[str, PodShape], tuple[int, float]] = {}

    def record_misprediction(self, node: str, shape: PodShape, at: float) -> None:
        """Set a pair aside once more."""
        misses = self._pairs.get((node, shape), (0, 0.0))[0] + 1
        wait = min(self._longest, self._first * 2.0 ** min(misses - 1, 64))
        self._pairs[node, shape] = misses, at + wait

    def remaining(self, node: str, shape: PodShape, at: float) -> float:
        """Return for how many seconds a pair is still set aside; 0 if it is not."""
        return max(0.0, self._pairs.get((node, shape), (0, at))[1] - at) if self._pairs else 0.0

    def forget(self, node: str, shape: PodShape) -> None:
        """Take a pair back: such a pod was admitted there."""
        self._pairs.pop((node, shape), None)

    def expire(self, at: float) -> None:
        """Forget the pairs that have been free again for as long as any is set aside."""
        for pair in [pair for pair, (_, until) in self._pairs.items() if until + self._longest <= at]:
            del self._pairs[pair]

"""The ranks of a queue's workloads in order, so that a position is known without sorting all workloads each time.

The ranks of each LocalQueue are a sorted list. A change is only recorded. The next read applies all recorded changes,
each by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.quota.queue.shape_groups import Rank

MAX_CHANGES = 1000
"""Number of recorded changes after which a new order is cheaper, since it may never be read."""


class QueuedRank(NamedTuple):
    """A rank in a LocalQueue."""

    local_queue: str
    """Key of the LocalQueue if admission follows usage; otherwise ""."""
    rank: Rank


class RankOrder:
    """The ranks of one queue by LocalQueue, each list in order."""

    def __init__(self, ranks: Iterable[QueuedRank]) -> None:
        self._lists: dict[str, list[Rank]] = {}
        for local_queue, rank in ranks:
            self._lists.setdefault(local_queue, []).append(rank)
        for sorted_ranks in self._lists.values():
            sorted_ranks.sort()
        self._changes: list[tuple[QueuedRank, bool]] = []
        """Ranks that were added (True) or removed (False) since the last read, oldest first."""

    @property
    def is_outdated(self) -> bool:
        """Whether so many changes are recorded that a new order is cheaper."""
        return len(self._changes) >= MAX_CHANGES

    def note(self, rank: QueuedRank, *, added: bool) -> None:
        """Record that a rank was added or removed."""
        self._changes.append((rank, added))

    def keys(self, usage: Mapping[str, float]) -> Iterator[str]:
        """Yield the keys of all workloads: those of the LocalQueue with the least usage first, then by rank.

        `usage`: by key of the LocalQueue. The order must not change meanwhile.
        """
        by_usage: dict[float, list[list[Rank]]] = {}
        for local_queue, ranks in self._current().items():
            by_usage.setdefault(usage.get(local_queue, 0.0), []).append(ranks)
        for _, lists in sorted(by_usage.items()):
            yield from (rank[-1] for rank in merge(*lists))

    def count_before(self, queued: QueuedRank, usage: Mapping[str, float]) -> int:
        """Return the number of workloads before one in this order."""
        own, count = usage.get(queued.local_queue, 0.0), 0
        for local_queue, ranks in self._current().items():
            amount = usage.get(local_queue, 0.0)
            if amount < own:
                count += len(ranks)
            elif amount == own:
                count += bisect_left(ranks, queued.rank)
        return count

    def _current(self) -> dict[str, list[Rank]]:
        for (local_queue, rank), added in self._changes:
            ranks = self._lists.setdefault(local_queue, [])
            if added:
                insort(ranks, rank)
            else:
                del ranks[bisect_left(ranks, rank)]
        self._changes.clear()
        return self._lists

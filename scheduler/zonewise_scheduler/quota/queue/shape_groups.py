"""Groups of pending workloads that get the same decision: by scheduling shape, and within a shape by walltime.

A group is inadmissible as a whole, so the cost of a change depends on the number of groups, not of workloads. Heaps
keep stale ranks of removed workloads; ShapeTable drops these when they come first or are many.
"""

from __future__ import annotations

from heapq import heapify
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives

Rank = tuple[int, float, float, str, str]
"""A smaller rank is earlier; the last element is the key."""
ShapeKey = tuple[str, "Hashable"]
"""Key of the LocalQueue (if admission follows usage) and scheduling shape."""


class WalltimeGroup:
    """The workloads of one shape with the same walltime, in order."""

    __slots__ = ("inadmissible", "ranks", "walltime")

    def __init__(self, walltime: float) -> None:
        self.walltime = walltime
        self.ranks: list[Rank] = []
        """A heap that may contain stale ranks."""
        self.inadmissible = False
        """Whether the workloads would delay a reservation."""

    def copy(self) -> WalltimeGroup:
        """Return an independent copy."""
        group = WalltimeGroup(self.walltime)
        group.ranks = list(self.ranks)
        group.inadmissible = self.inadmissible
        return group


class ShapeGroup:
    """The workloads of one shape and, if admission follows usage, of one LocalQueue."""

    __slots__ = (
        "alternatives", "by_walltime", "first", "heads", "inadmissible", "key", "number", "owner", "priority",
        "was_inadmissible",
    )  # fmt: skip

    def __init__(self, key: ShapeKey, priority: int, number: int, owner: object) -> None:
        self.key = key
        self.priority = priority
        """The priority of its workloads, which is part of their shape."""
        self.number = number
        """Number to which PendingEntry refers; copies keep it."""
        self.owner = owner
        """Only the table with this token may change the shape; any other table copies the shape first."""
        self.by_walltime: dict[float, WalltimeGroup] = {}
        """Groups by walltime in seconds."""
        self.first: Rank | None = None
        """The first rank of all workloads; None if it must be determined."""
        self.heads: list[Rank] = []
        """Heap of the first rank of each active walltime group; it may contain stale ranks."""
        self.inadmissible = False
        """Whether all workloads of the shape lack quota."""
        self.was_inadmissible = False
        """Whether a cycle has found one of them inadmissible."""
        self.alternatives: FlavorAlternatives | None = None
        """Their alternative requests, computed once one of them has been inadmissible."""

    @property
    def local_queue_key(self) -> str:
        """Key of the LocalQueue, if admission follows usage."""
        return self.key[0]

    @property
    def first_inadmissible(self) -> Rank:
        """The first rank of the inadmissible workloads."""
        if not self.inadmissible:
            return min([group.ranks[0] for group in self.by_walltime.values() if group.inadmissible])
        if self.first is None:
            self.first = min([group.ranks[0] for group in self.by_walltime.values()])
        return self.first

    def activate(self) -> None:
        """Make all walltime groups active."""
        for group in self.by_walltime.values():
            group.inadmissible = False
        self.heads = [group.ranks[0] for group in self.by_walltime.values()]
        heapify(self.heads)

    def copy(self, owner: object) -> ShapeGroup:
        """Return a copy for another owner; it shares no walltime groups."""
        shape = ShapeGroup(self.key, self.priority, self.number, owner)
        shape.by_walltime = {walltime: group.copy() for walltime, group in self.by_walltime.items()}
        shape.first, shape.heads = self.first, list(self.heads)
        shape.inadmissible, shape.was_inadmissible = self.inadmissible, self.was_inadmissible
        shape.alternatives = self.alternatives
        return shape


class PendingEntry(NamedTuple):
    """A pending workload with its rank and shape number. It never changes, so copies of a queue share it."""

    workload: Workload
    rank: Rank
    shape: int

"""The pending workloads of a queue by shape, and which of them are active.

Only the first workload of a shape can be head. So the cost of a change depends on the number of shapes, not of
workloads.

A table and its copies share shapes. Each table copies a shape before it first changes it (copy on write). Shared shapes
therefore never change, and each table may belong to a different thread.
"""

from __future__ import annotations

from copy import copy
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.queue.shape_groups import PendingEntry, ShapeGroup, WalltimeGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.queue.shape_groups import Rank, ShapeKey

MIN_RANKS = 64
"""Number of ranks that a group may have before its stale ones are dropped."""


class ShapeTable:
    """The shapes of one queue, with their workloads."""

    def __init__(self) -> None:
        self.entries: dict[str, PendingEntry] = {}
        """The workloads by key; change them only through insert() and remove()."""
        self._shapes: dict[int, ShapeGroup] = {}
        """Shapes by number. Some may be empty. Change them only through own()."""
        self._owner = object()
        """The owner of the shapes that no copy shares."""
        self._shape_numbers: dict[ShapeKey, int] = {}
        self._last_shape_number = 0
        self._partly_inadmissible: set[int] = set()
        """Numbers of the shapes that have inadmissible walltime groups."""
        self._emptied: set[int] = set()
        """Numbers of the shapes that may be empty."""
        self._heads: dict[str, list[Rank]] = {}
        """Heaps of the first rank of each active shape, by LocalQueue as in ShapeKey; they may contain stale ranks."""

    def copy(self) -> ShapeTable:
        """Return an independent copy quickly; shared parts are copied only before they change."""
        table = copy(self)
        self._owner, table._owner = object(), object()
        table.entries = dict(self.entries)
        table._shapes = dict(self._shapes)
        table._shape_numbers = dict(self._shape_numbers)
        table._heads = {local_queue: list(ranks) for local_queue, ranks in self._heads.items()}
        table._partly_inadmissible, table._emptied = set(self._partly_inadmissible), set(self._emptied)
        return table

    @property
    def has_shapes(self) -> bool:
        """Whether it has workloads, or shapes of former ones that may still be inadmissible."""
        return bool(self._shapes)

    def shape(self, entry: PendingEntry) -> ShapeGroup:
        """Return the shape of an entry. Change it only through own()."""
        return self._shapes[entry.shape]

    def own(self, number: int) -> ShapeGroup:
        """Return a shape that may be changed; if another table may share it, replace it with a copy first."""
        shape = self._shapes[number]
        if shape.owner is not self._owner:
            shape = self._shapes[number] = shape.copy(self._owner)
        return shape

    def is_inadmissible(self, entry: PendingEntry) -> bool:
        """Return whether the shape or the walltime group of an entry is inadmissible."""
        return self._shapes[entry.shape].inadmissible or self._group(entry).inadmissible

    def first_active(self, local_queue_usage: Mapping[str, float]) -> str:
        """Return the key of the first active workload of the LocalQueue with the least usage; "" if there is none."""
        heads = self._heads
        if len(heads) == 1:
            [ranks] = heads.values()
            return self._first_active_of(ranks)
        firsts = [
            (local_queue_usage.get(local_queue, 0.0), ranks[0])
            for local_queue, ranks in heads.items()
            if self._first_active_of(ranks)
        ]
        return min(firsts)[1][-1] if firsts else ""

    def insert(self, workload: Workload, rank: Rank, local_queue: str) -> PendingEntry:
        """Add a workload; it is inadmissible if its shape or its walltime group is. `local_queue`: as in ShapeKey."""
        shape = self.own(self._shape_number(workload, local_queue))
        group = shape.by_walltime.get(workload.walltime)
        if group is None:
            group = shape.by_walltime[workload.walltime] = WalltimeGroup(workload.walltime)
        entry = self.entries[workload.key] = PendingEntry(workload, rank, shape.number)
        if len(group.ranks) > MIN_RANKS + 2 * len(self.entries):
            group.ranks = [each for each in group.ranks if self._is_current(each)]
            heapify(group.ranks)
        heappush(group.ranks, rank)
        if group.ranks[0] is rank:
            shape.first = None
            if not group.inadmissible:
                heappush(shape.heads, rank)
                self._push_head(shape)
        return entry

    def remove(self, key: str) -> PendingEntry | None:
        """Remove and return a workload; None if there is none with this key."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        workload, rank = entry.workload, entry.rank
        if self._group(entry).ranks[0] is rank:
            shape = self.own(entry.shape)
            shape.first = None
            group = shape.by_walltime[workload.walltime]
            while group.ranks and not self._is_current(group.ranks[0]):
                heappop(group.ranks)
            if not group.ranks:
                del shape.by_walltime[group.walltime]
                if not shape.by_walltime:
                    self._emptied.add(shape.number)
            elif not group.inadmissible:
                heappush(shape.heads, group.ranks[0])
            self._push_head(shape)
        return entry

    def mark_inadmissible(self, entry: PendingEntry, *, reserved: bool) -> None:
        """Make the shape of an entry inadmissible; `reserved`: only for walltimes that are no shorter."""
        shape = self.own(entry.shape)
        if not reserved:
            shape.inadmissible = True
            return
        self._partly_inadmissible.add(shape.number)
        for group in shape.by_walltime.values():
            group.inadmissible = group.inadmissible or group.walltime >= entry.workload.walltime
        self._push_head(shape)

    def activate(self, is_rejected: Callable[[ShapeGroup], bool]) -> list[Rank]:
        """Make all shapes active except those that `is_rejected` selects; return their first ranks."""
        self._drop_empty_shapes()
        rejected: list[Rank] = []
        activated: list[int] = []
        for number, shape in self._shapes.items():
            if shape.inadmissible or number in self._partly_inadmissible:
                if is_rejected(shape):
                    rejected.append(shape.first_inadmissible)
                else:
                    activated.append(number)
        for number in activated:
            self._activate(number)
        if activated:
            self._collect_heads()
        return rejected

    def _collect_heads(self) -> None:
        """Determine the heads of the active shapes anew, without stale ranks."""
        self._heads = {}
        for shape in list(self._shapes.values()):
            if not shape.inadmissible and (head := self._head_of_shape(shape)):
                self._heads.setdefault(shape.local_queue_key, []).append(head)
        for ranks in self._heads.values():
            heapify(ranks)

    def _drop_empty_shapes(self) -> None:
        for number in self._emptied:
            shape = self._shapes[number]
            if not shape.by_walltime:
                del self._shapes[number], self._shape_numbers[shape.key]
                self._partly_inadmissible.discard(number)
        self._emptied.clear()

    def _activate(self, number: int) -> None:
        """Make the workloads of a shape active."""
        shape = self.own(number)
        shape.inadmissible = False
        if number in self._partly_inadmissible:
            shape.activate()
            self._partly_inadmissible.discard(number)

    def _shape_number(self, workload: Workload, local_queue: str) -> int:
        """Return the number of a workload's shape; a new number if the workload is its first."""
        key = (local_queue, workload.scheduling_shape)
        number = self._shape_numbers.get(key)
        if number is None:
            number = self._shape_numbers[key] = self._last_shape_number = self._last_shape_number + 1
            self._shapes[number] = ShapeGroup(key, workload.priority, number, self._owner)
        return number

    def _push_head(self, shape: ShapeGroup) -> None:
        """Add the head of a shape to the heads of its LocalQueue, if the shape is active."""
        if not shape.inadmissible and (head := self._head_of_shape(shape)):
            heappush(self._heads.setdefault(shape.local_queue_key, []), head)

    def _head_of_shape(self, shape: ShapeGroup) -> Rank | None:
        """Return the first rank of a shape's active walltime groups; None if there is none."""
        entries = self.entries
        while shape.heads:
            rank = shape.heads[0]
            entry = entries.get(rank[-1])
            if entry is not None and entry.rank is rank and not shape.by_walltime[entry.workload.walltime].inadmissible:
                return rank
            shape = self.own(shape.number)
            heappop(shape.heads)
        return None

    def _group(self, entry: PendingEntry) -> WalltimeGroup:
        return self._shapes[entry.shape].by_walltime[entry.workload.walltime]

    def _is_current(self, rank: Rank) -> bool:
        """Return whether a rank is current: a pending workload was last inserted with it.

        An equal rank is stale if the workload has since moved to another shape or walltime group.
        """
        entry = self.entries.get(rank[-1])
        return entry is not None and entry.rank is rank

    def _first_active_of(self, ranks: list[Rank]) -> str:
        """Return the key of the first active workload of a LocalQueue, "" if there is none; drop the ranks before."""
        entries, shapes = self.entries, self._shapes
        while ranks:
            rank = ranks[0]
            entry = entries.get(rank[-1])
            if entry is not None and entry.rank is rank:
                shape = shapes[entry.shape]
                if not shape.inadmissible and not shape.by_walltime[entry.workload.walltime].inadmissible:
                    return rank[-1]
            heappop(ranks)
        return ""

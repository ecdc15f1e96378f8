"""The workloads that wait in a ClusterQueue, in their order (pkg/cache/queue/cluster_queue.go).

First the one that waits for its victims to be gone, so that nobody takes what they leave (BestEffortFIFO only: in
StrictFIFO it is the first anyway). Then by priority, by how long it waits, by UID. Where admission follows usage, the
LocalQueue with the least usage comes before all that.

A workload that cannot be admitted stays first in StrictFIFO. In BestEffortFIFO it is set aside until wake() tells that
something has changed, and with it all that would fare alike: those of its shape where it lacks quota, those of them
that run no shorter where it would delay a promise. It is not, while its scan of flavors has some left to try. To set
aside and to wake costs by shape, not by workload: of a shape only the first has its turn, so only it is looked at.
"""

from __future__ import annotations

from copy import copy
from heapq import heapify, heappop, heappush
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.flavorassigner.assignment import AssignmentClusterQueueState
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason, HeadroomBound

_AT_ONCE = {"FailedAfterNomination", "PendingPreemption"}
_REFUSED = {"NoFit", "NoCandidates", "Reserved"}

_Rank = tuple[int, float, float, str, str]
"""The less, the earlier; the last is the key."""
_Key = tuple[str, "Hashable"]
"""LocalQueue, where admission follows usage, and shape."""


class _Lane:
    """Those of one shape that declare to run for as long, in their order."""

    __slots__ = ("asleep", "length", "ranks")

    def __init__(self, length: float) -> None:
        self.length = length
        self.ranks: list[_Rank] = []
        """A heap, with some left over of those that are gone."""
        self.asleep = False
        """Set aside: they would delay a promise."""

    def copy(self) -> _Lane:
        other = copy(self)
        other.ranks = list(self.ranks)
        return other


class _Shape:
    """Those of one shape and, where admission follows usage, of one LocalQueue."""

    __slots__ = ("asleep", "firsts", "key", "lanes", "needs", "refused")

    def __init__(self, key: _Key) -> None:
        self.key = key
        self.lanes: dict[float, _Lane] = {}
        """By declared run time, seconds."""
        self.firsts: list[_Rank] = []
        """A heap of the first of each lane that is awake, with some left over."""
        self.asleep = False
        """Set aside, whoever is first: they lack quota."""
        self.refused = False
        """Whether one of them has been looked at, and was."""
        self.needs: FlavorAlternatives | None = None
        """Of those that were refused, once it has been asked for."""

    @property
    def queue(self) -> str:
        """The LocalQueue, where admission follows usage."""
        return self.key[0]

    def wake(self) -> None:
        """Have all of its lanes awake."""
        for lane in self.lanes.values():
            lane.asleep = False
        self.firsts = [lane.ranks[0] for lane in self.lanes.values()]
        heapify(self.firsts)

    def copy(self) -> _Shape:
        other = copy(self)
        other.firsts = list(self.firsts)
        other.lanes = {length: lane.copy() for length, lane in self.lanes.items()}
        return other


class _Place(NamedTuple):
    workload: Workload
    rank: _Rank
    shape: _Shape
    lane: _Lane

    @property
    def asleep(self) -> bool:
        return self.shape.asleep or self.lane.asleep


class PendingWorkloads:
    """One ClusterQueue's."""

    def __init__(self, spec: ClusterQueue, *, requeue_from_eviction: bool = True, shortest_first: bool = False) -> None:
        """Take the queue; `shortest_first`: within a priority by declared run time, before how long they wait."""
        self.spec = spec
        self._from_timeout = requeue_from_eviction
        self._shortest_first = shortest_first
        self._places: dict[str, _Place] = {}
        """Of all but those set aside alone, by key."""
        self._alone: dict[str, Workload] = {}
        """Set aside without those of their shape, by key."""
        self._shapes: dict[_Key, _Shape] = {}
        """Some of those that are gone are left."""
        self._dozing: set[_Key] = set()
        """Shapes with lanes that are asleep."""
        self._firsts: dict[str, list[_Rank]] = {}
        """By LocalQueue as the shapes: heaps of the first of each shape that is awake, with some left over."""
        self._progress: dict[str, tuple[AssignmentClusterQueueState, int]] = {}
        """With how often there had been news."""
        self._news = 0
        self._preemptor = ""

    def copy(self) -> PendingWorkloads:
        """Return another that changes on its own."""
        other = copy(self)
        other._shapes = {key: shape.copy() for key, shape in self._shapes.items()}
        other._places = {key: other._moved(place) for key, place in self._places.items()}
        other._firsts = {queue: list(ranks) for queue, ranks in self._firsts.items()}
        other._dozing, other._alone, other._progress = set(self._dozing), dict(self._alone), dict(self._progress)
        return other

    def _moved(self, place: _Place) -> _Place:
        """Return a place of one that this is a copy of as it is here."""
        shape = self._shapes[place.shape.key]
        return _Place(place.workload, place.rank, shape, shape.lanes[place.lane.length])

    def __len__(self) -> int:
        return len(self._places) + len(self._alone)

    def __contains__(self, key: str) -> bool:
        return key in self._places or key in self._alone

    def get(self, key: str) -> Workload | None:
        """Return a workload that waits; None where there is no such."""
        place = self._places.get(key)
        return self._alone.get(key) if place is None else place.workload

    @property
    def active(self) -> list[str]:
        """The keys of those whose turn may come."""
        return [key for key, one in self._places.items() if not one.asleep]

    @property
    def inadmissible(self) -> list[str]:
        """The keys of those that are set aside."""
        return [*self._alone, *(key for key, one in self._places.items() if one.asleep)]

    def sorted_keys(self, local_queue_usage: Mapping[str, float]) -> list[str]:
        """Return the keys of all in their order, whether they are set aside or not."""
        found = [(local_queue_usage.get(one.shape.queue, 0.0), one.rank) for one in self._places.values()]
        for one in self._alone.values():
            usage = (
                local_queue_usage.get(f"{one.namespace}/{one.queue_name}", 0.0)
                if self.spec.usage_based_admission
                else 0.0
            )
            found.append((usage, self._rank(one)))
        return sorted((rank[-1] for _, rank in sorted(found)), key=lambda key: key != self._preemptor)

    def push_or_update(self, workload: Workload) -> None:
        """Take in a workload, or its new state; one of a shape that is set aside is set aside."""
        key = workload.key
        old = self._take(key) or self._alone.pop(key, None)
        if old is not None and old.scheduling_shape != workload.scheduling_shape:
            self._progress.pop(key, None)
        self._place(workload)

    def delete(self, key: str) -> None:
        """Forget a workload."""
        self._take(key)
        self._alone.pop(key, None)
        self._progress.pop(key, None)
        if self._preemptor == key:
            self._preemptor = ""

    def pop(self, local_queue_usage: Mapping[str, float], cycle: int = 0, key: str = "") -> Head | None:
        """Take out the workload whose turn it is, or that with `key`; None where there is none.

        `usages` of LocalQueues, by key, where admission follows usage; `cycle`: the number of the cycle. The scan of
        flavors goes on where the last cycle's ended; where that of an earlier one did only if nothing has changed.
        """
        key = key or self.head_key(local_queue_usage)
        workload = self._take(key) or self._alone.pop(key, None)
        if workload is None:
            return None
        progress, news = self._progress.pop(workload.key, (NO_LAST_ASSIGNMENT, self._news))
        fresh = cycle - progress.scheduling_cycle <= 1 or news == self._news
        return Head(workload, self.spec.name, progress if fresh else NO_LAST_ASSIGNMENT)

    def head_key(self, local_queue_usage: Mapping[str, float]) -> str:
        """Return the key of the workload whose turn it is, "" where there is none."""
        sticky = self._places.get(self._preemptor)
        return self._first(local_queue_usage) if sticky is None or sticky.asleep else self._preemptor

    def inadmissible_reason(self, key: str, headroom: HeadroomBound, seconds: float = inf) -> BoundReason:
        """Tell whether the one whose turn it is fares as the last of its shape did, which was refused.

        `seconds`: it can be in the way of others for no longer than that.
        """
        workload, _, shape, _ = self._places[key]
        started = key in self._progress and self._progress[key][0].pending_flavors
        if not shape.refused or started or workload.failed_checks:
            return ""
        if shape.needs is None:
            shape.needs = headroom.alternatives(Head(workload, self.spec.name))
            if shape.needs is None:
                shape.refused = False
                return ""
        return headroom.inadmissible_reason(
            self.spec.name, workload.priority, min(workload.walltime, seconds), shape.needs
        )

    def mark_inadmissible(self, key: str, reason: BoundReason) -> None:
        """Let the turn pass of one that would be refused: it is set aside, as if it had been."""
        self._set_aside(self._places[key], reserved=reason == "Reserved")

    def requeue(self, decision: Decision) -> None:
        """Take back a workload that was not admitted, by what was decided about it."""
        workload, strict = decision.head.workload, self.spec.queueing_strategy == "StrictFIFO"
        self._progress[workload.key] = decision.last_assignment, self._news
        if decision.requeue_reason == "PendingPreemption" and not strict:
            self._preemptor = workload.key
        at_once = decision.requeue_reason != "NamespaceMismatch" if strict else decision.requeue_reason in _AT_ONCE
        if at_once or decision.last_assignment.pending_flavors:
            self._place(workload)
        elif decision.requeue_reason in _REFUSED:
            place = self._place(workload)
            place.shape.refused = True
            self._set_aside(place, reserved=decision.requeue_reason == "Reserved")
        else:
            self._alone[workload.key] = workload

    def queue_inadmissible_workloads(self) -> None:
        """Have the turn of those set aside come again: something has changed."""
        self._news += 1
        for key in self._dozing:
            self._shapes[key].wake()
        self._dozing.clear()
        alone, self._alone = self._alone, {}
        for one in alone.values():
            self._place(one)
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape.lanes}
        self._firsts = {}
        for shape in self._shapes.values():
            shape.asleep = False
            if first := self._first_of(shape):
                self._firsts.setdefault(shape.queue, []).append(first)
        for ranks in self._firsts.values():
            heapify(ranks)

    def _set_aside(self, place: _Place, *, reserved: bool) -> None:
        """Set one aside with all that fare alike; `reserved`: those that run no shorter."""
        shape = place.shape
        if not reserved:
            shape.asleep = True
            return
        self._dozing.add(shape.key)
        for lane in shape.lanes.values():
            lane.asleep = lane.asleep or lane.length >= place.lane.length
        self._announce(shape)

    def _rank(self, workload: Workload) -> _Rank:
        length = workload.walltime if self._shortest_first else 0.0
        since = workload.queue_order_timestamp(requeue_from_eviction=self._from_timeout)
        return -workload.priority, length, since, workload.uid, workload.key

    def _place(self, workload: Workload) -> _Place:
        key = (
            f"{workload.namespace}/{workload.queue_name}" if self.spec.usage_based_admission else "",
            workload.scheduling_shape,
        )
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = _Shape(key)
        lane = shape.lanes.get(workload.walltime)
        if lane is None:
            lane = shape.lanes[workload.walltime] = _Lane(workload.walltime)
        rank = self._rank(workload)
        place = self._places[workload.key] = _Place(workload, rank, shape, lane)
        heappush(lane.ranks, rank)
        if lane.ranks[0] == rank and not lane.asleep:
            heappush(shape.firsts, rank)
            self._announce(shape)
        return place

    def _take(self, key: str) -> Workload | None:
        place = self._places.pop(key, None)
        if place is None:
            return None
        workload, rank, shape, lane = place
        if lane.ranks[0] == rank:
            while lane.ranks and not self._stands(lane.ranks[0]):
                heappop(lane.ranks)
            if not lane.ranks:
                del shape.lanes[lane.length]
            elif not lane.asleep:
                heappush(shape.firsts, lane.ranks[0])
            self._announce(shape)
        return workload

    def _announce(self, shape: _Shape) -> None:
        """Have a shape's first among those whose turn may come."""
        if not shape.asleep and (first := self._first_of(shape)):
            heappush(self._firsts.setdefault(shape.queue, []), first)

    def _first_of(self, shape: _Shape) -> _Rank | None:
        """Return the first of a shape's lanes that are awake; None where there is none."""
        ranks = shape.firsts
        while ranks and (not self._stands(ranks[0]) or self._places[ranks[0][-1]].lane.asleep):
            heappop(ranks)
        return ranks[0] if ranks else None

    def _stands(self, rank: _Rank) -> bool:
        """Tell whether a rank is of a workload that is here, and its rank still."""
        place = self._places.get(rank[-1])
        return place is not None and place.rank == rank

    def _first(self, usages: Mapping[str, float]) -> str:
        """Return the key of the workload whose turn it is, "" where there is none."""
        firsts: list[tuple[float, _Rank]] = []
        for name, ranks in self._firsts.items():
            while ranks and (not self._stands(ranks[0]) or self._places[ranks[0][-1]].asleep):
                heappop(ranks)
            if ranks:
                firsts.append((usages.get(name, 0.0), ranks[0]))
        return min(firsts)[1][-1] if firsts else ""

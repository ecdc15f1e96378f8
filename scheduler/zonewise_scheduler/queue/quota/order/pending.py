"""The workloads that wait in a ClusterQueue, in their order (pkg/cache/queue/cluster_queue.go).

First the one that waits for its victims to be gone, so that nobody takes what they leave (BestEffortFIFO only: in
StrictFIFO it is the first anyway). Then by priority, by how long it waits, by UID. Where admission follows usage, the
LocalQueue with the least usage comes before all that.

A workload that cannot be admitted stays first in StrictFIFO. In BestEffortFIFO it is set aside, with all that fare
like it, until wake() tells that something has changed; it is not, while its scan of flavors has some left to try. To
set aside and to wake costs by shape, not by workload: of a shape only the first has its turn, so only it is looked at.
"""

from __future__ import annotations

from copy import copy
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.queue.quota.cycle.values import Head
from zonewise_scheduler.queue.quota.flavors.assignment import START

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zonewise_scheduler.queue.quota.cycle.values import Decision
    from zonewise_scheduler.queue.quota.flavors.assign import Alternatives
    from zonewise_scheduler.queue.quota.flavors.assignment import Progress
    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.order.outlook import Outlook

_AT_ONCE = {"FailedAfterNomination", "PendingPreemption"}
_HOPELESS = {"NoFit", "NoCandidates"}

_Rank = tuple[int, float, float, str, str]
"""The less, the earlier; the last is the key."""


class _Lane:
    """Those of one shape and, where admission follows usage, of one LocalQueue: they are set aside and woken as one."""

    __slots__ = ("asleep", "hopeless", "needs", "queue", "ranks", "refused")

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.ranks: list[_Rank] = []
        """A heap, with some left over of those that are gone."""
        self.asleep = False
        self.hopeless = False
        """Set aside whoever is first; else because of how long the first runs, and all the others do."""
        self.refused = False
        """Whether one of them has been looked at, and had no quota."""
        self.needs: Alternatives | None = None
        """Of those that were refused, once it has been asked for."""

    def copy(self) -> _Lane:
        other = copy(self)
        other.ranks = list(self.ranks)
        return other


class _Place(NamedTuple):
    workload: Workload
    rank: _Rank
    lane: _Lane


class Pending:
    """One ClusterQueue's."""

    def __init__(self, spec: ClusterQueue, *, from_timeout: bool = True, shortest_first: bool = False) -> None:
        """Take the queue; `shortest_first`: within a priority by declared run time, before how long they wait."""
        self.spec = spec
        self._from_timeout = from_timeout
        self._shortest_first = shortest_first
        self._places: dict[str, _Place] = {}
        """Of all but those set aside alone, by key."""
        self._alone: dict[str, Workload] = {}
        """Set aside without those of their shape, by key."""
        self._lanes: dict[tuple[str, Hashable], _Lane] = {}
        self._asleep: list[_Lane] = []
        self._firsts: dict[str, list[_Rank]] = {}
        """By LocalQueue as the lanes: heaps of the first of each lane that is awake, with some left over."""
        self._progress: dict[str, tuple[Progress, int]] = {}
        """With how often there had been news."""
        self._news = 0
        self._preemptor = ""

    def copy(self) -> Pending:
        """Return another that changes on its own."""
        other = copy(self)
        lanes = {lane: lane.copy() for lane in self._lanes.values()}
        other._lanes = {key: lanes[lane] for key, lane in self._lanes.items()}
        other._asleep = [lanes[lane] for lane in self._asleep]
        other._places = {key: place._replace(lane=lanes[place.lane]) for key, place in self._places.items()}
        other._firsts = {queue: list(ranks) for queue, ranks in self._firsts.items()}
        other._alone, other._progress = dict(self._alone), dict(self._progress)
        return other

    def __len__(self) -> int:
        return len(self._places) + len(self._alone)

    def __contains__(self, key: str) -> bool:
        return key in self._places or key in self._alone

    def get(self, key: str) -> Workload | None:
        """Return a workload that waits; None where there is no such."""
        place = self._places.get(key)
        return self._alone.get(key) if place is None else place.workload

    @property
    def waiting(self) -> list[str]:
        """The keys of those whose turn may come."""
        return [key for key, one in self._places.items() if not one.lane.asleep]

    @property
    def aside(self) -> list[str]:
        """The keys of those that are set aside."""
        return [*self._alone, *(key for key, one in self._places.items() if one.lane.asleep)]

    def order(self, usages: Mapping[str, float]) -> list[str]:
        """Return the keys of all in their order, whether they are set aside or not."""
        found = [(usages.get(one.lane.queue, 0.0), one.rank) for one in self._places.values()]
        for one in self._alone.values():
            usage = usages.get(f"{one.namespace}/{one.queue}", 0.0) if self.spec.by_usage else 0.0
            found.append((usage, self._rank(one)))
        return sorted((rank[-1] for _, rank in sorted(found)), key=lambda key: key != self._preemptor)

    def push(self, workload: Workload) -> None:
        """Take in a workload, or its new state; one of a shape that is set aside is set aside."""
        key = workload.key
        old = self._take(key) or self._alone.pop(key, None)
        if old is not None and old.shape != workload.shape:
            self._progress.pop(key, None)
        lane = self._place(workload)
        if lane.asleep and not lane.hopeless and lane.ranks[0][-1] == key:
            self._asleep.remove(lane)
            lane.asleep = False
            self._announce(lane)

    def remove(self, key: str) -> None:
        """Forget a workload."""
        self._take(key)
        self._alone.pop(key, None)
        self._progress.pop(key, None)
        if self._preemptor == key:
            self._preemptor = ""

    def pop(self, usages: Mapping[str, float], cycle: int = 0, key: str = "") -> Head | None:
        """Take out the workload whose turn it is, or that with `key`; None where there is none.

        `usages` of LocalQueues, by key, where admission follows usage; `cycle`: the number of the cycle. The scan of
        flavors goes on where the last cycle's ended; where that of an earlier one did only if nothing has changed.
        """
        key = key or self.first(usages)
        workload = self._take(key) or self._alone.pop(key, None)
        if workload is None:
            return None
        progress, news = self._progress.pop(workload.key, (START, self._news))
        fresh = cycle - progress.cycle <= 1 or news == self._news
        return Head(workload, self.spec.name, progress if fresh else START)

    def first(self, usages: Mapping[str, float]) -> str:
        """Return the key of the workload whose turn it is, "" where there is none."""
        sticky = self._places.get(self._preemptor)
        return self._first(usages) if sticky is None or sticky.lane.asleep else self._preemptor

    def is_hopeless(self, key: str, outlook: Outlook) -> bool:
        """Tell whether the one whose turn it is fares as the last of its shape did, which was refused."""
        workload, _, lane = self._places[key]
        started = key in self._progress and self._progress[key][0].pending
        if not lane.refused or started or workload.failed_checks:
            return False
        if lane.needs is None:
            lane.needs = outlook.needs(Head(workload, self.spec.name))
            lane.refused = lane.needs is not None
        return lane.needs is not None and outlook.hopeless(self.spec.name, workload.priority, lane.needs)

    def pass_over(self, key: str) -> None:
        """Let the turn pass of one that is hopeless: it is set aside, as if it had been refused."""
        self._set_aside(self._places[key].lane, hopeless=True)

    def put_back(self, decision: Decision) -> None:
        """Take back a workload that was not admitted, by what was decided about it."""
        workload, strict = decision.head.workload, self.spec.strategy == "StrictFIFO"
        self._progress[workload.key] = decision.progress, self._news
        if decision.again == "PendingPreemption" and not strict:
            self._preemptor = workload.key
        at_once = decision.again != "NamespaceMismatch" if strict else decision.again in _AT_ONCE
        if at_once or decision.progress.pending:
            self._place(workload)
        elif decision.again in _HOPELESS:
            lane = self._place(workload)
            lane.refused = True
            self._set_aside(lane, hopeless=True)
        elif decision.again == "Reserved" and self._shortest_first:
            lane = self._place(workload)
            if lane.ranks[0][-1] == workload.key:  # what is longer would delay whom it would delay
                self._set_aside(lane, hopeless=False)
            else:
                self._take(workload.key)
                self._alone[workload.key] = workload
        else:
            self._alone[workload.key] = workload

    def wake(self) -> None:
        """Have the turn of those set aside come again: something has changed."""
        self._news += 1
        for lane in self._asleep:
            lane.asleep = False
            if lane.ranks:
                self._firsts.setdefault(lane.queue, []).append(lane.ranks[0])
        for ranks in self._firsts.values():
            heapify(ranks)
        self._asleep.clear()
        alone, self._alone = self._alone, {}
        for one in alone.values():
            self._place(one)

    def _set_aside(self, lane: _Lane, *, hopeless: bool) -> None:
        lane.hopeless = hopeless or (lane.asleep and lane.hopeless)
        if not lane.asleep:
            lane.asleep = True
            self._asleep.append(lane)

    def _rank(self, workload: Workload) -> _Rank:
        length = workload.limit if self._shortest_first else 0.0
        since = workload.queued_at(from_timeout=self._from_timeout)
        return -workload.priority, length, since, workload.uid, workload.key

    def _place(self, workload: Workload) -> _Lane:
        queue = f"{workload.namespace}/{workload.queue}" if self.spec.by_usage else ""
        lane = self._lanes.setdefault((queue, workload.shape), _Lane(queue))
        rank = self._rank(workload)
        heappush(lane.ranks, rank)
        self._places[workload.key] = _Place(workload, rank, lane)
        if lane.ranks[0] == rank:
            self._announce(lane)
        return lane

    def _take(self, key: str) -> Workload | None:
        place = self._places.pop(key, None)
        if place is None:
            return None
        lane = place.lane
        if lane.ranks[0] == place.rank:
            while lane.ranks and not self._stands(lane.ranks[0]):
                heappop(lane.ranks)
            self._announce(lane)
        if not lane.ranks and not lane.asleep:
            self._lanes.pop((lane.queue, place.workload.shape), None)
        return place.workload

    def _announce(self, lane: _Lane) -> None:
        """Have a lane's first among those whose turn may come."""
        if lane.ranks and not lane.asleep:
            heappush(self._firsts.setdefault(lane.queue, []), lane.ranks[0])

    def _stands(self, rank: _Rank) -> bool:
        """Tell whether a rank is of a workload that is here, and its rank still."""
        place = self._places.get(rank[-1])
        return place is not None and place.rank == rank

    def _first(self, usages: Mapping[str, float]) -> str:
        """Return the key of the workload whose turn it is, "" where there is none."""
        firsts: list[tuple[float, _Rank]] = []
        for name, ranks in self._firsts.items():
            while ranks and (not self._stands(ranks[0]) or self._places[ranks[0][-1]].lane.asleep):
                heappop(ranks)
            if ranks:
                firsts.append((usages.get(name, 0.0), ranks[0]))
        return min(firsts)[1][-1] if firsts else ""

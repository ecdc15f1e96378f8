"""Starts that are promised, and the gate that keeps them.

The invariant: where declared run times are upper bounds, no workload that starts ever delays a start that was promised
to another. It may start if at every time that is promised to others before its own latest end, there is room for it
beside all that will run then, as Ahead foretells it, and those others. Room is what the quotas of its queue and of the
cohorts above leave, and its places; what it takes is taken from others nowhere else. Between two such times what is
used only becomes less, so there is nothing to ask.

A promise is made for the earliest start at which it is in the way of no other promise, and is only ever moved to an
earlier one. Unless something was not to be expected: a workload outlives its declared run time, or nodes or quotas go.

Where some must end first that declare no run time, nobody knows the start. Those that do declare theirs may start all
the same, since they end; those that do not have to leave room for it when all have ended, unless a start is promised
to them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Protocol

from zonewise_scheduler.backfill.timeline import has_capacity, is_running
from zonewise_scheduler.quota.api.amount import UNLIMITED, plus
from zonewise_scheduler.quota.queue.headroom_bound import preemptible_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.backfill.timeline import FutureState, Timeline
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import QuotaSettings, Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class TimelineSource(Protocol):
    """What is now."""

    def timeline(self, reservations: Iterable[Reservation]) -> Timeline:
        """Return what will be, where these are promised."""
        ...


class ReservationTable:
    """All that is promised; a Gate of cycles."""

    def __init__(self, source: TimelineSource, settings: QuotaSettings) -> None:
        self._present = source
        self._settings = settings
        self._made: dict[str, Reservation] = {}
        self._now = 0.0
        self._futures: list[FutureState] | None = None
        self._most: dict[tuple[str, FlavorResource, int | None], list[tuple[float, int]]] = {}
        """What was asked of most(): from each time on, the most there is by then."""

    @property
    def by_key(self) -> Mapping[str, Reservation]:
        """What is promised, by key of the workload."""
        return self._made

    def restore(self, reservations: Iterable[Reservation]) -> None:
        """Take in what was promised before."""
        self._made.update((one.workload.key, one) for one in reservations)
        self._futures = None

    def first_per_queue(self, depth: int) -> list[Reservation]:
        """Return so many of each queue as come first, in the order in which they were made."""
        kept: set[str] = set()
        of: Counter[str] = Counter()
        for one in sorted(self._made.values(), key=lambda one: one.start):
            of[one.queue] += 1
            if of[one.queue] <= depth:
                kept.add(one.workload.key)
        return [one for key, one in self._made.items() if key in kept]

    # --- the gate

    def begin_cycle(self, now: float) -> None:
        """Be ready for a cycle."""
        self._now = now
        if self._futures is None:
            self._most.clear()
            self._futures = list(self._present.timeline(self._made.values()).future_states()) if self._made else []

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of one whose promised start would be delayed; "": nobody's."""
        for future in self._reached(workload):
            undo = _make_room(future, workload, victims)
            late = "" if has_capacity(future.snapshot, workload) else _whose(future, workload)
            for one, here in reversed(undo):
                _have(future.snapshot, one, here=here)
            if late:
                return late
        return ""

    def max_available(self, queue: str, key: FlavorResource, walltime: float, priority: int | None) -> int:
        """Return the most of a key that one of a queue could have for `limit` seconds from now on, beside the promises.

        It is one to whom nothing is promised. `priority`: of one that may make others of its queue give way, as far as
        its policy lets it; None: nobody does.
        """
        found = self._most.get((queue, key, priority))
        if found is None:
            found = self._most[queue, key, priority] = list(self._least(queue, key, priority))
        place = len(found) if walltime == inf else bisect_left(found, self._now + walltime, key=_time)
        return found[place - 1][1] if place else UNLIMITED

    def _least(self, queue: str, key: FlavorResource, priority: int | None) -> Iterator[tuple[float, int]]:
        """Yield the promised times, each with the least of a key that there is up to it."""
        least = UNLIMITED
        for future in self._futures or ():
            if future.reservations:
                node = future.snapshot.cluster_queues[queue]
                yields = 0 if priority is None else preemptible_usage(node, priority, key)
                least = min(least, max(0, plus(node.available(key), yields)))
                yield future.time, least

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Take note that a workload starts, or makes others give way and then starts."""
        self._most.clear()
        for future in self._futures or ():
            reached = self._reaches(workload, future)
            if reached or is_running(future.snapshot, workload):
                _make_room(future, workload, victims)
            if reached:
                future.snapshot.add_workload(workload)

    def workload_ended(self, workload: Workload) -> None:
        """Take note that a workload with this admission does not run any more."""
        self._most.clear()
        for future in self._futures or ():
            if workload.key not in future.reservations and is_running(future.snapshot, workload):
                future.snapshot.remove_workload(workload)
            if any(one.key == workload.key for found in future.preempted.values() for one in found):
                self._futures = None
                return

    def invalidate(self) -> None:
        """Take note that something was not to be expected: what was foretold does not hold."""
        self._futures = None

    def _reached(self, workload: Workload) -> Iterator[FutureState]:
        """Yield the times promised to others that come before its latest end."""
        for one in self._futures or ():
            if self._reaches(workload, one) and one.reservations.keys() - {workload.key}:
                yield one

    def _reaches(self, workload: Workload, future: FutureState) -> bool:
        end = self._now + workload.max_duration
        return future.time < end or (end == inf and workload.key not in self._made)

    # --- promises

    def reserve(self, head: Head) -> bool:
        """Promise a start to a head that cannot start now; tell whether there is one."""
        key = head.workload.key
        others = [one for name, one in self._made.items() if name != key]
        found = self._present.timeline(others).earliest_reservation(head, self._settings)
        if found is None:
            self.release(key)
            return False
        self.record(found)
        return True

    def record(self, reservation: Reservation) -> None:
        """Take in what is promised."""
        key = reservation.workload.key
        before = self._made.get(key)
        self._made[key] = reservation
        if before is None or not _same(before, reservation):
            self._futures = None

    def remove_started(self, key: str) -> None:
        """Take note that a workload has started, with which what was foretold was brought up to date (take)."""
        if self._made.pop(key, None) is None:
            return
        self._most.clear()
        for future in self._futures or ():
            future.reservations.pop(key, None)

    def release(self, key: str) -> None:
        """Take note that a workload waits no more, or cannot start any more."""
        if self._made.pop(key, None) is not None:
            self._futures = None

    def replace_infeasible(self) -> list[Reservation]:
        """Find other starts for those who cannot have theirs any more, as early as can be, in the order in which they
        were promised; return what was promised to those who can never start.
        """
        order = list(self._made)
        unkept = {one.workload.key for one in self._present.timeline(self._made.values()).infeasible_reservations()}
        late = [self._made.pop(key) for key in order if key in unkept]
        self._futures = None
        lost = [one for one in late if not self.reserve(one.head)]
        self._made = {key: self._made[key] for key in order if key in self._made}
        return lost

    def bring_forward(self, now: float) -> None:
        """Bring promises forward, those first that were made first, with what is free now."""
        for promise in list(self._made.values()):
            if promise.start > now:
                self.reserve(promise.head)


def _time(found: tuple[float, int]) -> float:
    return found[0]


def _make_room(future: FutureState, workload: Workload, victims: Sequence[Workload]) -> list[tuple[Workload, bool]]:
    """Have a workload's promise not count, and its victims gone; return what undoes it, last first."""
    snapshot, key = future.snapshot, workload.key
    promised = snapshot.workloads_by_queue[snapshot.cluster_queue_of(workload).name].get(key)
    changes = [] if promised is None else [(promised, False)]
    changes += [(one, True) for one in future.preempted.get(key, ())]
    changes += [(one, False) for one in victims]
    undo: list[tuple[Workload, bool]] = []
    for one, here in changes:
        if is_running(snapshot, one) != here:
            _have(snapshot, one, here=here)
            undo.append((one, not here))
    return undo


def _whose(future: FutureState, workload: Workload) -> str:
    """Return the key of one without whose promise there were room; the first's where it is of several."""
    others = [one.workload for key, one in future.reservations.items() if key != workload.key]
    for one in others:
        with future.snapshot.simulate_workload_removal([one]):
            if has_capacity(future.snapshot, workload):
                return one.key
    return others[0].key


def _have(snapshot: Snapshot, workload: Workload, *, here: bool) -> None:
    if here:
        snapshot.add_workload(workload)
    else:
        snapshot.remove_workload(workload)


def _same(one: Reservation, other: Reservation) -> bool:
    """Tell whether what is foretold beside one promise is so beside the other."""
    return (
        one.start == other.start
        and one.victims == other.victims
        and one.workload.admission is not None
        and other.workload.admission is not None
        and one.workload.admission.pod_sets == other.workload.admission.pod_sets
    )

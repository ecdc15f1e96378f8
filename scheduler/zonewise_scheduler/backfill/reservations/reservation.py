"""Reservations: starts held for pending workloads, and the gate that keeps them.

Invariant: if walltimes are upper bounds, no workload that starts ever delays a reservation of another.

Proof.
1. A workload may start only if it fits at every reserved start of others before its own deadline. "Fits" means:
   alongside everything that runs at that time in the timeline, including the workloads that start then.
2. Whether it fits depends on the quotas of its queue and of the cohorts above, and on its topology assignment. It takes
   capacity from other workloads nowhere else.
3. Between two reserved starts usage only shrinks. So a workload that fits at the later one fits in between.
4. A reservation is made for the earliest start at which it delays no other reservation. It moves only to earlier
   starts.

Two exceptions move a reservation to a later start: a workload outlives its walltime, or nodes or quotas disappear.

A start is unknown (infinite) if workloads without a walltime must end first. A workload with a walltime may still
start, since it will end. One without must leave enough for that reservation, unless it holds a reservation itself.
"""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.reservation_bound import PossibleStarts
from zonewise_scheduler.backfill.reservations.timeline import ends_by_time, has_capacity, is_running
from zonewise_scheduler.backfill.types import ANY_START
from zonewise_scheduler.quota.api.amount import UNLIMITED, plus
from zonewise_scheduler.quota.queue.headroom_bound import LATEST_KNOWN_END, HeadroomBound, preemptible_usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.backfill.reservations.timeline import FutureState, TimelineSource
    from zonewise_scheduler.backfill.types import Reservation, StartInterval
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class ReservationTable:
    """All reservations; implements the ReservationGate of cycles and the FutureHeadroom of the headroom bound."""

    def __init__(self, reservations: Iterable[Reservation] = ()) -> None:
        self._by_key = {reservation.workload.key: reservation for reservation in reservations}
        self._now = 0.0
        self._futures: list[FutureState] | None = None
        """The state at each reserved start, ascending; None if it must be recomputed."""
        self._headroom: dict[tuple[str, FlavorResource, int | None], list[tuple[float, int]]] = {}
        """Cache of latest_end: reserved starts, each with the least amount available up to it."""
        self._version = 0

    @property
    def now(self) -> float:
        """The time of the queries."""
        return self._now

    @property
    def version(self) -> int:
        """A number that grows whenever the amounts beside the reservations may have changed."""
        return self._version

    @property
    def by_key(self) -> Mapping[str, Reservation]:
        """The reservations by key of the workload, in the order in which they were first made."""
        return self._by_key

    def by_queue(self) -> Mapping[str, Sequence[Reservation]]:
        """Return the reservations of each queue, in the order in which they were first made."""
        reservations: dict[str, list[Reservation]] = {}
        for reservation in self._by_key.values():
            reservations.setdefault(reservation.head.cluster_queue, []).append(reservation)
        return reservations

    def restore(self, reservations: Iterable[Reservation]) -> None:
        """Replace all reservations with those made before a restart."""
        self._by_key = {reservation.workload.key: reservation for reservation in reservations}
        self._futures = None
        self._amounts_changed()

    def first_per_queue(self, depth: int) -> list[Reservation]:
        """Return the `depth` earliest reservations of each queue, in the order in which they were made."""
        keys: set[str] = set()
        count_by_queue: Counter[str] = Counter()
        for reservation in sorted(self._by_key.values(), key=lambda reservation: reservation.start):
            count_by_queue[reservation.queue] += 1
            if count_by_queue[reservation.queue] <= depth:
                keys.add(reservation.workload.key)
        return [reservation for key, reservation in self._by_key.items() if key in keys]

    # --- the gate

    def begin_cycle(self, source: TimelineSource, now: float) -> None:
        """Prepare the gate for queries at this time."""
        self._now = now
        if self._futures is None:
            self._amounts_changed()
            self._futures = list(source.timeline(self._by_key.values()).future_states()) if self._by_key else []

    def delayed_reservation(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return the key of a workload whose reservation this start would delay; "" if there is none."""
        for future in self._affected_futures(workload):
            changes = _replace_by(future, workload, victims)
            delayed = "" if has_capacity(future.snapshot, workload) else _delayed_key(future, workload)
            for changed, added in reversed(changes):
                _set_running(future.snapshot, changed, running=not added)
            if delayed:
                return delayed
        return ""

    def latest_end(self, queue: str, key: FlavorResource, amount: int, priority: int | None) -> float:
        """Return the latest end of a workload without a reservation that uses an amount from now on; see the base."""
        bounds = self._headroom.get((queue, key, priority))
        if bounds is None:
            bounds = self._headroom[queue, key, priority] = list(self._bounds(queue, key, priority))
        return next((min(time, LATEST_KNOWN_END) for time, least in bounds if least < amount), inf)

    def _bounds(self, queue: str, key: FlavorResource, priority: int | None) -> Iterator[tuple[float, int]]:
        """Yield the reserved starts, each with the least amount available up to it."""
        least = UNLIMITED
        for future in self._futures or ():
            if future.reservations:
                node = future.snapshot.cluster_queues[queue]
                preemptible = 0 if priority is None else preemptible_usage(node, priority, key)
                least = min(least, max(0, plus(node.available(key), preemptible)))
                yield future.time, least

    def record_start(self, workload: Workload, victims: Sequence[Workload]) -> None:
        """Record that a workload starts, now or once its victims have stopped."""
        self._amounts_changed()
        for future in self._futures or ():
            affected = self._affects(workload, future)
            if affected or is_running(future.snapshot, workload):
                _replace_by(future, workload, victims)
            if affected:
                future.snapshot.add_workload(workload)

    def workload_ended(self, workload: Workload) -> None:
        """Record that a workload with this admission is no longer running."""
        self._amounts_changed()
        for future in self._futures or ():
            if workload.key not in future.reservations and is_running(future.snapshot, workload):
                future.snapshot.remove_workload(workload)
            if any(victim.key == workload.key for victims in future.preempted.values() for victim in victims):
                self._futures = None
                return

    def invalidate(self) -> None:
        """Record that an unexpected event has changed the future."""
        self._futures = None

    def _amounts_changed(self) -> None:
        self._headroom.clear()
        self._version += 1

    def _affected_futures(self, workload: Workload) -> Iterator[FutureState]:
        """Yield the states at the reserved starts of others before a workload's deadline."""
        for future in self._futures or ():
            if self._affects(workload, future) and future.reservations.keys() - {workload.key}:
                yield future

    def _affects(self, workload: Workload, future: FutureState) -> bool:
        deadline = self._now + workload.max_duration
        return future.time < deadline or (deadline == inf and workload.key not in self._by_key)

    # --- the reservations

    def reserve(self, head: Head, source: TimelineSource, latest: float = inf) -> float | None:
        """Reserve the earliest start of a head that cannot start now, unless that is after `latest`.

        Returns the start, or one after `latest`; None if there is none. If no start is reserved, the head keeps its
        earlier reservation.
        """
        return self._reserve_within(ANY_START, head, source, latest)

    def _reserve_within(
        self, starts: Sequence[StartInterval], head: Head, source: TimelineSource, latest: float
    ) -> float | None:
        """Do the same; `starts`: intervals that include all possible starts up to `latest`."""
        key = head.workload.key
        others = [reservation for other, reservation in self._by_key.items() if other != key]
        reservation = source.timeline(others).earliest_reservation(head, source.settings, latest, starts)
        if reservation is None:
            return None
        if reservation.start <= latest:
            self.record(reservation)
        return reservation.start

    def record(self, reservation: Reservation) -> None:
        """Add a reservation, or replace the workload's earlier one."""
        key = reservation.workload.key
        old = self._by_key.get(key)
        self._by_key[key] = reservation
        if old is None or not _same_future(old, reservation):
            self._futures = None

    def remove_started(self, key: str) -> None:
        """Remove the reservation of a workload that has started; record_start has updated the futures."""
        if self._by_key.pop(key, None) is None:
            return
        self._amounts_changed()
        for future in self._futures or ():
            future.reservations.pop(key, None)

    def release(self, key: str) -> None:
        """Remove the reservation of a workload that no longer waits or can never start."""
        if self._by_key.pop(key, None) is not None:
            self._futures = None

    def replace_infeasible(self, source: TimelineSource) -> list[Reservation]:
        """Move infeasible reservations to the earliest feasible starts, in the order in which they were made.

        Returns the reservations of workloads that can never start; these are released.
        """
        keys = list(self._by_key)
        infeasible = {
            reservation.workload.key for reservation in source.timeline(self._by_key.values()).infeasible_reservations()
        }
        replaced = [self._by_key.pop(key) for key in keys if key in infeasible]
        self._futures = None
        released = [reservation for reservation in replaced if self.reserve(reservation.head, source) is None]
        self._by_key = {key: self._by_key[key] for key in keys if key in self._by_key}
        return released

    def bring_forward(self, source: TimelineSource, now: float) -> None:
        """Move reservations to earlier starts that are now possible, in the order in which they were made."""
        ahead = [reservation for reservation in self._by_key.values() if reservation.start > now]
        if not ahead:
            return
        possible, headroom = PossibleStarts(source, self._by_key, now), HeadroomBound(source.snapshot, source.settings)
        ends = ends_by_time(now, source.running_workloads, self._by_key.values())
        for reservation in ahead:
            key, alternatives = reservation.workload.key, headroom.alternatives(reservation.head)
            starts = possible.up_to_present(reservation, alternatives) if alternatives else ANY_START
            begin_at = reservation.head.workload.begin_at
            if any(max(interval.first, begin_at) < reservation.start for interval in starts):
                self._reserve_within(starts, reservation.head, source, reservation.start)
                if self._by_key[key] is not reservation:
                    possible.move(self._by_key[key])
                    ends = ends_by_time(now, source.running_workloads, self._by_key.values())
            elif starts:
                own = {key, reservation.workload.replaces}
                waits_for = tuple(other for other in ends.get(reservation.start, ()) if other not in own)
                self._by_key[key] = reservation._replace(waits_for=waits_for)


def _replace_by(future: FutureState, workload: Workload, victims: Sequence[Workload]) -> list[tuple[Workload, bool]]:
    """Remove a workload's own reservation and its victims from a future; add back the victims of that reservation.

    Returns the changes in order: each workload, and whether it was added.
    """
    snapshot, key = future.snapshot, workload.key
    reserved = snapshot.workloads_by_queue[snapshot.cluster_queue_of(workload).name].get(key)
    changes = [] if reserved is None else [(reserved, False)]
    changes += [(preempted, True) for preempted in future.preempted.get(key, ())]
    changes += [(victim, False) for victim in victims]
    done: list[tuple[Workload, bool]] = []
    for changed, added in changes:
        if is_running(snapshot, changed) != added:
            _set_running(snapshot, changed, running=added)
            done.append((changed, added))
    return done


def _delayed_key(future: FutureState, workload: Workload) -> str:
    """Return the key of the first workload whose reservation takes the capacity, or else of the first workload."""
    others = [reservation.workload for key, reservation in future.reservations.items() if key != workload.key]
    for other in others:
        with future.snapshot.simulate_workload_removal([other]):
            if has_capacity(future.snapshot, workload):
                return other.key
    return others[0].key


def _set_running(snapshot: Snapshot, workload: Workload, *, running: bool) -> None:
    if running:
        snapshot.add_workload(workload)
    else:
        snapshot.remove_workload(workload)


def _same_future(old: Reservation, new: Reservation) -> bool:
    """Return whether both reservations lead to the same future."""
    return (
        old.start == new.start
        and old.victims == new.victims
        and old.workload.admission is not None
        and new.workload.admission is not None
        and old.workload.admission.pod_sets == new.workload.admission.pod_sets
    )

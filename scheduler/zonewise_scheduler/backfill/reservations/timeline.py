"""The timeline: what will be available, and when, if every running workload runs until its deadline.

A copy of the snapshot is moved through time. Running workloads leave it at their deadlines. Workloads with a
reservation enter it at their reserved starts and leave it at their own deadlines. The rules that decide now therefore
decide at every time: quotas, borrowing and topologies. Victims already chosen count as finished. Later preemptions are
ignored, so the predicted availability is a lower bound.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

from zonewise_scheduler.backfill.types import ANY_START, Reservation
from zonewise_scheduler.quota.cycle.nomination import (
    assign_without_preemption,
    is_admission_suitable,
    replaced_slice,
)
from zonewise_scheduler.quota.cycle.scheduling_cycle import with_admission
from zonewise_scheduler.quota.hierarchy.snapshot import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.backfill.reservations.cohort_index import CohortIndex
    from zonewise_scheduler.backfill.types import StartInterval
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class RunningWorkload(NamedTuple):
    """A workload that runs."""

    deadline: float
    """Start plus walltime, in seconds; infinite if it declares no walltime."""
    serial: int
    """Number in the order of the starts."""
    workload: Workload


class TimelineSource(Protocol):
    """The present state from which a timeline starts; implemented by PlannerState."""

    @property
    def settings(self) -> QuotaSettings:
        """How quota is assigned."""
        ...

    @property
    def snapshot(self) -> Snapshot:
        """Snapshot of what runs now."""
        ...

    @property
    def running_workloads(self) -> Iterable[RunningWorkload]:
        """The workloads that run now, by deadline."""
        ...

    @property
    def cohort_index(self) -> CohortIndex:
        """Which queues share quota."""
        ...

    def timeline(self, reservations: Iterable[Reservation]) -> Timeline:
        """Return the timeline with these reservations."""
        ...


class FutureState(NamedTuple):
    """The snapshot at a reserved start, including the workloads that start then."""

    time: float
    reservations: dict[str, Reservation]
    """Reservations with this start, by key of the workload."""
    snapshot: Snapshot
    preempted: dict[str, tuple[Workload, ...]]
    """Victims of reservations up to this time that would otherwise still run, by key of the preemptor."""


class _Step:
    """What happens at one time: workloads end, then others start."""

    __slots__ = ("ends", "starts", "time")

    def __init__(self, time: float) -> None:
        self.time = time
        self.ends: list[Workload] = []
        self.starts: list[Reservation] = []


class Timeline:
    """The future of one snapshot. Each timeline serves one query, since a query changes the snapshot."""

    def __init__(
        self, now: float, snapshot: Snapshot, running: Iterable[RunningWorkload], reservations: Iterable[Reservation]
    ) -> None:
        """Begin at `now`, in seconds. `snapshot`: a copy that may change; `running`: the workloads in it."""
        self._snapshot = snapshot
        self._steps = _steps(now, running, reservations)
        self._index = 0
        """Index of the step that the snapshot shows."""
        self._ended: list[list[Workload]] = []
        """The workloads that each step up to the current one has removed."""

    def future_states(self) -> Iterator[FutureState]:
        """Yield the state at each reserved start, ascending."""
        end_by_key = {workload.key: step.time for step in self._steps for workload in step.ends}
        preempted: dict[str, list[Workload]] = {}
        for step in self._steps_until_last_start():
            self._end_workloads(step)
            if not step.starts:
                continue
            for reservation in step.starts:
                preempted[reservation.workload.key] = self._remove_victims(reservation)
            self._snapshot.add_workloads([reservation.workload for reservation in step.starts])
            still_preempted = {
                key: tuple(victim for victim in victims if end_by_key.get(victim.key, inf) > step.time)
                for key, victims in preempted.items()
            }
            by_key = {reservation.workload.key: reservation for reservation in step.starts}
            yield FutureState(step.time, by_key, self._snapshot.copy(), still_preempted)

    def infeasible_reservations(self) -> list[Reservation]:
        """Return the reservations that are infeasible alongside all earlier feasible ones."""
        infeasible: list[Reservation] = []
        for step in self._steps_until_last_start():
            self._end_workloads(step)
            for reservation in step.starts:
                victims, workload = self._remove_victims(reservation), reservation.workload
                if is_admission_suitable(self._snapshot, workload) and has_capacity(self._snapshot, workload):
                    self._snapshot.add_workload(workload)
                else:
                    self._snapshot.add_workloads(victims)
                    infeasible.append(reservation)
        return infeasible

    def earliest_reservation(
        self,
        head: Head,
        settings: QuotaSettings,
        latest: float = inf,
        starts: Sequence[StartInterval] = ANY_START,
    ) -> Reservation | None:
        """Return the earliest start in one of the intervals at which a head delays no reservation before its deadline.

        It is no earlier than the head's begin time. After `latest`, it is some start, not necessarily the earliest.
        None if the head cannot start in the intervals even when all workloads have ended.
        """
        self._add_step(head.workload.begin_at)
        candidate: Reservation | None = None
        until = max(interval.last for interval in starts)
        self._end_workloads(self._steps[0])
        while candidate is not None or self._steps[self._index].time <= until:
            candidate = self._start_reserved(self._steps[self._index], candidate)
            if candidate is None:
                candidate = self._search(head, settings, latest, starts)
            if self._index + 1 == len(self._steps):
                return candidate
            if candidate is not None and candidate.deadline <= self._steps[self._index + 1].time:
                return candidate
            self._move(self._index + 1)
        return None

    # --- the search for the earliest start

    def _search(
        self, head: Head, settings: QuotaSettings, latest: float, starts: Sequence[StartInterval]
    ) -> Reservation | None:
        """Find the first step before the next reserved start at which a head fits.

        Until then, workloads only end, so a head that fits at one step fits at later ones. The search looks at some
        steps, then bisects. Without success, the snapshot is left at the last of these steps.
        """
        low, last = self._index, self._last_before_start()
        candidate: Reservation | None = None
        if not _overlap(starts, self._steps[low].time, self._steps[last].time):
            self._move(last)
            return None
        for high in self._steps_to_look_at(latest, last):
            self._move(high)
            candidate = self._reservation_at_step(head, settings)
            if candidate is not None:
                break
            low = high + 1
        if candidate is None:
            return None
        high = self._index
        while low < high and self._steps[low].time <= latest:
            middle = (low + high) // 2
            self._move(middle)
            earlier = self._reservation_at_step(head, settings)
            if earlier is None:
                low = middle + 1
            else:
                high, candidate = middle, earlier
        self._move(high)
        self._snapshot.add_workload(candidate.workload)
        return candidate

    def _steps_to_look_at(self, latest: float, last: int) -> Iterator[int]:
        """Yield some steps from the current one on, then the last step before the next reserved start.

        If there is a latest start, it is the last step by then: a head that does not fit there fits at no earlier step.
        Otherwise, each step is twice as far as the previous one.
        """
        first = self._index
        if latest < inf:
            steps = [bisect_right(self._steps, latest, first, last, key=_time) - 1]
        else:
            steps = [first + (1 << power) - 1 for power in range((last - first).bit_length() + 1)]
        yield from (step for step in steps if first <= step < last)
        yield last

    def _last_before_start(self) -> int:
        """Return the last step before the next reserved start; earlier starts have been removed from their steps."""
        steps = range(self._index, len(self._steps))
        return next((index for index in steps if self._steps[index].starts), len(self._steps)) - 1

    def _reservation_at_step(self, head: Head, settings: QuotaSettings) -> Reservation | None:
        """Return the reservation of a head at the current step; None if the head does not fit.

        The head's own victims are not counted, since they are known only when its start has come. The slice that it
        replaces is one of them, and ends at this step.
        """
        step = self._steps[self._index]
        if step.time < head.workload.begin_at:
            return None
        assignment = assign_without_preemption(self._snapshot, head, settings)
        if assignment is None:
            return None
        spec = self._snapshot.cluster_queues[head.cluster_queue].spec
        workload = with_admission(head.workload, spec, assignment, step.time)
        replaced = replaced_slice(self._snapshot, head)
        ending = () if replaced is None else (replaced,)
        waits_for = tuple(ended.key for ended in step.ends if ended.key != head.workload.replaces)
        return Reservation(workload, head, step.time, waits_for, ending)

    def _start_reserved(self, step: _Step, candidate: Reservation | None) -> Reservation | None:
        """Start the step's reserved workloads; return the candidate, or None if it delays one of them."""
        for reservation in step.starts:
            self._remove_victims(reservation)
            if candidate is not None and not has_capacity(self._snapshot, reservation.workload):
                self._snapshot.remove_workload(candidate.workload)
                candidate = None
            self._snapshot.add_workload(reservation.workload)
        step.starts = []
        return candidate

    def _remove_victims(self, reservation: Reservation) -> list[Workload]:
        """Permanently remove the victims that still run; return them."""
        victims = [victim for victim in reservation.victims if is_running(self._snapshot, victim)]
        self._snapshot.remove_workloads(victims)
        return victims

    # --- through time

    def _add_step(self, time: float) -> None:
        """Add a step at a time after the first step, unless there is one."""
        index = bisect_right(self._steps, time, key=_time)
        if index and self._steps[index - 1].time < time:
            self._steps.insert(index, _Step(time))

    def _steps_until_last_start(self) -> list[_Step]:
        last = max((number for number, step in enumerate(self._steps, 1) if step.starts), default=None)
        return self._steps[:last]

    def _move(self, index: int) -> None:
        """Move the snapshot to a step; workloads end on the way, but none start."""
        while self._index < index:
            self._index += 1
            self._end_workloads(self._steps[self._index])
        while self._index > index:
            self._index -= 1
            self._snapshot.add_workloads(self._ended.pop())

    def _end_workloads(self, step: _Step) -> None:
        """Remove the workloads whose deadline is at the step, except victims that are already removed."""
        ended = [workload for workload in step.ends if is_running(self._snapshot, workload)]
        self._snapshot.remove_workloads(ended)
        self._ended.append(ended)


def _overlap(intervals: Iterable[StartInterval], first: float, last: float) -> bool:
    """Return whether some interval overlaps the time from `first` to `last`."""
    return any(interval.first <= last and first <= interval.last for interval in intervals)


def _time(step: _Step) -> float:
    return step.time


def ends_by_time(
    now: float, running: Iterable[RunningWorkload], reservations: Iterable[Reservation]
) -> dict[float, list[str]]:
    """Return the keys of the workloads that end at each time: running ones, then those with a reservation."""
    ends: dict[float, list[str]] = {}
    for run in running:
        ends.setdefault(run.deadline, []).append(run.workload.key)
    for reservation in reservations:
        if reservation.start < inf:
            end = max(reservation.start, now) + reservation.workload.max_duration
            ends.setdefault(end, []).append(reservation.workload.key)
    return ends


def has_capacity(snapshot: Snapshot, workload: Workload) -> bool:
    """Return whether a snapshot has the quota and the topology capacity for a workload's admission."""
    return fits(snapshot.cluster_queue_of(workload), workload.usage) and snapshot.tas_snapshot.fits(workload)


def is_running(snapshot: Snapshot, workload: Workload) -> bool:
    """Return whether a workload with an admission runs in a snapshot."""
    return workload.key in snapshot.workloads_by_queue[snapshot.cluster_queue_of(workload).name]


def _steps(now: float, running: Iterable[RunningWorkload], reservations: Iterable[Reservation]) -> list[_Step]:
    """Return the steps from now on, by time.

    Workloads without a walltime end in a last step at infinity, for the workloads that wait for them.
    """
    steps = {now: _Step(now)}
    for run in running:
        end = max(run.deadline, now)
        steps.setdefault(end, _Step(end)).ends.append(run.workload)
    for reservation in reservations:
        start = max(reservation.start, now)
        steps.setdefault(start, _Step(start)).starts.append(reservation)
        if start < inf:
            end = start + reservation.workload.max_duration
            steps.setdefault(end, _Step(end)).ends.append(reservation.workload)
    return [steps[time] for time in sorted(steps)]

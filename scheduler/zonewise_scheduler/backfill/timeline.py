"""Playing forward: what there will be room for, and when, if all that run do so to their latest ends.

A copy of the snapshot is led through time: those that run leave it at their latest ends, those that were promised a
start enter it then and leave it at their own latest ends. So quotas, borrowing and places are at every time what they
will be, by the very rules by which they are decided on now. Who is told to give way now is gone; on nobody who might be
later is counted.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.types import Reservation
from zonewise_scheduler.quota.cycle.nomination import assign_without_preemption
from zonewise_scheduler.quota.cycle.scheduling_cycle import with_admission
from zonewise_scheduler.quota.hierarchy.snapshot import fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot


class RunningWorkload(NamedTuple):
    """A workload that runs."""

    deadline: float
    """Its latest end, seconds; infinite where it declares none."""
    serial: int
    """In the order of the starts."""
    workload: Workload


class FutureState(NamedTuple):
    """What will be at a time that was promised to some, with them."""

    time: float
    reservations: dict[str, Reservation]
    """By key of the workload."""
    snapshot: Snapshot
    preempted: dict[str, tuple[Workload, ...]]
    """Who would still run, had they not given way to a promise; by the key of whom it was made to."""


class _Step:
    """What happens at one time: some leave, then others come."""

    __slots__ = ("comes", "leaves", "time")

    def __init__(self, time: float) -> None:
        self.time = time
        self.leaves: list[Workload] = []
        self.comes: list[Reservation] = []


class Timeline:
    """The future of one snapshot; good for one question, for which it is used up."""

    def __init__(
        self, now: float, snapshot: Snapshot, running: Iterable[RunningWorkload], reservations: Iterable[Reservation]
    ) -> None:
        """Take a copy of the snapshot, those that run in it, and what was promised; seconds."""
        self._snapshot = snapshot
        self._steps = _steps(now, running, reservations)
        self._at = 0
        """The step at which the snapshot is; those that left on the way are in _gone."""
        self._gone: list[list[Workload]] = []

    def future_states(self) -> Iterator[FutureState]:
        """Yield what will be at each time that was promised, in their order."""
        ends = {one.key: step.time for step in self._steps for one in step.leaves}
        gone: dict[str, list[Workload]] = {}
        last = max((place for place, step in enumerate(self._steps) if step.comes), default=-1)
        for step in self._steps[: last + 1]:
            self._leave(step)
            if not step.comes:
                continue
            for promise in step.comes:
                gone[promise.workload.key] = self._make_way(promise)
            self._snapshot.add_workloads([promise.workload for promise in step.comes])
            still = {
                key: tuple(one for one in found if ends.get(one.key, inf) > step.time) for key, found in gone.items()
            }
            yield FutureState(step.time, {one.workload.key: one for one in step.comes}, self._snapshot.copy(), still)

    def infeasible_reservations(self) -> list[Reservation]:
        """Return those of the promises that cannot be kept beside all others that can."""
        found: list[Reservation] = []
        for step in self._steps:
            self._leave(step)
            for promise in step.comes:
                gone = self._make_way(promise)
                queue = self._snapshot.cluster_queue_of(promise.workload)
                if promise.workload.usage.keys() <= queue.quotas.keys() and has_capacity(
                    self._snapshot, promise.workload
                ):
                    self._snapshot.add_workload(promise.workload)
                else:
                    self._snapshot.add_workloads(gone)
                    found.append(promise)
        return found

    def earliest_reservation(self, head: Head, settings: QuotaSettings) -> Reservation | None:
        """Return the earliest start that a head can be promised, so that every promise is kept until its latest end.

        None where it cannot start even when all have ended.
        """
        found: Reservation | None = None
        self._leave(self._steps[0])
        while True:
            found = self._come(self._steps[self._at], found)
            if found is None:
                found = self._search(head, settings)
            if self._at + 1 == len(self._steps):
                return found
            if found is not None and found.deadline <= self._steps[self._at + 1].time:
                return found
            self._move(self._at + 1)

    # --- one question

    def _search(self, head: Head, settings: QuotaSettings) -> Reservation | None:
        """Find the first step at which it fits, of those before others come; if there is none, be at the last of them.

        The more have left, the more fits: so in strides that double, and then back by halves.
        """
        low, stride = self._at, 1
        found = self._offer(head, settings)
        while found is None and (high := min(self._at + stride, self._last())) > self._at:
            low, stride = self._at + 1, stride * 2
            self._move(high)
            found = self._offer(head, settings)
        if found is None:
            return None
        high = self._at
        while low < high:
            middle = (low + high) // 2
            self._move(middle)
            better = self._offer(head, settings)
            if better is None:
                low = middle + 1
            else:
                high, found = middle, better
        self._move(high)
        self._snapshot.add_workload(found.workload)
        return found

    def _last(self) -> int:
        """Return the last step before others come."""
        last = self._at
        while last + 1 < len(self._steps) and not self._steps[last + 1].comes:
            last += 1
        return last

    def _offer(self, head: Head, settings: QuotaSettings) -> Reservation | None:
        """Return what a head can be promised at the step; None where it does not fit.

        It does not count on anybody giving way to it: who that would be is only known when it is time.
        """
        step = self._steps[self._at]
        assignment = assign_without_preemption(self._snapshot, head, settings)
        if assignment is None:
            return None
        workload = with_admission(
            head.workload, self._snapshot.cluster_queues[head.cluster_queue].spec, assignment, step.time
        )
        return Reservation(workload, head, step.time, tuple(one.key for one in step.leaves))

    def _come(self, step: _Step, found: Reservation | None) -> Reservation | None:
        """Let those come who were promised this time; return what was found, None where it is in the way of one."""
        for promise in step.comes:
            self._make_way(promise)
            if found is not None and not has_capacity(self._snapshot, promise.workload):
                self._snapshot.remove_workload(found.workload)
                found = None
            self._snapshot.add_workload(promise.workload)
        step.comes = []
        return found

    def _make_way(self, promise: Reservation) -> list[Workload]:
        """Have those leave for good who give way to it; return them."""
        gone = [one for one in promise.victims if is_running(self._snapshot, one)]
        self._snapshot.remove_workloads(gone)
        return gone

    # --- through time

    def _move(self, to: int) -> None:
        """Bring the snapshot to a step, without those that come."""
        while self._at < to:
            self._at += 1
            self._leave(self._steps[self._at])
        while self._at > to:
            self._at -= 1
            self._snapshot.add_workloads(self._gone.pop())

    def _leave(self, step: _Step) -> None:
        """Let those leave whose latest end it is, if they have not made way before."""
        gone = [one for one in step.leaves if is_running(self._snapshot, one)]
        self._snapshot.remove_workloads(gone)
        self._gone.append(gone)


def has_capacity(snapshot: Snapshot, workload: Workload) -> bool:
    """Tell whether a snapshot has quota and places as a workload's admission has them."""
    return fits(snapshot.cluster_queue_of(workload), workload.usage) and snapshot.tas_snapshot.fits(workload)


def is_running(snapshot: Snapshot, workload: Workload) -> bool:
    """Tell whether a workload with an admission runs in a snapshot."""
    return workload.key in snapshot.workloads_by_queue[snapshot.cluster_queue_of(workload).name]


def _steps(now: float, running: Iterable[RunningWorkload], promises: Iterable[Reservation]) -> list[_Step]:
    """Return what happens from now on, by time; at the end of time those leave who never declared when, for those who
    wait for them.
    """
    steps = {now: _Step(now)}
    for run in running:
        steps.setdefault(max(run.deadline, now), _Step(max(run.deadline, now))).leaves.append(run.workload)
    for promise in promises:
        start = max(promise.start, now)
        steps.setdefault(start, _Step(start)).comes.append(promise)
        if start < inf:
            end = start + promise.workload.max_duration
            steps.setdefault(end, _Step(end)).leaves.append(promise.workload)
    return [steps[time] for time in sorted(steps)]

"""Availability over time: a step function that running jobs raise at their deadlines and reservations lower.

It consists of two lists: a query reads a few steps and stops at the first that decides. An array would read all steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from copy import copy
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.pool.job import Job


class AvailabilityProfile:
    """Available amounts (packed_amounts.py) from now on; the last step never ends."""

    __slots__ = ("_available", "_times")

    def __init__(self, now: float, available: int, running: Iterable[tuple[float, int, Job]] = ()) -> None:
        """Begin with the amounts available now; `running`: as PoolState.running, with all deadlines after now."""
        self._times = [now]
        self._available = [available]
        for deadline, _, job in running:
            if deadline == inf:
                break
            available += job.request
            if deadline == self._times[-1]:
                self._available[-1] = available
            else:
                self._times.append(deadline)
                self._available.append(available)

    def copy(self) -> AvailabilityProfile:
        """Return an independent copy."""
        other = copy(self)
        other._times, other._available = self._times[:], self._available[:]
        return other

    def steps(self) -> Iterator[tuple[float, int]]:
        """Yield the start of each step and the amounts available in it."""
        return zip(self._times, self._available, strict=True)

    def advance(self, now: float) -> None:
        """Drop the steps before now."""
        index = bisect_right(self._times, now) - 1
        del self._times[:index], self._available[:index]
        self._times[0] = now

    def add(self, start: float, end: float, amount: int) -> None:
        """Add a packed amount from start until end; a reservation adds a negative one."""
        if end <= start:
            return
        first, last = self._split(start), self._split(end)
        available = self._available
        for index in range(first, last):
            available[index] += amount
        self._join(last)
        self._join(first)

    def earliest(self, job: Job) -> float:
        """Return the first start at which a job fits until its deadline; infinite if there is none."""
        start = self.earlier_start(job, inf, inf)
        return inf if start is None else start

    def fits(self, job: Job, start: float) -> bool:
        """Return whether a job fits from a start until its deadline."""
        request, guards = job.request, job.guards
        times, available = self._times, self._available
        for step in range(bisect_right(times, start) - 1, bisect_left(times, start + job.walltime)):
            if (available[step] - request) & guards != guards:
                return False
        return True

    def earlier_start(self, job: Job, start: float, freed_until: float) -> float | None:
        """Return the first time, before `freed_until`, to which a reservation at `start` can be brought forward.

        The profile includes the reservation itself. From its start on, the job's own amounts are enough, since a job
        that starts earlier also ends earlier. Only the steps before that start are therefore checked.

        Each candidate is checked backwards from its end. The last step in which the job does not fit rules out all
        starts up to the end of that step (as in the string search of Boyer and Moore, CACM 1977). Usually that end is
        the start of the reservation.
        """
        times, available = self._times, self._available
        request, guards, walltime = job.request, job.guards, job.walltime
        last = bisect_left(times, start)
        candidate = checked = 0  # the job fits in the steps from `candidate` up to `checked`
        while candidate < last and times[candidate] < freed_until:
            end = bisect_left(times, times[candidate] + walltime, checked, last)
            step = end
            while step > checked:
                step -= 1
                if (available[step] - request) & guards != guards:
                    break
            else:
                return times[candidate]
            candidate, checked = step + 1, end
        return None

    def _split(self, time: float) -> int:
        """Return the index of the step that begins at a time; create the step if there is none."""
        times = self._times
        if time == inf:
            return len(times)
        index = bisect_left(times, time)
        if index == len(times) or times[index] != time:
            times.insert(index, time)
            self._available.insert(index, self._available[index - 1])
        return index

    def _join(self, index: int) -> None:
        """Merge a step with the previous one if both have equal amounts."""
        available = self._available
        if 0 < index < len(available) and available[index] == available[index - 1]:
            del available[index], self._times[index]

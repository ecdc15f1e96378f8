"""What is free over time: a step function, to which running jobs give back and from which reservations take.

It is two lists, since the queue asks a few steps one by one and stops at the first that decides; an array would pay for
all of them, every time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.pool.pool_state import Job


class AvailabilityProfile:
    """Room (Columns.room) from now on; the last step lasts for ever."""

    __slots__ = ("_rooms", "_times")

    def __init__(self, now: float, available: int, running: Iterable[tuple[float, int, Job]] = ()) -> None:
        """Take what is free now, and jobs that run, ascending by their latest ends, all of them after now."""
        self._times = [now]
        self._rooms = [available]
        for latest, _, job in running:
            if latest == inf:
                break
            available += job.request
            if latest == self._times[-1]:
                self._rooms[-1] = available
            else:
                self._times.append(latest)
                self._rooms.append(available)

    def steps(self) -> Iterator[tuple[float, int]]:
        """Yield when each step begins and what is free from then on."""
        return zip(self._times, self._rooms, strict=True)

    def advance(self, now: float) -> None:
        """Forget what was before now."""
        place = bisect_right(self._times, now) - 1
        if place > 0:
            del self._times[:place], self._rooms[:place]
        self._times[0] = now

    def add(self, start: float, end: float, amount: int) -> None:
        """Add so much from start until end; a reservation is less than nothing (Demand.amount)."""
        if end <= start:
            return
        first, last = self._split(start), self._split(end)
        rooms = self._rooms
        for place in range(first, last):
            rooms[place] += amount
        self._join(last)
        self._join(first)

    def earliest(self, job: Job) -> float:
        """Return the first time at which there is room for a job until its latest end; infinite if there is none."""
        found = self.earlier_start(job, inf, inf)
        return inf if found is None else found

    def fits(self, job: Job, start: float) -> bool:
        """Say whether there is room for a job from a start until its latest end."""
        demand, guards, end = job.request, job.guards, start + job.walltime
        times, rooms = self._times, self._rooms
        place = bisect_right(times, start) - 1
        while place < len(times) and times[place] < end:
            if (rooms[place] - demand) & guards != guards:
                return False
            place += 1
        return True

    def earlier_start(self, job: Job, start: float, freed_until: float) -> float | None:
        """Return the first time, before `grown`, to which a reservation that begins at `start` can be brought forward.

        The reservation itself is in the profile: from its start on the job's own room is enough, since a job that
        starts earlier also ends earlier. So only what is before that start is asked.

        Each try is looked over from its end: the last step without room rules out all starts up to its own end (as
        Boyer and Moore skip text, CACM 1977), which most often is the start that the reservation has.
        """
        times, rooms = self._times, self._rooms
        demand, guards, limit = job.request, job.guards, job.walltime
        least = demand + guards  # as integers, all rooms that it fits into are as large: most others end here
        last = bisect_left(times, start)
        place = known = 0  # it is tried from the step `place` on; those between `place` and `known` have room for it
        while place < last and times[place] < freed_until:
            end = bisect_left(times, times[place] + limit, known, last)
            step = end
            while step > known:
                step -= 1
                if rooms[step] < least or (rooms[step] - demand) & guards != guards:
                    break
            else:
                return times[place]
            place, known = step + 1, end
            if place == end:
                while place < last and rooms[place] < least:
                    place += 1
                known = place
        return None

    def _split(self, time: float) -> int:
        """Return the step that begins at a time, made where there was none."""
        times = self._times
        if time == inf:
            return len(times)
        place = bisect_left(times, time)
        if place == len(times) or times[place] != time:
            times.insert(place, time)
            self._rooms.insert(place, self._rooms[place - 1])
        return place

    def _join(self, place: int) -> None:
        """Make one of two steps between which nothing changes."""
        rooms = self._rooms
        if 0 < place < len(rooms) and rooms[place] == rooms[place - 1]:
            del rooms[place], self._times[place]

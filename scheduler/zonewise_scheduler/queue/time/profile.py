"""What is free over time: a step function, to which running jobs give back and from which reservations take.

It is two lists, since the queue asks a few hundred steps one by one and stops at the first that decides; an array would
pay for all of them, every time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.queue.time.state import Job


class Profile:
    """Room (Columns.room) from now on; the last step lasts for ever."""

    __slots__ = ("_rooms", "_times")

    def __init__(self, now: float, room: int, running: Iterable[tuple[float, int, Job]] = ()) -> None:
        """Take what is free now, and jobs that run, ascending by their latest ends, all of them after now."""
        self._times = [now]
        self._rooms = [room]
        for latest, _, job in running:
            if latest == inf:
                break
            room += job.demand
            if latest == self._times[-1]:
                self._rooms[-1] = room
            else:
                self._times.append(latest)
                self._rooms.append(room)

    def steps(self) -> Iterator[tuple[float, int]]:
        """Yield when each step begins and what is free from then on."""
        return zip(self._times, self._rooms, strict=True)

    def advance(self, now: float) -> None:
        """Forget what was before now."""
        place = bisect_right(self._times, now) - 1
        if place > 0:
            del self._times[:place], self._rooms[:place]
        self._times[0] = now

    def change(self, start: float, end: float, amount: int) -> None:
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
        found = self.before(job, inf, inf)
        return inf if found is None else found

    def fits(self, job: Job, start: float) -> bool:
        """Say whether there is room for a job from a start until its latest end."""
        demand, guards, end = job.demand, job.guards, start + job.limit
        times, rooms = self._times, self._rooms
        place = bisect_right(times, start) - 1
        while place < len(times) and times[place] < end:
            if (rooms[place] - demand) & guards != guards:
                return False
            place += 1
        return True

    def before(self, job: Job, start: float, grown: float) -> float | None:
        """Return the first time, before `grown`, to which a reservation that begins at `start` can be brought forward.

        The reservation itself is in the profile: from its start on the job's own room is enough, since a job that
        starts earlier also ends earlier. So only what is before that start is asked.
        """
        times, rooms = self._times, self._rooms
        demand, guards, limit = job.demand, job.guards, job.limit
        least = demand + guards  # as integers, all rooms that it fits into are as large: most others end here
        last = bisect_left(times, start)
        near = bisect_left(times, grown, 0, last)
        found = None
        clear = inf
        for time, room in zip(islice(times, near), rooms, strict=False):
            if room < least or (room - demand) & guards != guards:
                if found is not None and time >= clear:
                    return found
                found = None
            elif found is None:
                found, clear = time, time + limit
            elif time >= clear:
                return found
        if found is None:
            return None
        for place in range(near, last):
            if times[place] >= clear:
                return found
            if (rooms[place] - demand) & guards != guards:
                return None
        return found

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

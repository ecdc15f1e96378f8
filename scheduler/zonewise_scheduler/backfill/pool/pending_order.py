"""Pending jobs in the orders that a policy needs, maintained between decisions: due jobs, and jobs to backfill.

After a job ends, a decision must find which of thousands of jobs may start. Jobs with equal requests fit equally well,
so they form one group:

1. A group that does not fit is left out. Available amounts only shrink within a decision, so it cannot fit later.
2. A group is always sorted in the policy's backfill order, so a decision sorts nothing.
3. If all jobs of a group end after the shadow time and the extra amounts are too small, none of them may start.

The cost of a decision therefore grows with the number of groups and starts, not with the number of pending jobs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from math import inf
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.pool.job import Job

Entry: TypeAlias = "tuple[int, float, float, int, Job]"
"""Descending priority, BackfillPolicy.backfill_key, submission, serial, job; serials are unique, so jobs are never
compared."""


class RequestGroup(NamedTuple):
    """Pending jobs with equal requests."""

    request: int
    guards: int
    entries: list[Entry]
    """Ascending."""
    walltimes: list[float]
    """Walltimes of all entries, ascending."""


class PendingOrder:
    """See the module."""

    __slots__ = ("_due", "_groups", "_not_due", "policy")

    def __init__(self, policy: BackfillPolicy, jobs: Iterable[Job] = ()) -> None:
        self.policy = policy
        self._groups: dict[int, RequestGroup] = {}
        """Groups by request (PackedRequest.amount); empty unless jobs may overtake."""
        self._not_due: list[tuple[float, int, Job]] = []
        """Time at which the job becomes due, serial, job; ascending."""
        self._due: list[tuple[int, float, int, Job]] = []
        """Descending priority, submission, serial, job; ascending."""
        for job in jobs:
            self.add(job)

    def copy(self) -> PendingOrder:
        """Return an independent copy; the jobs are the same."""
        other = PendingOrder(self.policy)
        other._groups = {
            request: group._replace(entries=group.entries[:], walltimes=group.walltimes[:])
            for request, group in self._groups.items()
        }
        other._not_due, other._due = self._not_due[:], self._due[:]
        return other

    def add(self, job: Job) -> None:
        """Add a pending job."""
        policy = self.policy
        if policy.overtaking:
            group = self._groups.get(job.request)
            if group is None:
                group = self._groups[job.request] = RequestGroup(job.request, job.guards, [], [])
            insort(group.entries, self._entry(job))
            insort(group.walltimes, job.walltime)
        if policy.reserve_after < inf:
            insort(self._not_due, (self._due_at(job), job.serial, job))

    def remove(self, job: Job) -> None:
        """Remove a job that was added."""
        if self.policy.overtaking:
            group = self._groups[job.request]
            del group.entries[bisect_left(group.entries, self._entry(job))]
            del group.walltimes[bisect_left(group.walltimes, job.walltime)]
            if not group.entries:
                del self._groups[job.request]
        if self.policy.reserve_after < inf:
            index = bisect_left(self._not_due, (self._due_at(job), job.serial))
            if index < len(self._not_due) and self._not_due[index][-1] is job:
                del self._not_due[index]
            else:
                del self._due[bisect_left(self._due, (-job.priority, job.submitted, job.serial))]

    def due(self, now: float) -> Iterator[Job]:
        """Yield the jobs that have waited long enough for a reservation, in the order of the queue."""
        count = bisect_right(self._not_due, (now, inf))
        for _, serial, job in self._not_due[:count]:
            insort(self._due, (-job.priority, job.submitted, serial, job))
        del self._not_due[:count]
        return (entry[-1] for entry in self._due)

    def fitting(self, available: int) -> list[RequestGroup]:
        """Return the groups whose jobs fit."""
        return [group for group in self._groups.values() if (available - group.request) & group.guards == group.guards]

    def _entry(self, job: Job) -> Entry:
        key = self.policy.backfill_key(job.walltime, job.submitted)
        return (-job.priority, key, job.submitted, job.serial, job)

    def _due_at(self, job: Job) -> float:
        return job.submitted + self.policy.reserve_age(job.walltime)

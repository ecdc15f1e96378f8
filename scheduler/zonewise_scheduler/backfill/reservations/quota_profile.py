"""Quota usage over time, in steps that begin whenever a run or a reservation begins or ends.

Usage is constant within a step. An array holds the usage of each node of the quota tree in each step. A query about all
times is therefore one comparison of vectors (quota/hierarchy/resource_node.py computes the same sums for one time).
Placements on nodes are not included.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from math import inf, ulp
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.backfill.types import StartInterval
from zonewise_scheduler.quota.api.amount import UNLIMITED, minus, plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorRequests
    from zonewise_scheduler.quota.hierarchy.resource_node import ResourceNode
    from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

    Amounts = npt.NDArray[np.float64]
    """Amounts by step."""


_PRECISION = 2.0**-40
"""Relative error of a sum of up to some thousand amounts."""


class UsageSpan(NamedTuple):
    """Usage of a queue from start until end, in seconds. A start at infinity comes after every known end."""

    queue: str
    requests: FlavorRequests
    start: float
    end: float


class _Row(NamedTuple):
    """The quota of a node for one flavor resource; unlimited amounts are infinite."""

    number: int
    """Index of its usage in the array."""
    subtree_quota: float
    local_quota: float
    borrowable: float | None
    """Limit of the usage beyond the local quota; None: as much as the parent has."""
    tolerance: float
    """Bound on the rounding errors of amounts available to the node; sums of bytes may exceed 53 bits."""
    parent: _Row | None


class QuotaProfile:
    """Usage from now on."""

    def __init__(self, snapshot: Snapshot, now: float, grain: float, boundaries: Iterable[float] = ()) -> None:
        """Begin without usage. A boundary is merged with a later one within a `grain` of its time from now.

        `boundaries`: times after now at which steps begin; to add them later is slower.
        """
        self.snapshot = snapshot
        self._grain = grain
        self._times = sorted({now, inf, *boundaries})
        """Start of each step; in the last step, workloads without a walltime have ended too."""
        self._rows: dict[tuple[str, FlavorResource], _Row] = {}
        """Rows of queues."""
        self._cohort_rows: dict[tuple[str, FlavorResource], _Row] = {}
        self._usage = np.zeros((8, len(self._times)))
        """Usage by row and step; some rows, and the columns behind the last step, are spare."""
        self._least: dict[tuple[str, FlavorResource, float], list[float]] = {}
        """Cache of latest_end: the least amount up to each step, negated, by queue, key and start."""

    def advance(self, now: float) -> None:
        """Drop the steps before now."""
        if now == self._times[0]:
            return
        self._least.clear()
        index = bisect_right(self._times, now) - 1
        if index > 0:
            del self._times[:index]
            self._usage = self._usage[:, index:]
        self._times[0] = now

    def add(self, span: UsageSpan) -> UsageSpan:
        """Add usage; return it as counted, with its times moved to step boundaries."""
        start, end = self._boundary(span.start), self._boundary(span.end)
        counted = span._replace(start=start, end=end)
        self._change(counted, 1)
        return counted

    def remove(self, counted: UsageSpan) -> None:
        """Remove usage that add() has returned."""
        self._change(counted, -1)

    def fits(self, queue: str, requests: FlavorRequests, start: float, end: float, *, last: bool = False) -> bool:
        """Return whether a queue may use the requests from start until end; `last`: in the last step too."""
        first, stop = self._step_at(start), bisect_left(self._times, end)
        stop = len(self._times) if last else stop
        return stop <= first or all(
            bool(self._suffices(self._row(queue, key), first, stop, amount).all()) for key, amount in requests
        )

    def may_fit_before(self, queue: str, requests: FlavorRequests, start: float) -> bool:
        """Return whether a queue may use the requests in some step before a time, even if only briefly."""
        stop = bisect_left(self._times, start)
        return bool(self._fitting(queue, requests, stop).any())

    def latest_end(self, queue: str, key: FlavorResource, start: float, amount: int) -> float:
        """Return the first time from `start` on at which less than an amount is available; infinite if there is none.

        A lack in the last step does not count.
        """
        negated = self._least.get((queue, key, start))
        if negated is None:
            available = self._available(self._row(queue, key), self._step_at(start), len(self._times))
            negated = self._least[queue, key, start] = (-np.minimum.accumulate(available)).tolist()
        index = bisect_right(negated, -amount)
        return self._times[index - len(negated)] if index < len(negated) else inf

    def earliest_start(
        self, queue: str, requests: FlavorRequests, walltime: float, begin_at: float = 0.0
    ) -> float | None:
        """Return the earliest step start from which the requests fit for a walltime, in seconds; None if never.

        It may also be `begin_at`, and is no earlier.
        """
        starts = self.possible_starts(queue, requests, walltime)
        return next((max(start.first, begin_at) for start in starts if start.last >= begin_at), None)

    def possible_starts(self, queue: str, requests: FlavorRequests, walltime: float) -> Iterator[StartInterval]:
        """Yield the intervals of starts from which the requests fit for a walltime, ascending.

        The last start is rounded up.
        """
        times = self._times
        fitting = self._fitting(queue, requests, len(times))
        begin = 0
        for end in (*np.flatnonzero(~fitting).tolist(), len(times)):
            if begin < end:
                until = times[end] if end < len(times) else inf
                if times[begin] + walltime <= until:
                    last = inf if until == inf else until - walltime + 2 * ulp(until)
                    yield StartInterval(times[begin], last)
            begin = end + 1

    def _step_at(self, time: float) -> int:
        """Return the step at a time; for a time before now, the first step."""
        return max(bisect_right(self._times, time) - 1, 0)

    def _fitting(self, queue: str, requests: FlavorRequests, stop: int) -> npt.NDArray[np.bool_]:
        """Return, for each step, whether a queue may use the requests."""
        fitting = np.ones(stop, np.bool_)
        for key, amount in requests:
            fitting &= self._suffices(self._row(queue, key), 0, stop, amount)
        return fitting

    def _suffices(self, row: _Row, first: int, stop: int, amount: int) -> npt.NDArray[np.bool_]:
        return self._available(row, first, stop) >= amount - row.tolerance

    def _available(self, row: _Row, first: int, stop: int) -> Amounts:
        """Return the amounts available to a node, including its ancestors' (as ResourceNode.available())."""
        usage: Amounts = self._usage[row.number, first:stop]
        if row.parent is None:
            return row.subtree_quota - usage
        available = self._available(row.parent, first, stop)
        if row.borrowable is not None:
            available = np.minimum(available, row.borrowable - np.maximum(usage - row.local_quota, 0.0))
        return available + np.maximum(row.local_quota - usage, 0.0) if row.local_quota else available

    def _change(self, span: UsageSpan, sign: int) -> None:
        first, stop = bisect_left(self._times, span.start), bisect_left(self._times, span.end)
        stop += span.start == inf
        self._least.clear()
        if first >= stop:
            return
        for key, amount in span.requests:
            row: _Row | None = self._row(span.queue, key)
            more: Amounts | float = float(sign * amount)
            while row is not None:
                usage = self._usage[row.number, first:stop]
                if row.local_quota:
                    before = np.maximum(usage - row.local_quota, 0.0)
                    usage += more
                    more = np.maximum(usage - row.local_quota, 0.0) - before
                else:
                    usage += more
                row = row.parent

    def _boundary(self, time: float) -> float:
        """Return a step boundary at a time, or an existing one that is slightly later; add it if necessary."""
        times = self._times
        index = bisect_left(times, time)
        if times[index] - time <= self._grain * (time - times[0]):  # the last step begins at infinity
            return times[index]
        if index and times[index] != time:
            self._least.clear()
            self._split_step(index - 1)
            times.insert(index, time)
        return time

    def _split_step(self, step: int) -> None:
        """Make two steps with the usage of one."""
        count = len(self._times)
        if count == self._usage.shape[1]:
            self._usage = np.hstack((self._usage, np.zeros_like(self._usage)))
        self._usage[:, step + 1 : count + 1] = self._usage[:, step:count]

    def _row(self, queue: str, key: FlavorResource) -> _Row:
        row = self._rows.get((queue, key))
        if row is None:
            row = self._rows[queue, key] = self._new_row(self.snapshot.cluster_queues[queue], key)
        return row

    def _new_row(self, node: ResourceNode, key: FlavorResource) -> _Row:
        """Add a row for a node, and for its ancestor cohorts that have none."""
        parent: _Row | None = None
        if node.parent is not None:
            parent = self._cohort_rows.get((node.parent.name, key))
            if parent is None:
                parent = self._cohort_rows[node.parent.name, key] = self._new_row(node.parent, key)
        quota, local = node.quotas.get(key), node.local_quota(key)
        subtree = node.subtree_quota[key]
        borrowable: float | None = None
        if quota is not None and quota.borrowing_limit is not None:
            borrowable = _number(plus(minus(subtree, local), quota.borrowing_limit))
        index = len(self._rows) + len(self._cohort_rows)
        if index >= len(self._usage):
            self._usage = np.vstack((self._usage, np.zeros_like(self._usage)))
        finite = (amount for amount in (_number(subtree), borrowable) if amount is not None and amount < inf)
        tolerance = max(finite, default=0.0) * _PRECISION + (0.0 if parent is None else parent.tolerance)
        return _Row(index, _number(subtree), _number(local), borrowable, tolerance, parent)


def usage_requests(usages: Iterable[tuple[FlavorResource, int]]) -> FlavorRequests:
    """Return the amounts above 0."""
    return tuple((key, amount) for key, amount in usages if amount > 0)


def _number(amount: int) -> float:
    return inf if amount == UNLIMITED else float(amount)

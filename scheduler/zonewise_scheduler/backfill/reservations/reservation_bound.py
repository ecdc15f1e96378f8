"""Lower bounds on the reserved starts of workloads, from quota alone.

The search for a reserved start moves a copy of the snapshot through time. If a workload lacks quota at every time up to
the latest start that may be reserved, the search is needless.

Invariant: if quota_lacks_until() returns True, then Timeline.earliest_reservation() finds no start by `latest`. If
starts_eventually() returns True, it finds a start. A start that it finds before a reservation is in one of the
intervals of PossibleStarts.

Proof of the first statement.
1. The timeline only removes running workloads at their deadlines and victims of reservations. Everything else that it
   does up to `latest` adds usage.
2. At each node, the available amount grows by at most 1 for each 1 of removed usage. So it is at most the current
   amount plus the usage of the removed workloads of the tree.
3. A reservation counts no preemptions of its own, and needs all requests of one of the flavor alternatives.

Proof of the second statement.
1. At the last step of the timeline, all workloads have ended, with or without a walltime. Only reserved workloads with
   an unknown start remain.
2. None of these shares quota with the queue. So the usage in its tree is zero, and each alternative is available.
3. None of the alternatives has a topology, so the pods need no placement.

Proof of the third statement.
1. The profile has the usage of the timeline at each time, except that it never counts victims of reservations.
2. A start delays no reservation only if the workload has quota beside it. Between two reserved starts, usage shrinks.
   So the workload has quota until its deadline.
3. As above, it needs all requests of one of the flavor alternatives.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.quota_profile import QuotaProfile, UsageSpan, usage_requests
from zonewise_scheduler.quota.api.amount import plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.backfill.reservations.timeline import TimelineSource
    from zonewise_scheduler.backfill.types import Reservation, StartInterval
    from zonewise_scheduler.quota.api.resource_quota import FlavorResource
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives


def quota_lacks_until(
    latest: float,
    queue: str,
    alternatives: FlavorAlternatives,
    source: TimelineSource,
    reservations: Iterable[Reservation],
) -> bool:
    """Return whether none of the flavor alternatives certainly has enough quota in a queue at any time up to `latest`.

    `latest`: in seconds of the planner's clock. `reservations`: those of other workloads.
    """
    node = source.snapshot.cluster_queues[queue]
    released: dict[FlavorResource, int] = {}
    for workload in _ended_by(latest, source, reservations):
        if workload.admission is not None and source.cohort_index.share_quota(queue, workload.admission.cluster_queue):
            for key, amount in workload.usage.items():
                released[key] = released.get(key, 0) + amount
    return not any(
        all(amount <= plus(node.available(key), released.get(key, 0)) for key, amount in requests)
        for requests in alternatives
    )


def starts_eventually(
    queue: str, alternatives: FlavorAlternatives, source: TimelineSource, reservations: Iterable[Reservation]
) -> bool:
    """Return whether a workload with these alternatives certainly has a start in a queue, however late.

    `reservations`: those of other workloads.
    """
    flavors = source.snapshot.resource_flavors or {}
    names = {key.flavor for requests in alternatives for key, _ in requests}
    if not alternatives or any(name in flavors and flavors[name].topology_name for name in names):
        return False
    return not any(
        reservation.start == inf and source.cohort_index.share_quota(queue, reservation.queue)
        for reservation in reservations
    )


def _ended_by(latest: float, source: TimelineSource, reservations: Iterable[Reservation]) -> Iterator[Workload]:
    """Yield the running workloads that the timeline removes up to a time."""
    victims = {victim.key for reservation in reservations for victim in reservation.victims}
    for run in source.running_workloads:
        if run.deadline <= latest or run.workload.key in victims:
            yield run.workload
        elif not victims:
            return


class PossibleStarts:
    """The starts that the reservations of a table may have, from quota alone."""

    def __init__(self, source: TimelineSource, reservations: Mapping[str, Reservation], now: float) -> None:
        """Count all usage from `now` on; `reservations`: by key of the workload."""
        spans = dict(running_spans(source, reservations.values(), now))
        spans |= {key: reserved_span(reservation, now) for key, reservation in reservations.items()}
        boundaries = {time for span in spans.values() for time in (span.start, span.end)}
        self._now = now
        self._profile = QuotaProfile(source.snapshot, now, 0.0, boundaries)
        self._spans = {key: self._profile.add(span) for key, span in spans.items()}

    def up_to_present(self, reservation: Reservation, alternatives: FlavorAlternatives) -> list[StartInterval]:
        """Return intervals that include all possible starts of a reservation up to the present one."""
        span = self._spans[reservation.workload.key]
        self._profile.remove(span)
        walltime = reservation.head.workload.max_duration
        intervals = [
            interval._replace(last=min(interval.last, reservation.start))
            for requests in alternatives
            for interval in self._profile.possible_starts(reservation.queue, requests, walltime)
            if interval.first <= reservation.start
        ]
        self._profile.add(span)
        return intervals

    def move(self, reservation: Reservation) -> None:
        """Replace the reservation of a workload."""
        key = reservation.workload.key
        self._profile.remove(self._spans[key])
        self._spans[key] = self._profile.add(reserved_span(reservation, self._now))


def running_spans(
    source: TimelineSource, reservations: Iterable[Reservation], now: float
) -> Iterator[tuple[str, UsageSpan]]:
    """Yield the usage of the running workloads from `now` on, by key, without the victims of reservations."""
    victims = {victim.key for reservation in reservations for victim in reservation.victims}
    for run in source.running_workloads:
        workload = run.workload
        if run.deadline > now and workload.key not in victims and workload.admission is not None:
            requests = usage_requests(workload.usage.items())
            yield workload.key, UsageSpan(workload.admission.cluster_queue, requests, now, run.deadline)


def reserved_span(reservation: Reservation, now: float) -> UsageSpan:
    """Return the usage of a reservation; one whose start is in the past begins at `now`."""
    start, requests = max(reservation.start, now), usage_requests(reservation.workload.usage.items())
    return UsageSpan(reservation.queue, requests, start, start + reservation.workload.max_duration)

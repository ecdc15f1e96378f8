"""A lower bound on the reserved start of a workload, from quota alone.

The search for a reserved start moves a copy of the snapshot through time. If a workload lacks quota at every time up to
the latest start that may be reserved, the search is needless.

Invariant: if quota_lacks_until() returns True, then Timeline.earliest_reservation() finds no start by `latest`.

Proof.
1. The timeline only removes running workloads at their deadlines and victims of reservations. Everything else that it
   does up to `latest` adds usage.
2. At each node, the available amount grows by at most 1 for each 1 of removed usage. So it is at most the current
   amount plus the usage of the removed workloads of the tree.
3. A reservation counts no preemptions of its own, and needs all requests of one of the flavor alternatives.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.api.amount import plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise_scheduler.backfill.timeline import TimelineSource
    from zonewise_scheduler.backfill.types import Reservation
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
    released: Counter[FlavorResource] = Counter()
    for workload in _ended_by(latest, source, reservations):
        if workload.admission is not None and source.cohort_index.share_quota(queue, workload.admission.cluster_queue):
            released.update(workload.usage)
    return not any(
        all(amount <= plus(node.available(key), released[key]) for key, amount in requests) for requests in alternatives
    )


def _ended_by(latest: float, source: TimelineSource, reservations: Iterable[Reservation]) -> Iterator[Workload]:
    """Yield the running workloads that the timeline removes up to a time."""
    victims = {victim.key for reservation in reservations for victim in reservation.victims}
    for run in source.running_workloads:
        if run.deadline <= latest or run.workload.key in victims:
            yield run.workload
        elif not victims:
            return

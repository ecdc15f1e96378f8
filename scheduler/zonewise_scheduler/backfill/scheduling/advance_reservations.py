"""Advance reservations: workloads hold a reservation before their begin time, if their ClusterQueue is configured so.

Other workloads get a reservation only once they are due. An advance reservation holds resources for a time that an
administrator has chosen, such as that of a maintenance. It has no start before the begin time (timeline.py).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise_scheduler.quota.cycle.entry import Head

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.state.planner_state import PlannerState

MAX_ADVANCE_RESERVATIONS = 16
"""Maximum number of advance reservations of a ClusterQueue, and of its searches for them in one pass. Each reservation
makes every pass slower, and each search takes as long as a usual pass."""


def reserve_in_advance(state: PlannerState) -> list[str]:
    """Reserve a start for the workloads with a begin time that have none and may have one; return their keys.

    If no start is found for a workload, the next retry of workloads without a start tries it again. If this pass has no
    search left for a workload, a later pass tries it, at the next retry at the latest.
    """
    untried = [key for key, is_tried in state.unreserved.items() if not is_tried]
    if not untried:
        return []
    reserved: list[str] = []
    counts = Counter(
        reservation.queue
        for reservation in state.reservations.by_key.values()
        if reservation.head.workload.begin_at > state.now
    )
    searches: Counter[str] = Counter()
    for key in untried:
        queue, workload = state.pending[key], state.pending_workload(key)
        if workload is None or workload.begin_at <= state.now:
            del state.unreserved[key]
        elif counts[queue] >= MAX_ADVANCE_RESERVATIONS or queue in state.snapshot.inactive:
            continue
        elif searches[queue] == MAX_ADVANCE_RESERVATIONS:
            state.must_retry = True
        else:
            searches[queue] += 1
            state.unreserved[key] = True
            if state.reservations.reserve(Head(workload, queue), state) is not None:
                del state.unreserved[key]
                counts[queue] += 1
                reserved.append(key)
    return reserved

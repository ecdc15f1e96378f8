"""Reservations of the workloads that are due in a pass, and those that get none.

A due workload that cannot start gets a reservation, unless its start would be too far away or it has none at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.reservation_bound import quota_lacks_until, starts_eventually

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.scheduling.pass_state import PassState
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.flavorassigner.flavorassigner import FlavorAlternatives


def reserve_due(pass_state: PassState, head: Head, alternatives: FlavorAlternatives | None) -> None:
    """Reserve a start for a workload that has none, unless it is too far away (BackfillPolicy.latest_start).

    An existing reservation is kept until the pass ends, since its obstacles may have disappeared by then.
    """
    state, key = pass_state.state, head.workload.key
    if key in state.reservations.by_key:
        return
    if is_postponed(state, head, alternatives or ()):
        pass_state.postpone(head)
        return
    latest = state.latest_start(head.workload)
    start = state.reservations.reserve(head, state, latest)
    if start is None:
        pass_state.without_start.append(head)
    elif start <= latest:
        pass_state.reserved.append(key)
    else:
        pass_state.postpone(head)


def keep_unreserved(pass_state: PassState) -> None:
    """Keep the workloads that were due and got no reservation, so that they will be due again.

    The last one that was due in each queue may still be the first of its queue, so it is removed before it is added.
    """
    queues, postponed = pass_state.state.pending_queues, pass_state.postponed
    unreserved = [*(head for heads in postponed.values() for head in heads), *pass_state.without_start]
    keys = {head.workload.key for head in unreserved}
    for head in unreserved:
        queues[head.cluster_queue].remove_due(keys)
    for name, heads in postponed.items():
        for head in heads:
            queues[name].make_due(head.workload)
        queues[name].postponed = frozenset(head.workload.key for head in heads)
    for head in pass_state.without_start:
        queues[head.cluster_queue].keep_without_start(head.workload)


def is_postponed(state: PlannerState, head: Head, alternatives: FlavorAlternatives) -> bool:
    """Return whether a search for the reserved start of a waiting workload would certainly postpone it.

    The workload has a start, because the last search has found one or from quota alone. However, it lacks quota until
    the latest start that may be reserved (reservation_bound.py).
    """
    key, name, reservations = head.workload.key, head.cluster_queue, state.reservations.by_key
    if not alternatives or key in reservations:
        return False
    latest, others = state.latest_start(head.workload), reservations.values()
    has_start = key in state.pending_queues[name].postponed or starts_eventually(name, alternatives, state, others)
    return has_start and quota_lacks_until(latest, name, alternatives, state, others)

"""The heads of a pass within a play, one at a time, in the order in which cycles would decide about them.

A cycle nominates the heads of all queues and then decides about one after the other. If all heads fit but only the
first few start, every cycle nominates the others again without result. In a play, a head is nominated only after the
decisions before it, unless it certainly lacks quota by then. The order is that of cycles: by the number of earlier
heads of the queue, then as in a cycle. Shapes that would certainly be rejected again are not activated, but count as
earlier heads of their queue. The approximations are:

- A waiting head does not withhold quota from the others of its cycle (quota_resources_to_reserve).
- A head is inadmissible if the others of its cycle leave too little for it. In a real cycle, it is skipped and becomes
  a head again.
- The order depends on whether a head borrows, but not on the cohort up to which it borrows.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.cycle_heads import (
    begin_cycle,
    due_rejection,
    due_workloads,
    head_rejection,
    skip_head,
)
from zonewise_scheduler.backfill.pass_state import PlayHead
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.queue.heads import pop_heads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.backfill.forecast_starts import KnownAdmissions
    from zonewise_scheduler.backfill.pass_state import PassState
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason


def next_head(pass_state: PassState, known: KnownAdmissions) -> list[Head]:
    """Pop the next head that must be nominated; return an empty list if no queue has a head that may start.

    Heads before it that start as earlier workloads did are started (forecast_starts.py).
    """
    state, heads = pass_state.state, pass_state.play_heads
    if state.policy.reserves:
        state.reservations.begin_cycle(state, state.now)
    _push_heads(pass_state, pass_state.queues_without_head)
    pass_state.queues_without_head = []
    while heads:
        head = heappop(heads)
        heap = state.pending_queues[head.queue].heap
        pass_state.head_counts[head.queue] += 1
        key = head.due
        if not head.due:
            key, reason = head_rejection(pass_state, head.queue)
            if reason:
                heap.mark_inadmissible(key, reason)
                _push_heads(pass_state, [head.queue])
                continue
        begin_cycle(pass_state)
        if known.start(pass_state, head.queue, key):
            _push_heads(pass_state, [head.queue])
            continue
        selected = {head.queue: head.due} if head.due else {}
        popped = pop_heads([heap], state.snapshot, state.namespaces, pass_state.cycle, selected)
        if popped:
            pass_state.queues_without_head = [head.queue]
            return popped
    return []


def _push_heads(pass_state: PassState, names: Iterable[str]) -> None:
    """Add the heads of queues; queues without one become inactive."""
    state = pass_state.state
    names = [name for name in names if name not in pass_state.exhausted_queues]
    due = _due_workloads(pass_state, names)
    for name in names:
        key = due.get(name) or _first_not_rejected(pass_state, name)
        if not key:
            state.active_queues.pop(name, None)
            continue
        heap = state.pending_queues[name].heap
        workload = heap.get(key)
        if workload is None:
            raise KeyError(key)
        number = pass_state.head_counts[name]
        if name not in due:
            number += heap.count_before(key, pass_state.rejected_ranks.get(name, ()))
        timestamp = workload.queue_order_timestamp(requeue_from_eviction=state.settings.requeue_from_eviction)
        borrows = _borrows(state.snapshot.cluster_queues[name], workload)
        heappush(
            pass_state.play_heads, PlayHead(number, borrows, -workload.priority, timestamp, name, due.get(name, ""))
        )


def _due_workloads(pass_state: PassState, names: list[str]) -> dict[str, str]:
    """Return the due workload of each queue that has one; postpone those before it that are certainly rejected."""
    due = due_workloads(pass_state, names)
    while postponed := _due_rejections(pass_state, due):
        for name, reason in postponed.items():
            skip_head(pass_state, name, due.pop(name), reason, due=True)
            pass_state.head_counts[name] += 1
        due |= due_workloads(pass_state, list(postponed))
    return due


def _due_rejections(pass_state: PassState, due: Mapping[str, str]) -> dict[str, BoundReason]:
    """Return why due workloads would certainly be rejected, by queue; the others are left out."""
    return {name: reason for name, key in due.items() if (reason := due_rejection(pass_state, name, key))}


def _first_not_rejected(pass_state: PassState, name: str) -> str:
    """Return a queue's first workload that is not certainly rejected, and mark those before it inadmissible."""
    state, queue = pass_state.state, pass_state.state.pending_queues[name]
    due, reserved = pass_state.due_tries, state.reservations.by_key
    key, reason = head_rejection(pass_state, name)
    while reason:
        queue.heap.mark_inadmissible(key, reason)
        key, skipped = queue.heap.skip_rejected_heads(
            pass_state.headroom, state.snapshot.local_queue_usage, due, reserved
        )
        pass_state.head_counts[name] += 1 + skipped
        reason = ""
        if key in due or key in reserved:
            key, reason = head_rejection(pass_state, name)
    return key


def _borrows(queue: ClusterQueueSnapshot, workload: Workload) -> bool:
    """Return whether some resource request exceeds what is left of the queue's own quota in every flavor."""
    if queue.parent is None:
        return False
    requests = workload.requests_by_resource
    return any(amount and not _has_own_quota(queue, resource, amount) for resource, amount in requests.items())


def _has_own_quota(queue: ClusterQueueSnapshot, resource: str, amount: int) -> bool:
    group = queue.rg_by_resource.get(resource)
    return group is not None and any(
        not queue.borrowing_with(FlavorResource(name, resource), amount) for name in group.flavor_names
    )

"""The heads of a pass within a sample path, one at a time, in the order in which cycles would decide about them.

A cycle nominates the heads of all queues and then decides about one after the other. If all heads fit but only the
first few start, every cycle nominates the others again without result. In a sample path, a head is nominated only after
the decisions before it, unless it certainly lacks quota by then. The order is that of cycles: by the number of earlier
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

from zonewise_scheduler.backfill.scheduling.cycle_heads import (
    begin_cycle,
    due_rejection,
    due_workload,
    head_rejection,
    skip_head,
)
from zonewise_scheduler.backfill.scheduling.due_reservations import reserve_due
from zonewise_scheduler.backfill.scheduling.pass_state import SamplePathHead
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.queue.heads import admits_namespace, pop_heads

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
    from zonewise_scheduler.backfill.scheduling.pass_state import PassState
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot


def next_head(pass_state: PassState, known: KnownAdmissions) -> list[Head]:
    """Pop the next head that must be nominated; return an empty list if no queue has a head that may start.

    Heads before it that start as earlier workloads did are started (known_admissions.py).
    """
    state, heads = pass_state.state, pass_state.sample_path_heads
    if state.policy.reserves:
        state.reservations.begin_cycle(state, state.now)
    for name in pass_state.queues_without_head:
        _push_head(pass_state, name)
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
                _push_head(pass_state, head.queue)
                continue
        begin_cycle(pass_state)
        if known.start(pass_state, head.queue, key) or _reject(pass_state, head.queue, key):
            _push_head(pass_state, head.queue)
            continue
        selected = {head.queue: head.due} if head.due else {}
        popped = pop_heads([heap], state.snapshot, state.namespaces, pass_state.cycle, selected)
        if popped:
            pass_state.queues_without_head = [head.queue]
            return popped
    return []


def _reject(pass_state: PassState, name: str, key: str) -> bool:
    """Reject a head without a nomination if it certainly lacks quota; return whether it is rejected.

    If it is due, it gets a reservation, as after a nomination.
    """
    state = pass_state.state
    queue, reservation = state.pending_queues[name], state.reservations.by_key.get(key)
    workload = queue.heap.get(key)
    if workload is None or queue.strict or not queue.heap.lacks_only_quota(key):
        return False
    if reservation is not None and reservation.start <= state.now:
        return False
    head = Head(workload, name)
    alternatives = pass_state.headroom.alternatives(head)
    if not alternatives or not admits_namespace(queue.heap.spec, workload.namespace, state.namespaces):
        return False
    bound = pass_state.headroom.shape_bound(name, workload.priority, alternatives)
    if pass_state.headroom.inadmissible_reason(bound, workload.walltime) != "NoQuota":
        return False
    queue.heap.reject(key)
    pass_state.rejected.add(key)
    if key in pass_state.due_tries:
        reserve_due(pass_state, head, alternatives)
    return True


def _push_head(pass_state: PassState, name: str) -> None:
    """Add the head of a queue; a queue without one becomes inactive."""
    state = pass_state.state
    if name in pass_state.exhausted_queues:
        return
    if name in state.snapshot.inactive:
        state.active_queues.pop(name, None)
        return
    due = _due_workload(pass_state, name)
    key = due or _first_not_rejected(pass_state, name)
    if not key:
        state.active_queues.pop(name, None)
        return
    heap = state.pending_queues[name].heap
    workload = heap.get(key)
    if workload is None:
        raise KeyError(key)
    number = pass_state.head_counts[name]
    if not due:
        number += heap.count_before(key, pass_state.rejected_ranks.get(name, ()))
    timestamp = workload.queue_order_timestamp(requeue_from_eviction=state.settings.requeue_from_eviction)
    borrows = _borrows(state.snapshot.cluster_queues[name], workload)
    heappush(pass_state.sample_path_heads, SamplePathHead(number, borrows, -workload.priority, timestamp, name, due))


def _due_workload(pass_state: PassState, name: str) -> str:
    """Return the due workload of a queue, "" if it has none; postpone those before it that are certainly rejected."""
    while key := due_workload(pass_state, name, pass_state.state.reservations.by_queue()):
        reason = due_rejection(pass_state, name, key)
        if not reason:
            break
        skip_head(pass_state, name, key, reason, due=True)
        pass_state.head_counts[name] += 1
    return key


def _first_not_rejected(pass_state: PassState, name: str) -> str:
    """Return a queue's first workload that is not certainly rejected, and mark those before it inadmissible."""
    state, queue = pass_state.state, pass_state.state.pending_queues[name]
    due, reserved, usage = pass_state.due_tries, state.reservations.by_key, state.snapshot.local_queue_usage
    if queue.strict:
        return head_rejection(pass_state, name)[0]
    while True:
        key, skipped = queue.heap.skip_rejected_heads(pass_state.headroom, usage, due, reserved)
        pass_state.head_counts[name] += skipped
        if key not in due and key not in reserved:
            return key
        key, reason = head_rejection(pass_state, name)
        if not reason:
            return key
        queue.heap.mark_inadmissible(key, reason)
        pass_state.head_counts[name] += 1


def _borrows(queue: ClusterQueueSnapshot, workload: Workload) -> bool:
    """Return whether some resource request exceeds what is left of the queue's own quota in every flavor."""
    if queue.parent is None:
        return False
    for resource, amount in workload.requests_by_resource.items():
        keys = queue.keys_by_resource.get(resource, ())
        if amount and all(queue.borrowing_with(key, amount) for key in keys):
            return True
    return False

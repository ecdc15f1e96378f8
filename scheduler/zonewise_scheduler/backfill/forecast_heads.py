"""The heads of a pass of a play: one at a time, in the order in which a cycle decides about them.

A cycle nominates the heads of all queues and then decides about one after the other. Where they all fit and only the
first few start, all others are nominated in vain, in each cycle again. A round has the same heads in the same order.
Yet a head is nominated only after the decisions before it, if it does not certainly lack quota by then. These are
approximations:

- A head that waits holds no quota from the others of its round (quota_resources_to_reserve).
- Whether a head borrows decides the order, and not up to which cohort.
- A head that the others of its round have left too little is inadmissible, and the next of its queue joins the next
  round. In a cycle it is skipped, and is a head again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.backfill.cycle_heads import begin_cycle, due_workloads, head_rejection
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.queue.heads import pop_heads

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.pass_state import PassState
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Head
    from zonewise_scheduler.quota.hierarchy.resource_node import ClusterQueueSnapshot


class RoundHead(NamedTuple):
    """A queue whose head may start in a round."""

    queue: str
    due: str
    """The workload that is due; "": the first of the queue's order is the head."""


def next_head(pass_state: PassState) -> list[Head]:
    """Pop the next head of the round, or of the next round; none where no queue has a head that may start."""
    state = pass_state.state
    while pass_state.round or _begin_round(pass_state):
        queue, due = pass_state.round.pop()
        if queue in pass_state.exhausted_queues:
            continue
        heap = state.pending_queues[queue].heap
        if not due:
            key, reason = head_rejection(pass_state, queue)
            if reason:
                heap.mark_inadmissible(key, reason)
                continue
        begin_cycle(pass_state)
        heads = pop_heads([heap], state.snapshot, None, pass_state.cycle, {queue: due} if due else {})
        if heads:
            return heads
    return []


def _begin_round(pass_state: PassState) -> bool:
    """Begin a round with the head of each queue; queues without a head become inactive. Return whether there is any."""
    state = pass_state.state
    names = [name for name in state.active_queues if name not in pass_state.exhausted_queues]
    due = due_workloads(pass_state, names)
    if state.policy.reserves:
        state.reservations.begin_cycle(state, state.now)
    heads = {name: due.get(name) or _first_not_rejected(pass_state, name) for name in names}
    for name, key in heads.items():
        if not key:
            del state.active_queues[name]
    order = sorted((name for name, key in heads.items() if key), key=lambda name: _order(pass_state, name, heads[name]))
    pass_state.round = [RoundHead(name, due.get(name, "")) for name in reversed(order)]
    return bool(order)


def _first_not_rejected(pass_state: PassState, name: str) -> str:
    """Return the first workload of a queue that would not certainly be rejected; those before it are inadmissible."""
    key, reason = head_rejection(pass_state, name)
    while reason:
        pass_state.state.pending_queues[name].heap.mark_inadmissible(key, reason)
        key, reason = head_rejection(pass_state, name)
    return key


def _order(pass_state: PassState, name: str, key: str) -> tuple[bool, int, float]:
    """Return the sort key of a head in its round: as in a cycle, first those that do not borrow."""
    state = pass_state.state
    workload = state.pending_queues[name].heap.get(key)
    if workload is None:
        raise KeyError(key)
    timestamp = workload.queue_order_timestamp(requeue_from_eviction=state.settings.requeue_from_eviction)
    return _borrows(state.snapshot.cluster_queues[name], workload), -workload.priority, timestamp


def _borrows(queue: ClusterQueueSnapshot, workload: Workload) -> bool:
    """Return whether a workload needs more of a resource than is left of the queue's own quota in every flavor."""
    return queue.parent is not None and any(
        amount and not _has_own_quota(queue, resource, amount)
        for pod_set in workload.total_requests
        for resource, amount in pod_set.requests.items()
    )


def _has_own_quota(queue: ClusterQueueSnapshot, resource: str, amount: int) -> bool:
    group = queue.rg_by_resource.get(resource)
    return group is not None and any(
        not queue.borrowing_with(FlavorResource(name, resource), amount) for name in group.flavor_names
    )

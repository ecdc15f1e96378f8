"""Selects the heads of the next cycle: one workload of each active queue.

A due workload comes first. A head that certainly cannot be admitted is skipped without being nominated.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.policies import MAX_POSTPONED
from zonewise_scheduler.backfill.scheduling.due_reservations import is_postponed
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.queue.heads import pop_heads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.backfill.scheduling.pass_state import PassState
    from zonewise_scheduler.backfill.state.pending_queue import PendingQueue
    from zonewise_scheduler.backfill.types import Reservation
    from zonewise_scheduler.quota.queue.headroom_bound import BoundReason


def next_heads(pass_state: PassState) -> list[Head]:
    """Begin the next cycle that has any heads, and pop them; queues without a head become inactive."""
    state = pass_state.state
    begin_cycle(pass_state)
    names = [name for name in state.active_queues if name not in pass_state.exhausted_queues]
    due = _skip_certain_rejections(pass_state, names)
    heaps = [state.pending_queues[name].heap for name in names if name not in pass_state.skipped_queues]
    heads = pop_heads(heaps, state.snapshot, state.namespaces, pass_state.cycle, due)
    still_active = {head.cluster_queue for head in heads} | pass_state.skipped_queues
    for name in names:
        if name not in still_active:
            del state.active_queues[name]
    return heads


def begin_cycle(pass_state: PassState) -> None:
    """Count the next cycle and set its number."""
    pass_state.state.cycles += 1
    pass_state.cycle = pass_state.state.cycles


def due_workload(pass_state: PassState, name: str, reservations: Mapping[str, Sequence[Reservation]]) -> str:
    """Return the due workload of a queue (PendingQueue.next_due), which is then tried; "" if it has none.

    `reservations`: those of each queue.
    """
    state, admissions = pass_state.state, len(pass_state.admitted)
    key = state.pending_queues[name].next_due(
        state.now,
        reservations.get(name, ()),
        pass_state.due_tries,
        admissions,
        may_reserve=len(pass_state.postponed.get(name, ())) < MAX_POSTPONED,
    )
    if key:
        pass_state.due_tries[key] = admissions
    return key


def _skip_certain_rejections(pass_state: PassState, names: list[str]) -> dict[str, str]:
    """Skip heads that would certainly be rejected, and cycles that have no other heads.

    Returns the due workloads of the cycle that is left, by queue. The outcome is the same as if the skipped heads had
    been nominated: the workloads behind them become heads in the same cycles. If the rejection of a head affects its
    cycle, the head is skipped only if all other heads are skipped too.
    """
    state = pass_state.state
    if state.policy.reserves:  # then the headroom bound reads the reservations
        state.reservations.begin_cycle(state, state.now)
    while True:
        reservations = state.reservations.by_queue()
        due = {name: key for name in names if (key := due_workload(pass_state, name, reservations))}
        rejections, only_rejections = _certain_rejections(pass_state, names, due)
        pass_state.skipped_queues = {
            name for name in rejections if only_rejections or not pass_state.headroom.affects_cycle(name)
        }
        for name in pass_state.skipped_queues:
            skip_head(pass_state, name, *rejections[name], due=due.pop(name, None) is not None)
        if not rejections or not only_rejections:
            return due
        begin_cycle(pass_state)


def _certain_rejections(
    pass_state: PassState, names: list[str], due: Mapping[str, str]
) -> tuple[dict[str, tuple[str, BoundReason]], bool]:
    """Return the heads that would certainly be rejected, by queue, and whether there are no other heads."""
    only_rejections = True
    rejections: dict[str, tuple[str, BoundReason]] = {}
    for name in names:
        key = due.get(name, "")
        if key:
            reason = due_rejection(pass_state, name, key)
        else:
            key, reason = head_rejection(pass_state, name)
        if reason:
            rejections[name] = key, reason
        elif key:
            only_rejections = False
    return rejections, only_rejections


def skip_head(pass_state: PassState, name: str, key: str, reason: BoundReason, *, due: bool) -> None:
    """Make a queue's head inadmissible without a nomination; a due workload is postponed."""
    heap = pass_state.state.pending_queues[name].heap
    heap.mark_inadmissible(key, reason)
    workload = heap.get(key) if due else None
    if workload is not None:
        pass_state.postpone(Head(workload, name))


def due_rejection(pass_state: PassState, name: str, key: str) -> BoundReason:
    """Return why a due workload would certainly be rejected and postponed again; "" if that is not certain."""
    queue = pass_state.state.pending_queues[name]
    workload = queue.heap.get(key)
    if queue.strict or workload is None or key not in queue.postponed:
        return ""
    reason = _bound_reason(pass_state, queue, key)
    alternatives = queue.heap.alternatives(key)
    return reason if reason and is_postponed(pass_state.state, Head(workload, name), alternatives) else ""


def head_rejection(pass_state: PassState, name: str) -> tuple[str, BoundReason]:
    """Return a queue's head ("" if none) and the reason why it is certain to be rejected ("" if not certain)."""
    state, queue = pass_state.state, pass_state.state.pending_queues[name]
    key = "" if name in state.snapshot.inactive else queue.heap.head_key(state.snapshot.local_queue_usage)
    certain = bool(key) and not queue.strict and not _must_nominate(pass_state, key)
    return key, _bound_reason(pass_state, queue, key) if certain else ""


def _must_nominate(pass_state: PassState, key: str) -> bool:
    """Return whether a head must be nominated despite shortages: it may get a reservation, or its start has come."""
    reservation = pass_state.state.reservations.by_key.get(key)
    return key in pass_state.due_tries if reservation is None else reservation.start <= pass_state.state.now


def _bound_reason(pass_state: PassState, queue: PendingQueue, key: str) -> BoundReason:
    """Return why a head would certainly be rejected; "" if that is not certain.

    From its reserved start on, a workload delays no reservation, so only the time before that start is checked.
    """
    reservation = pass_state.state.reservations.by_key.get(key)
    seconds = inf if reservation is None else reservation.start - pass_state.state.now
    return queue.heap.inadmissible_reason(key, pass_state.headroom, seconds)

"""The scheduling pass: cycles (quota.cycle) until nothing more can be admitted.

A cycle considers one head of each active ClusterQueue. Time affects two decisions:

- The head of a queue is a workload whose reserved start has come, or else one that has waited long enough for a
  reservation. If there is neither, the head is the first in the policy's order. A head of the former kinds that cannot
  start gets a reservation.
- A workload starts only if its start delays no reservation (reservation.py).

Consequences of a decision about a head (EntryStatus):

    status          the workload                                   its queue, for the rest of the pass
    admitted        runs                                           continues
    preempting      is requeued after the pass; reserved now       is exhausted; its victims stop
    deferred        is requeued after the pass; reserved now       is exhausted
    gated           is requeued                                    is exhausted if StrictFIFO, else continues
    waiting         is requeued; reserved if it was due            is exhausted if StrictFIFO, else continues
    skipped         is requeued; due again in the next cycle       continues
    inadmissible    is requeued; its reservation is released       is exhausted if StrictFIFO, else continues;
                                                                   continues if its namespace is not selected

A StrictFIFO queue is exhausted only once its head has tried all flavors. While its head waits for its own quota, it
holds this quota in each later cycle. It is not nominated again, since nothing becomes free during a pass.

"Reserved now" means that later heads of the pass cannot use what a preemptor waits for. A workload that was due gets no
reservation if its start would be too far away; it is due again in the next pass. From then on, it is nominated only if
quota may suffice in time (reservation_bound.py). Nor does it get a reservation if it cannot start even when all
workloads have ended. Then it is due again in a later pass, after nodes or reservations have changed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from zonewise_scheduler.backfill.reservations.timeline import has_capacity
from zonewise_scheduler.backfill.scheduling.advance_reservations import reserve_in_advance
from zonewise_scheduler.backfill.scheduling.cycle_heads import next_heads
from zonewise_scheduler.backfill.scheduling.due_reservations import keep_unreserved, reserve_due
from zonewise_scheduler.backfill.scheduling.pass_state import PassState
from zonewise_scheduler.backfill.scheduling.sample_path_heads import next_head
from zonewise_scheduler.backfill.state.events import end_replaced, reconfigure
from zonewise_scheduler.backfill.state.planner_state import (
    mark_stopping,
    note_begin_time,
    pass_headroom,
    release_reservation,
    stop,
)
from zonewise_scheduler.backfill.state.queue_router import with_required_checks
from zonewise_scheduler.backfill.types import Plan, Reservation, Victim
from zonewise_scheduler.quota.cycle.entry import Entry, Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import quota_resources_to_reserve, run_cycle, with_admission
from zonewise_scheduler.quota.flavorassigner.assignment import NO_LAST_ASSIGNMENT
from zonewise_scheduler.quota.queue.heads import admits_namespace

if TYPE_CHECKING:
    from zonewise_scheduler.backfill.scheduling.known_admissions import KnownAdmissions
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import StopOrder
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.cycle.entry import Decision
    from zonewise_scheduler.quota.queue.headroom_bound import HeadroomBound
    from zonewise_scheduler.quota.queue.shape_groups import Rank

UNLIMITED_ADMISSIONS = sys.maxsize
PREEMPTION_COST = 30.0
"""Duration of a preemption, in seconds: the default grace period of pods. A workload that ends sooner is not
preempted."""
RETRY_INTERVAL = 30.0
"""Minimum time in seconds between two retries of workloads for which no start was found. Nodes change several times a
second, and each search takes as long as a usual pass."""
_CAPACITY_ORDER = ("admitted", "preempting", "deferred")
"""Statuses that are applied first: workloads that run, then those that will run once victims have stopped. Reservations
of others must fit alongside them."""


def schedule(
    state: PlannerState,
    now: float,
    max_admissions: int = UNLIMITED_ADMISSIONS,
    *,
    known: KnownAdmissions | None = None,
) -> Plan:
    """Decide everything that can be decided at the time `now`, in seconds.

    `max_admissions`: no cycle begins once this many workloads are admitted. The next pass continues from there.
    `known`: the earlier admissions of a sample path. The order of heads then only approximates that of Kueue's cycles
    (sample_path_heads.py), and workloads that start as earlier ones did have no decision (known_admissions.py).
    """
    known = None if state.settings.fair_sharing else known  # shares depend on all heads of a cycle
    _prepare(state, now)
    headroom = pass_headroom(state)
    rejected_ranks = _activate(state, now, None if known is None else headroom)
    reserved_in_advance = reserve_in_advance(state)
    pass_state = PassState(state, headroom)
    pass_state.reserved += reserved_in_advance
    pass_state.rejected_ranks = rejected_ranks
    second_pass = [
        Head(workload, state.snapshot.cluster_queue_of(workload).name)
        for workload in state.running_workloads.awaiting_placement()
    ]

    def find_heads() -> list[Head]:
        return next_heads(pass_state) if known is None else next_head(pass_state, known)

    heads = [*second_pass, *find_heads()]
    while heads:
        decisions = _run_cycle(pass_state, heads)
        if known is not None:
            known.learn(pass_state, decisions)
        heads = find_heads() if len(pass_state.admitted) < max_admissions else []
    _replace_missed_reservations(pass_state)
    for decision in pass_state.deferred_requeues:
        state.pending_queues[decision.head.cluster_queue].heap.requeue(decision)
    keep_unreserved(pass_state)
    reservations = state.reservations.by_key
    return Plan(
        tuple(pass_state.admitted),
        tuple(pass_state.victims),
        _drain_stops(state),
        tuple(pass_state.placed),
        tuple(reservations[key] for key in pass_state.reserved if key in reservations),
        pass_state.decisions,
        state.wake_at,
    )


# --- before the first cycle


def _prepare(state: PlannerState, now: float) -> None:
    """Apply the effects of time and of the events since the last pass."""
    state.now = now
    for workload in state.running_workloads.extend_overrun(now):
        state.freed_queues.update(state.cohort_index.queues_affected_by(workload))
        state.reservations.invalidate()
        # a live cluster reports an end shortly after the deadline, so the reserved start is valid for this pass
        state.must_check_reservations |= state.assumed is None
    if not all(state.snapshot.workloads_by_queue[name] for name in state.removed_queues):
        reconfigure(state, state.configuration)
    if state.assumed is not None:
        _protect(state, state.assumed, now)
    for key in state.begin_times.pop_begun(now):
        _begin(state, key)
    if state.must_check_reservations:
        replace_infeasible_reservations(state)
    if state.must_retry and now >= state.next_retry:
        _retry_without_start(state, now)
    if state.fair_sharing is not None and state.fair_sharing.sample(now, state.snapshot):
        state.fair_sharing.update_snapshot(state.snapshot, state.router)
        queues = state.pending_queues.items()
        state.active_queues.update((name, None) for name, queue in queues if queue.heap.spec.usage_based_admission)


def _begin(state: PlannerState, key: str) -> None:
    """Make a pending workload active whose begin time has come."""
    name, workload = state.pending[key], state.pending_workload(key)
    if workload is not None:
        state.pending_queues[name].heap.push_or_update(workload)
        state.active_queues[name] = None


def _retry_without_start(state: PlannerState, now: float) -> None:
    """Make workloads due again for which no start was found, since nodes or reservations have changed."""
    state.must_retry = False
    if any(state.unreserved.values()):
        state.unreserved = dict.fromkeys(sorted(state.unreserved, key=state.unreserved.__getitem__), False)
        state.next_retry = now + RETRY_INTERVAL
    for name, queue in state.pending_queues.items():
        if queue.retry_without_start():
            state.active_queues[name] = None
            state.next_retry = now + RETRY_INTERVAL


def _activate(state: PlannerState, now: float, headroom: HeadroomBound | None) -> dict[str, list[Rank]]:
    """Activate the queues in which something may start; `headroom`: skip the workloads that it rejects.

    Returns the ranks of these workloads by queue, as PendingWorkloads.queue_inadmissible_workloads().
    """
    rejected_ranks: dict[str, list[Rank]] = {}
    if state.freed_queues:
        state.reservations.bring_forward(state, now)
        if headroom is not None:
            state.reservations.begin_cycle(state, now)
        rejected_ranks = _activate_freed_queues(state, headroom)
    for reservation in state.reservations.by_key.values():
        if reservation.start <= now:
            state.active_queues[reservation.queue] = None
    return rejected_ranks


def _protect(state: PlannerState, assumed: set[str], now: float) -> None:
    """Select the workloads that are not preempted because waiting for them costs less.

    Once a workload is no longer young, others may preempt it, so the affected queues look for a head again.
    """
    while state.young and next(iter(state.young.values())) <= now:
        key = next(iter(state.young))
        del state.young[key]
        if key in state.running:
            state.freed_queues.update(state.cohort_index.queues_affected_by(state.running[key].workload))
    ending = state.running_workloads.ending_by(now + PREEMPTION_COST)
    state.snapshot.not_preempted = assumed | ending | state.young.keys()


def replace_infeasible_reservations(state: PlannerState) -> None:
    """Move infeasible reservations to other starts; a workload that loses its reservation may become due again."""
    state.must_check_reservations = False
    state.reservations.invalidate()
    for reservation in state.reservations.replace_infeasible(state) if state.reservations.by_key else ():
        queue = state.pending_queues[reservation.queue]
        if (workload := queue.heap.get(reservation.workload.key)) is not None:
            queue.push_or_update(workload, state.now)
            note_begin_time(state, workload)
            state.active_queues[reservation.queue] = None


def _activate_freed_queues(state: PlannerState, headroom: HeadroomBound | None) -> dict[str, list[Rank]]:
    rejected_ranks: dict[str, list[Rank]] = {}
    for name, queue in state.pending_queues.items():
        if name in state.freed_queues and queue.heap.has_shapes:
            selects = partial(admits_namespace, queue.heap.spec, namespaces=state.namespaces)
            rejected_ranks[name] = queue.heap.queue_inadmissible_workloads(headroom, selects, state.now)
            state.active_queues[name] = None
    state.freed_queues.clear()
    return rejected_ranks


# --- one cycle


def _run_cycle(pass_state: PassState, heads: list[Head]) -> list[Decision]:
    state, admitted_before = pass_state.state, len(pass_state.admitted)
    state.reservations.begin_cycle(state, state.now)
    blocking = pass_state.blocking_entries
    decisions = run_cycle(
        state.snapshot, heads, state.settings, state.now, pass_state.cycle, state.reservations, blocking
    )
    for decision in sorted(decisions, key=_capacity_order):
        _apply(pass_state, decision)
    if not pass_state.skipped_queues and all(decision.status == "skipped" for decision in decisions):
        # The queues whose workloads took the capacity are exhausted, so these heads would be skipped forever.
        pass_state.exhausted_queues.update(decision.head.cluster_queue for decision in decisions)
    if len(pass_state.admitted) > admitted_before:
        pass_state.headroom.invalidate()
    return decisions


def _capacity_order(decision: Decision) -> int:
    return (*_CAPACITY_ORDER, decision.status).index(decision.status)


def _apply(pass_state: PassState, decision: Decision) -> None:
    """Apply the consequences of a decision; see the table above."""
    state, head = pass_state.state, decision.head
    key = head.workload.key
    pass_state.decisions[key] = decision
    if head.workload.admission is not None:
        _apply_second_pass(pass_state, decision)
        return
    queue = state.pending_queues[head.cluster_queue]
    if decision.status == "admitted":
        queue.heap.delete(key)  # it is no longer a preemptor
        if decision.replaced is not None:
            end_replaced(state, decision.replaced)
        pass_state.record_admission(decision.workload)
        return
    if decision.status == "inadmissible":
        release_reservation(state, key)
    if decision.status in {"waiting", "skipped"} and _start_as_reserved(pass_state, decision):
        return
    has_flavors_left = False
    if decision.status in {"preempting", "deferred"}:
        _hold(pass_state, decision)
    else:
        requeued = _without_repeated_scan(pass_state, decision)
        has_flavors_left = requeued.last_assignment.pending_flavors
        queue.heap.requeue(requeued)
    if decision.status == "skipped":  # another workload took the capacity, but only in this cycle
        pass_state.due_tries.pop(key, None)
    elif queue.strict and decision.requeue_reason != "NamespaceMismatch" and not has_flavors_left:
        _exhaust(pass_state, decision)
    if key in pass_state.due_tries and decision.status == "waiting":
        reserve_due(pass_state, head, pass_state.headroom.alternatives(head))


def _exhaust(pass_state: PassState, decision: Decision) -> None:
    """Make no more decisions for a strict queue in this pass. Its head may hold quota in each later cycle."""
    name, snapshot = decision.head.cluster_queue, pass_state.state.snapshot
    pass_state.exhausted_queues.add(name)
    if _blocks(pass_state.state.pending_queues[name].heap.spec, decision) and decision.assignment is not None:
        entry = Entry(decision.head, snapshot.cluster_queues[name], decision.assignment, decision=decision)
        has_quota = any(quota_resources_to_reserve(entry.cq, entry.assignment).values())
        if has_quota or entry.assignment.has_topology_assignment:
            pass_state.blocking_entries.append(entry)


def _blocks(queue: ClusterQueue, decision: Decision) -> bool:
    """Return whether a head that waits holds quota that other queues could borrow (quota_resources_to_reserve)."""
    return decision.holds_quota and queue.queueing_strategy == "StrictFIFO" and bool(queue.cohort_name)


def _apply_second_pass(pass_state: PassState, decision: Decision) -> None:
    """Apply a decision about a workload that has its quota but lacks a topology assignment."""
    state = pass_state.state
    _stop_victims(pass_state, decision)
    if decision.status == "admitted":
        pass_state.placed.append(decision.workload)
        state.running_workloads.update(decision.workload)
        state.reservations.invalidate()
        state.must_check_reservations = True
    elif decision.status == "evicted":
        stop(state, decision.workload, "NodeFailures")


def _without_repeated_scan(pass_state: PassState, decision: Decision) -> Decision:
    """Return the decision, but end its flavor scan if the scan has returned to an earlier position.

    Of several pod sets, one may have flavors left to try whenever another has none. Kueue then retries forever.
    """
    positions = pass_state.flavor_scans.setdefault(decision.head.workload.key, [])
    if decision.last_assignment.pending_flavors and decision.last_assignment.last_tried_flavor_idx in positions:
        return decision._replace(last_assignment=NO_LAST_ASSIGNMENT)
    positions.append(decision.last_assignment.last_tried_flavor_idx)
    return decision


# --- reservations


def _start_as_reserved(pass_state: PassState, decision: Decision) -> bool:
    """Start a workload exactly as reserved, if its start has come and nothing else fits; return whether it started."""
    state, key = pass_state.state, decision.head.workload.key
    reservation = state.reservations.by_key.get(key)
    if reservation is None or reservation.start > state.now or reservation.workload.admission is None:
        return False
    spec = state.snapshot.cluster_queues[reservation.queue].spec
    admission = reservation.workload.admission._replace(reserved_at=state.now, pending_checks=())
    workload = with_required_checks(replace(reservation.workload, admission=admission), spec)
    state.reservations.begin_cycle(state, state.now)
    ending = decision.replaced_slices
    with state.snapshot.simulate_workload_removal(ending):
        fits = has_capacity(state.snapshot, workload)
    if not fits or state.reservations.delayed_reservation(workload, ending):
        return False
    state.reservations.record_start(workload, ending)
    state.snapshot.remove_workloads(ending)
    state.snapshot.add_workload(workload)
    started = decision._replace(
        status="admitted", workload=workload, reason="", message="", requeue_reason="", delayed_reservation=""
    )
    _apply(pass_state, started)
    return True


def _replace_missed_reservations(pass_state: PassState) -> None:
    """Reserve another start for each workload that unexpectedly could not start at its reserved start.

    The cause may affect later reservations too, so they move in the order in which they were made.
    """
    state = pass_state.state
    waiting = {key for key, decision in pass_state.decisions.items() if decision.status == "waiting"}
    waiting |= pass_state.rejected
    missed = [key for key, one in state.reservations.by_key.items() if one.start <= state.now and key in waiting]
    if missed:
        replace_infeasible_reservations(state)
    for key in missed:
        reservation = state.reservations.by_key.get(key)
        if reservation is not None and reservation.start <= state.now:
            state.reservations.reserve(reservation.head, state)


# --- preemption


def _hold(pass_state: PassState, decision: Decision) -> None:
    """Stop the victims of a workload, and reserve what it will use once they have stopped."""
    state, head = pass_state.state, decision.head
    pass_state.deferred_requeues.append(decision)
    pass_state.exhausted_queues.add(head.cluster_queue)
    _stop_victims(pass_state, decision)
    if decision.assignment is not None:
        spec = state.snapshot.cluster_queues[head.cluster_queue].spec
        workload = with_admission(head.workload, spec, decision.assignment, state.now)
        victims = tuple(target.workload for target in decision.preemption_targets)
        victims += decision.replaced_slices
        if not _delays_reservation(state, decision, workload):
            state.reservations.record(Reservation(workload, head, state.now, (), victims))


def _stop_victims(pass_state: PassState, decision: Decision) -> None:
    state, preemptor = pass_state.state, decision.head.workload
    for target in decision.preemption_targets:
        if mark_stopping(state, target.workload, "Preempted"):
            pass_state.victims.append(Victim(target.workload, preemptor, target.reason))
            state.snapshot.preemption_graph.add(preemptor.key, target.workload.key)


def _delays_reservation(state: PlannerState, decision: Decision, workload: Workload) -> bool:
    """Return whether a deferred workload would delay a reservation; the cycle has checked the other statuses."""
    if decision.status != "deferred":
        return False
    state.reservations.begin_cycle(state, state.now)
    return bool(state.reservations.delayed_reservation(workload, decision.replaced_slices))


def _drain_stops(state: PlannerState) -> tuple[StopOrder, ...]:
    """Return the stop orders of workloads that still run, each once."""
    stops, state.unreported_stops = state.unreported_stops, []
    return tuple(order for order in stops if order.workload.key in state.running_workloads.stopping)

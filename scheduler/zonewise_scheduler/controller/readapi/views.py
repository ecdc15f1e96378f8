"""What the read API shows, as values that other threads may read. The functions run in the controller's thread.

JSON keys are camelCase. Times are RFC 3339 in UTC, and null if unknown. Amounts are quantities.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import msgspec

from zonewise_scheduler.backfill.explanation.explain import explain
from zonewise_scheduler.backfill.explanation.message import explanation_message
from zonewise_scheduler.controller.readapi.job_details import placement_json
from zonewise_scheduler.controller.status.pending_note import pending_reason, queue_reason, start_time
from zonewise_scheduler.controller.workloads.conditions import api_time
from zonewise_scheduler.quota.api.amount import amount_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.backfill.explanation.explanation import Explanation
    from zonewise_scheduler.backfill.reservations.timeline import RunningWorkload
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Forecast
    from zonewise_scheduler.controller.controller import QueueController
    from zonewise_scheduler.controller.status.pending_note import PendingNote
    from zonewise_scheduler.controller.status.queue_summaries import (
        ClusterQueueSummary,
        CohortSummary,
        LocalQueueSummary,
    )
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import Workload


class WorkloadRow(msgspec.Struct, frozen=True, gc=False):
    """One workload of the list, with copied values. Only the rows of one page are converted to JSON.

    Invariant: no object to which a row refers leads back to the row. So the garbage collector does not track rows. Each
    version of the list has new rows. If they were tracked, 10,000 of them would cause a collection of all objects every
    few versions.
    """

    workload: Workload
    state: str
    """One of "Pending", "Inadmissible", "Reserved", "Admitted", "Stopping"."""
    cluster_queue: str
    position: int = 0
    """Position in its ClusterQueue, from 1; 0: not pending."""
    reservation: float = inf
    deadline: float = inf
    forecast: Forecast | None = None
    reason: str = ""
    message: str = ""


def workload_rows(
    controller: QueueController, notes: Mapping[str, PendingNote], forecasts: Mapping[str, Forecast]
) -> tuple[WorkloadRow, ...]:
    """Return all workloads: the pending ones by queue in their order, the inadmissible ones, then the running ones."""
    state = controller.feed.state
    return (*_pending_rows(state, notes, forecasts), *_inadmissible_rows(state), *_running_rows(state))


def row_json(row: WorkloadRow) -> Json:
    """Return the JSON of a workload in the list."""
    workload = row.workload
    body: Json = {
        "namespace": workload.namespace,
        "name": workload.name,
        "state": row.state,
        "localQueue": workload.queue_name,
        "clusterQueue": row.cluster_queue,
        "priority": workload.priority,
        "createdAt": _time(workload.created_at),
        "walltimeSeconds": None if workload.walltime == inf else workload.walltime,
    }
    if row.position:
        body["position"] = row.position
    if workload.replaces and workload.admission is None:
        body["replaces"] = workload.replaces
    if row.reason:
        body |= {"reason": row.reason, "message": row.message}
    if row.reservation < inf:
        body["reservedStart"] = _time(row.reservation)
    if row.forecast is not None:
        body["forecast"] = forecast_json(row.forecast)
    if workload.admission is not None:
        body |= {"startedAt": _time(workload.admission.started_at), "deadline": _time(row.deadline)}
    return body


def forecast_json(forecast: Forecast) -> Json:
    """Return the JSON of a forecast."""
    return {name: _time(time) for name, time in forecast._asdict().items()}


def workload_json(controller: QueueController, key: str, forecasts: Mapping[str, Forecast], now: float) -> Json | None:
    """Return the JSON of a workload with its explanation, or its usage and placement; None: it is unknown."""
    state = controller.feed.state
    if key in state.running:
        run = state.running[key]
        body = _running_json(run, stopping=key in state.running_workloads.stopping)
        return {**body, "placement": placement_json(run.workload)}
    if key not in state.pending and key not in state.inadmissible:
        return None
    explanation = explain(state, key, now)
    reservation = state.reservations.by_key.get(key)
    if key in state.inadmissible:
        row = WorkloadRow(state.inadmissible[key].workload, "Inadmissible", state.inadmissible[key].queue)
    else:
        workload = state.pending_workload(key)
        if workload is None:
            return None
        start = inf if reservation is None else reservation.start
        row = WorkloadRow(workload, "Pending", state.pending[key], explanation.position, start, inf, forecasts.get(key))
    message = explanation_message(explanation, start_time)
    row = msgspec.structs.replace(row, reason=pending_reason(explanation), message=message)
    return {**row_json(row), "explanation": _explanation_json(explanation)}


def cluster_queue_json(queue: ClusterQueueSummary) -> Json:
    """Return the JSON of a ClusterQueue."""
    return {
        "name": queue.name,
        "cohort": queue.cohort,
        **_queue_json(queue),
        "weightedShare": queue.share.rounded_weighted_share,
        "fairWeight": queue.share.fair_weight,
        "resources": [
            {
                "flavor": key.flavor,
                "resource": key.resource,
                "nominalQuota": amount_text(key.resource, each.quota.nominal),
                "borrowingLimit": _optional_amount(key.resource, each.quota.borrowing_limit),
                "lendingLimit": _optional_amount(key.resource, each.quota.lending_limit),
                "reserved": amount_text(key.resource, each.reserved),
                "used": amount_text(key.resource, each.used),
                "borrowed": amount_text(key.resource, each.reserved_borrowed),
            }
            for key, each in queue.resources.items()
        ],
    }


def cohort_json(cohort: CohortSummary) -> Json:
    """Return the JSON of a Cohort."""
    return {
        "name": cohort.name,
        "parent": cohort.parent,
        "weightedShare": cohort.share.rounded_weighted_share,
        "fairWeight": cohort.share.fair_weight,
        "resources": [
            {
                "flavor": key.flavor,
                "resource": key.resource,
                "quota": amount_text(key.resource, quota),
                "used": amount_text(key.resource, cohort.usage.get(key, 0)),
            }
            for key, quota in cohort.quotas.items()
        ],
    }


def local_queue_json(queue: LocalQueueSummary) -> Json:
    """Return the JSON of a LocalQueue."""
    return {
        "namespace": queue.namespace,
        "name": queue.name,
        "clusterQueue": queue.cluster_queue,
        **_queue_json(queue),
    }


def plan_json(controller: QueueController, now: float) -> Json:
    """Return the bars of a Gantt chart: what runs and until when, and what is reserved to start and when."""
    state = controller.feed.state
    return {
        "at": _time(now),
        "running": [_running_json(run, stopping=run.workload.key in state.running_workloads.stopping)
                    for run in state.running_workloads],
        "reservations": [
            {
                "namespace": reservation.workload.namespace,
                "name": reservation.workload.name,
                "clusterQueue": reservation.queue,
                "start": _time(reservation.start),
                "deadline": _time(reservation.deadline),
                "usage": _usage_json(reservation.workload),
                "waitsFor": list(reservation.waits_for),
                "preempts": list(reservation.preempts),
            }
            for reservation in state.reservations_by_start
        ],
    }  # fmt: skip


def _pending_rows(
    state: PlannerState, notes: Mapping[str, PendingNote], forecasts: Mapping[str, Forecast]
) -> Iterator[WorkloadRow]:
    reservations = state.reservations.by_key
    for name, queue in state.pending_queues.items():
        for position, key in enumerate(queue.heap.sorted_keys(state.snapshot.local_queue_usage), 1):
            workload = queue.heap.get(key)
            if workload is None:
                continue
            start = reservations[key].start if key in reservations else inf
            note = notes.get(key)
            reason, message = ("", "") if note is None else (note.reason, note.message)
            yield WorkloadRow(workload, "Pending", name, position, start, inf, forecasts.get(key), reason, message)


def _inadmissible_rows(state: PlannerState) -> Iterator[WorkloadRow]:
    for workload, queue, message in state.inadmissible.values():
        yield WorkloadRow(workload, "Inadmissible", queue, reason=queue_reason(message), message=message)


def _running_rows(state: PlannerState) -> Iterator[WorkloadRow]:
    stopping = state.running_workloads.stopping
    for run in state.running_workloads:
        yield _running_row(run, stopping=run.workload.key in stopping)


def _running_row(run: RunningWorkload, *, stopping: bool) -> WorkloadRow:
    workload = run.workload
    queue = "" if workload.admission is None else workload.admission.cluster_queue
    name = "Stopping" if stopping else "Admitted" if workload.is_admitted else "Reserved"
    return WorkloadRow(workload, name, queue, deadline=run.deadline)


def _running_json(run: RunningWorkload, *, stopping: bool) -> Json:
    return {**row_json(_running_row(run, stopping=stopping)), "usage": _usage_json(run.workload)}


def _usage_json(workload: Workload) -> list[Json]:
    return [
        {"flavor": key.flavor, "resource": key.resource, "amount": amount_text(key.resource, amount)}
        for key, amount in workload.usage.items()
    ]


def _explanation_json(explanation: Explanation) -> Json:
    delayed = explanation.delayed_reservation
    return {
        "at": _time(explanation.now),
        "shortages": [
            {
                "flavor": each.flavor,
                "resource": each.resource,
                "requested": amount_text(each.resource, each.requested),
                "available": amount_text(each.resource, each.available),
                "limit": amount_text(each.resource, each.limit_amount),
                "limitKind": each.limit_kind,
                "limitOf": each.limiting_node,
                "notLent": amount_text(each.resource, each.not_lent),
                "exceedsMaxQuota": each.exceeds_max_quota,
            }
            for each in explanation.shortages
        ],
        "unsuitableFlavors": [each._asdict() for each in explanation.unsuitable_flavors],
        "failedChecks": list(explanation.failed_checks),
        "blockedBy": explanation.blocked_by,
        "preempts": list(explanation.victims),
        "delays": None if delayed is None else {"workload": delayed.key, "reservedStart": _time(delayed.start)},
        "waitsFor": list(explanation.waits_for),
        "start": _time(explanation.start),
        "reserved": explanation.reserved,
        "neverFits": explanation.never_fits,
    }


def _queue_json(queue: ClusterQueueSummary | LocalQueueSummary) -> Json:
    return {
        "active": queue.activity.is_active,
        "reason": queue.activity.reason,
        "message": queue.activity.message,
        "pendingWorkloads": queue.counts.pending,
        "reservingWorkloads": queue.counts.reserving,
        "admittedWorkloads": queue.counts.admitted,
    }


def _optional_amount(resource: str, amount: int | None) -> str | None:
    return None if amount is None else amount_text(resource, amount)


def _time(seconds: float) -> str | None:
    return None if seconds == inf else api_time(seconds)


def matching_rows(rows: Iterable[WorkloadRow], queue: str, namespace: str) -> Iterator[WorkloadRow]:
    """Yield the rows of a namespace, and of a ClusterQueue or LocalQueue by name; "": no restriction."""
    for row in rows:
        if queue in {"", row.cluster_queue, row.workload.queue_name} and namespace in {"", row.workload.namespace}:
            yield row

"""Which changes of a Workload end a run, and the records of these runs.

| before | after | outcome |
|---|---|---|
| any | Finished | succeeded, failed, timeout, or replaced by another slice |
| with quota | without quota | evicted, or timeout if it has used up its execution time |
| not Finished | deleted | cancelled, or evicted if that is why it held no quota any more |

A replica that does not lead keeps the records of the last minute, because a leader that has just failed may not have
written them. Readers drop records that are written twice.
"""

from __future__ import annotations

from collections import deque
from math import isfinite
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.accounting.run_record import PodSetRecord, RunRecord
from zonewise_scheduler.controller.workloads.conditions import condition_time, find_condition, is_true
from zonewise_scheduler.controller.workloads.slices import OUT_OF_SYNC, REPLACED
from zonewise_scheduler.controller.workloads.status import (
    EVICTED,
    FINISHED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    QUOTA_RESERVED,
    REQUEUED,
    has_quota,
)
from zonewise_scheduler.controller.workloads.workload_owner import owner_of, user_of
from zonewise_scheduler.quota.api.amount import amount_text
from zonewise_scheduler.quota.api.workload_reader import read_workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise_scheduler.accounting.run_record import Outcome
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import PodSet, Workload

STANDBY_PERIOD = 60.0
"""Seconds for which a replica that does not lead keeps records: longer than a lease lasts after its last renewal."""
_DEADLINE_EXCEEDED = "Job was active longer than specified deadline"
"""Message of a Job that its deadline ended (pkg/controller/job/job_controller.go syncJob)."""
_OUTCOMES: dict[str, Outcome] = {
    "Succeeded": "succeeded",
    "OwnerNotFound": "cancelled",
    REPLACED: "replaced",
    OUT_OF_SYNC: "replaced",
}
"""Outcomes by the reason of the condition Finished; others have failed."""


class EndedRuns:
    """Collects the records of runs that end. Only the controller's thread may use it."""

    def __init__(self) -> None:
        self._leads = False
        self._new: deque[RunRecord] = deque()

    def lead(self, leads: bool, workloads: Iterable[Json], now: float) -> None:
        """Start or stop leading. A new leader records all Workloads that have ended, perhaps again."""
        self._leads = leads
        if leads:
            records = filter(None, (ended_run(None, obj, now) for obj in workloads))
            self._new.extend(sorted(records, key=lambda record: record.ended))  # files are written month by month

    def observe(self, old: Json | None, new: Json | None, now: float) -> None:
        """Record the change of a Workload; None: it does not exist."""
        record = ended_run(old, new, now)
        if record is not None:
            self._new.append(record)
        while not self._leads and self._new and self._new[0].ended < now - STANDBY_PERIOD:
            self._new.popleft()

    def take(self) -> list[RunRecord]:
        """Return the new records, each once; none while this replica does not lead."""
        if not self._leads or not self._new:
            return []
        records = list(self._new)
        self._new.clear()
        return records


def ended_run(old: Json | None, new: Json | None, now: float) -> RunRecord | None:
    """Return the record of the run that a change of a Workload ends; None: it ends none.

    `old`: the Workload before; None: it was not observed. `new`: None: it was deleted.
    """
    if old is not None and is_true(old, FINISHED):
        return None
    if new is not None and is_true(new, FINISHED):
        return _record(new, condition_time(new, FINISHED) or now, *_end(new))
    if old is None:
        return None
    if new is None:
        reason = _reason(old, EVICTED) if is_true(old, EVICTED) and has_quota(old) else ""
        return _record(old, now, "evicted" if reason else "cancelled", reason)
    if has_quota(old) and not has_quota(new):
        reason = _reason(new, EVICTED) or _reason(old, EVICTED)
        outcome = "timeout" if reason.endswith(MAXIMUM_EXECUTION_TIME_EXCEEDED) else "evicted"
        return _record(old, condition_time(new, QUOTA_RESERVED) or now, outcome, reason)
    return None


def _end(obj: Json) -> tuple[Outcome, str]:
    """Return the outcome and the reason of a Workload that is Finished."""
    finished = find_condition(obj, FINISHED) or {}
    reason, message = str(finished.get("reason", "")), str(finished.get("message", ""))
    if reason == "Failed" and message.startswith(_DEADLINE_EXCEEDED):
        return "timeout", "DeadlineExceeded"
    return _OUTCOMES.get(reason, "failed"), reason


def _reason(obj: Json, condition: str) -> str:
    return str((find_condition(obj, condition) or {}).get("reason", ""))


def _record(obj: Json, ended: float, outcome: Outcome, reason: str) -> RunRecord | None:
    """Return the record of a Workload; None: the Workload cannot be read, which is reported elsewhere."""
    workload = read_workload(obj).workload
    if workload is None:
        return None
    kind, name = owner_of(obj)
    admission = workload.admission
    requeued = condition_time(obj, REQUEUED) if is_true(obj, REQUEUED) else None
    evictions = FieldReader(obj, "", []).child("status").child("schedulingStats").children("evictions")
    return RunRecord(
        namespace=workload.namespace,
        name=name or workload.name,
        kind=kind,
        uid=workload.uid,
        workload=workload.name,
        user=user_of(obj) or None,
        queue=workload.queue_name,
        cluster_queue="" if admission is None else admission.cluster_queue,
        priority=workload.priority,
        pod_sets=_pod_sets(workload),
        walltime=workload.walltime if isfinite(workload.walltime) else None,
        created=workload.created_at,
        queued=workload.created_at if requeued is None else requeued,
        admitted=None if admission is None else admission.reserved_at,
        started=None if admission is None else admission.admitted_at,
        ended=ended,
        evictions=sum(each.count("count", 0) or 0 for each in evictions),
        outcome=outcome,
        reason=reason,
    )


def _pod_sets(workload: Workload) -> tuple[PodSetRecord, ...]:
    admitted = () if workload.admission is None else workload.admission.pod_sets
    flavors = {each.name: dict(each.flavors) for each in admitted}
    return tuple(_pod_set(each, flavors.get(each.name, {})) for each in workload.pod_sets)


def _pod_set(pod_set: PodSet, flavors: dict[str, str]) -> PodSetRecord:
    requests = {name: amount_text(name, amount) for name, amount in pod_set.requests.items()}
    return PodSetRecord(pod_set.name, pod_set.pods, requests, flavors)

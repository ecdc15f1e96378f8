"""The reaction to a failed admission check of any controller, for a Workload with quota.

| state of a check | reaction |
|---|---|
| Rejected | deactivation, as in time_limits.py: a user may activate the Workload again |
| Retry | eviction; a requeue after the longest requeueAfterSeconds of the checks in this state |

Source: pkg/controller/core/workload_controller.go reconcileCheckBasedEviction, pkg/workload/admissionchecks.go
GetMaxRetryTime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.workloads.admission_checks import REJECTED, RETRY, checks_of
from zonewise_scheduler.controller.workloads.conditions import transition_time
from zonewise_scheduler.controller.workloads.status import (
    EvictionCause,
    RequeueState,
    evict,
    requeue_time,
    target_deactivation,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise_scheduler.controller.types import Json

ADMISSION_CHECK = "AdmissionCheck"
"""Reason for the eviction, and cause of the deactivation."""


def reject(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch that marks a Workload for deactivation; None: no check is Rejected."""
    rejected = _in_state(workload, REJECTED)
    if not rejected:
        return None
    return target_deactivation(workload, ADMISSION_CHECK, _message(rejected), now)


def retry(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch that evicts a Workload; None: no check is in state Retry."""
    failed = _in_state(workload, RETRY)
    if not failed:
        return None
    cause = EvictionCause(ADMISSION_CHECK, _message(failed))
    requeue_at = max(requeue_time(workload), *(_retry_time(check, now) for check in failed))
    if requeue_at <= now:
        return evict(workload, cause, now)
    requeues = FieldReader(workload, "", []).child("status").child("requeueState").count("count", 0) or 0
    return evict(workload, cause, now, RequeueState(requeues, requeue_at))


def _in_state(workload: Mapping[str, object], state: str) -> list[Json]:
    return sorted((check for check in checks_of(workload) if check.get("state") == state), key=_name)


def _name(check: Json) -> str:
    return str(check.get("name"))


def _retry_time(check: Json, now: float) -> float:
    """Return when a check is to be retried. Its delay counts from the transition to its state."""
    delay = FieldReader(check, "", []).count("requeueAfterSeconds", 0) or 0
    began = transition_time(check)
    return (now if began is None else began) + delay


def _message(checks: Sequence[Json]) -> str:
    """Return a message such as "admission check capacity is Retry: no nodes; ..."."""
    parts = (
        f"admission check {_name(check)} is {check['state']}{': ' if check.get('message') else ''}"
        f"{check.get('message') or ''}"
        for check in checks
    )
    return "; ".join(parts)

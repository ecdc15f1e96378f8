"""Time limits of an admitted Workload: its pods are not ready in time, or its execution time is used up.

| limit | counts from | what follows |
|---|---|---|
| PodsReady, reason WaitForStart | Admitted | eviction, then a requeue after a backoff; after the last, deactivation |
| PodsReady, reason WaitForRecovery | PodsReady=False | the same |
| spec.maximumExecutionTimeSeconds, less the time of earlier admissions | Admitted | deactivation |

A deactivation takes three writes: the condition DeactivationTarget, spec.active=false, Evicted. Each is derived from
the observed Workload. Source: pkg/controller/core/workload_controller.go (reconcileNotReadyTimeout,
reconcileMaxExecutionTime, triggerDeactivation), KEP-349, KEP-1282, KEP-3125.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.workloads.conditions import condition_time, find_condition, is_true, transition_time
from zonewise_scheduler.controller.workloads.status import (
    ADMITTED,
    EVICTED,
    FINISHED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    PAST_TIME,
    PODS_READY,
    EvictionCause,
    RequeueState,
    evict,
    target_deactivation,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.controller.types import Json

_MAX_DOUBLINGS = 40
"""Maximum number of doublings. It prevents a float overflow, and reaches beyond any sensible maximum backoff."""


class ReadinessLimits(NamedTuple):
    """How long pods may take to become ready, and when a Workload is requeued if they did not. In seconds."""

    timeout: float = 0.0
    """Maximum time from the admission until all pods are ready; 0: unlimited."""
    recovery_timeout: float = 0.0
    """Maximum time after a pod of a running Workload has failed; 0: unlimited."""
    max_requeues: int | None = None
    """Number of requeues after which the Workload is deactivated; None: it is never deactivated."""
    backoff_base: float = 60.0
    """Backoff before the first requeue. It doubles with each requeue."""
    backoff_max: float = 3600.0

    def backoff(self, requeues: int) -> float:
        """Return the backoff before a requeue; `requeues`: its number, from 1 (pkg/workload UpdateRequeueState)."""
        return min(self.backoff_max, self.backoff_base * 2.0 ** min(requeues - 1, _MAX_DOUBLINGS))


class TimeLimit(NamedTuple):
    """When a Workload must stop, and why."""

    at: float
    cause: str
    """"WaitForStart", "WaitForRecovery" or "MaximumExecutionTimeExceeded"."""


def next_limit(workload: Mapping[str, object], limits: ReadinessLimits) -> TimeLimit | None:
    """Return the earliest limit of a Workload; None: it is not admitted, is already stopping, or has no limit."""
    is_active = FieldReader(workload, "", []).child("spec").flag("active", default=True)
    stops = is_true(workload, EVICTED) or is_true(workload, FINISHED) or not is_active
    admitted_at = condition_time(workload, ADMITTED)
    if stops or admitted_at is None or not is_true(workload, ADMITTED):
        return None
    return min(
        (*_readiness_limits(workload, limits, admitted_at), *_execution_limits(workload, admitted_at)), default=None
    )


def exceed(workload: Mapping[str, object], limit: TimeLimit, limits: ReadinessLimits, now: float) -> Json | None:
    """Return the status patch of a Workload that has reached a limit; None: the status already shows it."""
    if limit.cause == MAXIMUM_EXECUTION_TIME_EXCEEDED:
        return target_deactivation(workload, limit.cause, "exceeding the maximum execution time", now)
    seconds = limits.timeout if limit.cause == "WaitForStart" else limits.recovery_timeout
    cause = EvictionCause("PodsReadyTimeout", f"Not all pods were ready within {seconds:g} s", limit.cause)
    return evict_with_backoff(workload, cause, limits, now)


def evict_with_backoff(
    workload: Mapping[str, object], cause: EvictionCause, limits: ReadinessLimits, now: float
) -> Json | None:
    """Return the patch that evicts a Workload with a requeue after a backoff; after the last requeue, deactivate it."""
    state = FieldReader(workload, "", []).child("status").child("requeueState")
    requeues = (state.count("count", 0) or 0) + 1
    if limits.max_requeues is not None and requeues > limits.max_requeues:
        message = "exceeding the maximum number of re-queuing retries"
        return target_deactivation(workload, "RequeuingLimitExceeded", message, now)
    return evict(workload, cause, now, RequeueState(requeues, now + limits.backoff(requeues)))


def _readiness_limits(
    workload: Mapping[str, object], limits: ReadinessLimits, admitted_at: float
) -> Iterator[TimeLimit]:
    observed = find_condition(workload, PODS_READY) or {}
    failed_at = transition_time(observed)
    if observed.get("status") == "True":
        return
    if observed.get("reason") == "WaitForRecovery":
        if limits.recovery_timeout and failed_at is not None:
            yield TimeLimit(failed_at + limits.recovery_timeout, "WaitForRecovery")
    elif limits.timeout:
        yield TimeLimit(admitted_at + limits.timeout, "WaitForStart")


def _execution_limits(workload: Mapping[str, object], admitted_at: float) -> Iterator[TimeLimit]:
    reader = FieldReader(workload, "", [])
    seconds = reader.child("spec").count("maximumExecutionTimeSeconds")
    if seconds:
        past = reader.child("status").count(PAST_TIME, 0) or 0
        yield TimeLimit(admitted_at + max(0, seconds - past), MAXIMUM_EXECUTION_TIME_EXCEEDED)

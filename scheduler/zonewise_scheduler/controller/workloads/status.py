"""Changes of a Workload's status as merge patches (pkg/workload/workload.go, pkg/workload/evict, pkg/workload/finish).

Each function reads an observed Workload and returns the body of a merge patch for the subresource status. The patch
contains only the changed fields, but complete lists. None: nothing changes. Times are seconds since 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.controller.merge_patch import merge_patch
from zonewise_scheduler.controller.workloads.admission_checks import (
    are_all_ready,
    checks_named,
    checks_of,
    required_checks,
    reset_checks,
    with_check,
)
from zonewise_scheduler.controller.workloads.admission_object import write_admission
from zonewise_scheduler.controller.workloads.conditions import (
    Condition,
    api_time,
    condition_time,
    find_condition,
    is_true,
    message_of,
    with_conditions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.controller.jobs.interface import FinishedJob
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.quota.api.workload_types import Admission

QUOTA_RESERVED, ADMITTED, EVICTED, PREEMPTED = "QuotaReserved", "Admitted", "Evicted", "Preempted"
REQUEUED, PODS_READY, FINISHED = "Requeued", "PodsReady", "Finished"
REPLACEMENT = "WaitingForReplacementPods"
DEACTIVATION_TARGET = "DeactivationTarget"
DEACTIVATED = "Deactivated"
MAXIMUM_EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
PAST_TIME = "accumulatedPastExecutionTimeSeconds"
"""Field of the status with the execution time of earlier admissions, in seconds."""

_IMMEDIATELY_REQUEUED = frozenset({"Preempted", "NodeFailures"})
"""Reasons for evictions after which a Workload is pending at once. Others wait for a backoff, a check or a queue."""
_NOT_READY = "Not all pods are ready or succeeded"
_READY = "All pods reached readiness and the workload is running"
_RECOVERY = "At least one pod has failed, waiting for recovery"
_AWAITS_CHECKS = "The workload has not all checks ready"
_AWAITS_TOPOLOGY = "There are pending delayed topology requests"
_NO_RESERVATION = Condition(ADMITTED, holds=False, reason="NoReservation", message="The workload has no reservation")


class EvictionCause(NamedTuple):
    """Why a Workload is evicted."""

    reason: str
    """"Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", "LocalQueueStopped", "NodeFailures",
    "Deactivated"."""
    message: str
    underlying_cause: str = ""
    """Cause of a deactivation: "RequeuingLimitExceeded", "MaximumExecutionTimeExceeded", "AdmissionCheck". Cause of a
    PodsReadyTimeout: "WaitForStart", "WaitForRecovery"."""
    preemption_reason: str = ""
    """Reason for a preemption: "InClusterQueue", "InCohortReclamation", "InCohortFairSharing",
    "InCohortReclaimWhileBorrowing"."""


class RequeueState(NamedTuple):
    """How often a Workload was requeued because its pods were not ready in time, and until when it waits."""

    requeues: int
    requeue_at: float | None = None


def reserve_quota(workload: Mapping[str, object], admission: Admission) -> Json | None:
    """Return the patch of an admission: quota is reserved, and the Workload is admitted if no check is pending."""
    now = admission.reserved_at
    checks = required_checks(workload, admission.pending_checks, now)
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}"
    conditions = [Condition(QUOTA_RESERVED, holds=True, reason="QuotaReserved", message=message)]
    conditions += _resets(workload, (EVICTED, PREEMPTED), "QuotaReserved")
    awaits_topology = any(pod_set.delayed_topology_request == "Pending" for pod_set in admission.pod_sets)
    conditions.append(_admitted_condition(are_ready=are_all_ready(checks), awaits_topology=awaits_topology))
    return _patch(
        workload,
        {
            "admission": write_admission(admission),
            "conditions": with_conditions(workload, conditions, now),
            "admissionChecks": checks,
        },
    )


def admit(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch that admits a Workload with quota, once its checks have passed and its topology is known."""
    assignments = FieldReader(workload, "", []).child("status").child("admission").children("podSetAssignments")
    awaits_topology = any(
        item.text("delayedTopologyRequest") == "Pending" and not item.has("topologyAssignment") for item in assignments
    )
    ready = are_all_ready(checks_of(workload))
    change = _admitted_condition(are_ready=ready, awaits_topology=awaits_topology)
    return _patch(workload, {"conditions": with_conditions(workload, [change], now)})


def evict(
    workload: Mapping[str, object], cause: EvictionCause, now: float, requeue: RequeueState | None = None
) -> Json | None:
    """Return the patch of an eviction. The quota remains reserved until no pod is active."""
    is_deactivation = cause.reason == DEACTIVATED
    with_cause = is_deactivation and cause.underlying_cause
    reason = f"{DEACTIVATED}DueTo{cause.underlying_cause}" if with_cause else cause.reason
    conditions = [Condition(EVICTED, holds=True, reason=reason, message=cause.message)]
    if cause.preemption_reason:
        conditions.append(Condition(PREEMPTED, holds=True, reason=cause.preemption_reason, message=cause.message))
    evicted = with_conditions(workload, conditions, now)
    status: Json = {
        "conditions": [item for item in evicted if not is_deactivation or item["type"] != DEACTIVATION_TARGET],
        "admissionChecks": reset_checks(workload, now),
        "unhealthyNodes": [],
    }
    if is_deactivation:
        status["requeueState"] = None
    if not is_true(workload, EVICTED):
        status["schedulingStats"] = {"evictions": _counted_evictions(workload, cause)}
    if requeue is not None:
        status["requeueState"] = _requeue_state(requeue)
    return _patch(workload, status)


def target_deactivation(workload: Mapping[str, object], cause: str, message: str, now: float) -> Json | None:
    """Return the patch that marks a Workload for deactivation (pkg/workload/workload.go SetDeactivationTarget)."""
    changes = [Condition(DEACTIVATION_TARGET, holds=True, reason=cause, message=message)]
    return _patch(workload, {"conditions": with_conditions(workload, changes, now)})


def deactivate(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch that evicts a Workload whose spec.active is false, with the cause that its target names."""
    target = find_condition(workload, DEACTIVATION_TARGET) or {}
    cause, reason = str(target.get("reason") or ""), str(target.get("message") or "")
    message = f"The workload is deactivated{' due to ' if reason else ''}{reason}"
    return evict(workload, EvictionCause(DEACTIVATED, message, cause), now)


def note_deactivation(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch of a Workload without quota whose spec.active is false. It is Evicted, and its count of requeues
    starts from zero (pkg/controller/core/workload_controller.go Reconcile).
    """
    return _patch(workload, {"requeueState": None}) if is_true(workload, EVICTED) else deactivate(workload, now)


def release_quota(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch that releases the quota of an evicted Workload without pods, and requeues it or lets it wait.

    If a Workload has used up its execution time, the count starts from zero once it is active again.
    """
    eviction = find_condition(workload, EVICTED) or {}
    reason, message = str(eviction.get("reason") or "Pending"), str(eviction.get("message") or "")
    requeued = reason in _IMMEDIATELY_REQUEUED
    conditions = [
        Condition(REQUEUED, holds=requeued, reason=reason, message=message),
        Condition(QUOTA_RESERVED, holds=False, reason="PendingEvaluation", message=message),
        _NO_RESERVATION,
    ]
    status: Json = {"admission": None}
    if is_true(workload, ADMITTED):
        exceeded = reason.endswith(MAXIMUM_EXECUTION_TIME_EXCEEDED)
        status[PAST_TIME] = None if exceeded else _past_execution_time(workload, now)
    if find_condition(workload, PODS_READY) is not None:
        conditions.append(Condition(PODS_READY, holds=False, reason="WaitForStart", message=_NOT_READY))
    return _patch(workload, {**status, "conditions": with_conditions(workload, conditions, now)})


def has_quota(workload: Mapping[str, object]) -> bool:
    """Return whether a Workload has reserved quota, as its condition and its admission show."""
    return is_true(workload, QUOTA_RESERVED) and FieldReader(workload, "", []).child("status").has("admission")


def may_run(workload: Mapping[str, object]) -> bool:
    """Return whether the pods of a Workload may run: it has quota, is admitted, and is neither evicted nor finished.

    A client may have removed the admission, but not yet the condition Admitted (withdraw_quota).
    """
    ends = is_true(workload, EVICTED) or is_true(workload, FINISHED)
    return is_true(workload, ADMITTED) and not ends and has_quota(workload)


def withdraw_quota(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch of a Workload that has lost some, but not all, of QuotaReserved, its admission and Admitted."""
    message = "The reservation of quota was removed from the status"
    conditions = [Condition(QUOTA_RESERVED, holds=False, reason="PendingEvaluation", message=message)]
    if is_true(workload, ADMITTED):
        conditions.append(Condition(ADMITTED, holds=False, reason="NoReservation", message=message))
    return _patch(workload, {"admission": None, "conditions": with_conditions(workload, conditions, now)})


def requeue(workload: Mapping[str, object], reason: str, message: str, now: float) -> Json | None:
    """Return the patch of a Workload that is pending again after a wait: "BackoffFinished", "ClusterQueueRestarted".

    The count of its requeues is kept.
    """
    conditions = [Condition(REQUEUED, holds=True, reason=reason, message=message)]
    state = FieldReader(workload, "", []).child("status").child("requeueState").obj
    status: Json = {"conditions": with_conditions(workload, conditions, now)}
    return _patch(workload, {**status, "requeueState": {**state, "requeueAt": None}} if state else status)


def requeue_time(workload: Mapping[str, object]) -> float:
    """Return requeueState.requeueAt in seconds since 1970; 0 if there is none."""
    return FieldReader(workload, "", []).child("status").child("requeueState").time("requeueAt") or 0.0


def reactivate(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch of a Workload that is active again: its count of requeues starts from zero."""
    changes = [Condition(REQUEUED, holds=True, reason="Reactivated", message="The workload was reactivated")]
    return _patch(workload, {"conditions": with_conditions(workload, changes, now), "requeueState": None})


def explain_pending(workload: Mapping[str, object], reason: str, message: str, now: float) -> Json | None:
    """Return the patch that sets the reason why a pending Workload waits, such as "WaitingForQuota"."""
    conditions = [Condition(QUOTA_RESERVED, holds=False, reason=reason, message=message), _NO_RESERVATION]
    return _patch(workload, {"conditions": with_conditions(workload, conditions, now)})


def finish(workload: Mapping[str, object], end: FinishedJob, now: float) -> Json | None:
    """Return the patch of a Workload whose job has ended."""
    return finish_for(workload, "Succeeded" if end.succeeded else "Failed", end.message, now)


def finish_for(workload: Mapping[str, object], reason: str, message: str, now: float) -> Json | None:
    """Return the patch that ends a Workload for a reason: "FailedToStart", "OutOfSync", "OwnerNotFound"."""
    conditions = [Condition(FINISHED, holds=True, reason=reason, message=message)]
    return _patch(workload, {"conditions": with_conditions(workload, conditions, now)})


def set_pods_ready(workload: Mapping[str, object], now: float, *, ready: bool) -> Json | None:
    """Return the patch that sets the condition PodsReady (reconciler.go generatePodsReadyCondition)."""
    observed = find_condition(workload, PODS_READY) or {}
    recovers = observed.get("reason") in {"WaitForRecovery", "Recovered"}
    if ready and is_true(workload, ADMITTED):
        change = Condition(PODS_READY, holds=True, reason="Recovered" if recovers else "Started", message=_READY)
    elif is_true(workload, ADMITTED) and (
        observed.get("status") == "True" or observed.get("reason") == "WaitForRecovery"
    ):
        change = Condition(PODS_READY, holds=False, reason="WaitForRecovery", message=_RECOVERY)
    else:
        change = Condition(PODS_READY, holds=False, reason="WaitForStart", message=_NOT_READY)
    return _patch(workload, {"conditions": with_conditions(workload, [change], now)})


def reset_pods_ready(workload: Mapping[str, object], now: float) -> Json | None:
    """Return the patch of a Workload that a client has stopped: its next start does not recover from this run."""
    is_known = find_condition(workload, PODS_READY) is not None
    return set_pods_ready(workload, now, ready=False) if is_known and not is_true(workload, ADMITTED) else None


def set_waiting_for_replacement(workload: Mapping[str, object], absent: int, now: float) -> Json | None:
    """Return the patch that sets the condition WaitingForReplacementPods, for a pod group that lacks pods.

    Source: pkg/controller/jobs/pod/pod_controller.go waitingForReplacementPodsCondition.
    """
    observed = find_condition(workload, REPLACEMENT)
    if absent <= 0:
        if observed is None or observed.get("status") == "False":
            return None
        change = Condition(REPLACEMENT, holds=False, reason="PodsReady", message="No pods need replacement")
    elif is_true(workload, EVICTED):
        eviction = find_condition(workload, EVICTED) or {}
        reason, message = str(eviction.get("reason") or "Evicted"), str(eviction.get("message") or "")
        change = Condition(REPLACEMENT, holds=True, reason=reason, message=message)
    elif observed is None or observed.get("status") != "True":
        change = Condition(REPLACEMENT, holds=True, reason="PodsFailed", message="Some Failed pods need replacement")
    else:
        return None
    return _patch(workload, {"conditions": with_conditions(workload, [change], now)})


def set_reclaimable_pods(workload: Mapping[str, object], pods: Mapping[str, int]) -> Json | None:
    """Return the patch that sets the pods that are no longer needed, at most all pods of each pod set."""
    pod_sets = FieldReader(workload, "", []).child("spec").children("podSets")
    counts = {item.text("name", "main"): item.count("count", 1) or 0 for item in pod_sets}
    reclaimable = [{"name": name, "count": min(pods[name], count)} for name, count in counts.items() if pods.get(name)]
    return _patch(workload, {"reclaimablePods": reclaimable})


def require_checks(workload: Mapping[str, object], names: Iterable[str], now: float) -> Json | None:
    """Return the patch of a Workload whose ClusterQueue now requires these checks. Existing checks keep their state."""
    return _patch(workload, {"admissionChecks": checks_named(workload, names, now)})


def set_admission_check(workload: Mapping[str, object], check: Json, now: float) -> Json | None:
    """Return the patch that sets one admission check: name, state, message and other fields."""
    return _patch(workload, {"admissionChecks": with_check(workload, check, now)})


def _patch(workload: Mapping[str, object], status: Json) -> Json | None:
    """Return the merge patch of the status fields that change; None: none changes."""
    observed = FieldReader(workload, "", []).child("status").obj
    changes = merge_patch({name: observed.get(name) for name in status}, status)
    return {"status": changes} if changes else None


def _admitted_condition(*, are_ready: bool, awaits_topology: bool) -> Condition:
    """Return the condition Admitted of a Workload with quota (workload/admissionchecks.go SyncAdmittedCondition)."""
    if are_ready and not awaits_topology:
        return Condition(ADMITTED, holds=True, reason="Admitted", message="The workload is admitted")
    reason = "PendingDelayedTopologyRequests" if are_ready else "UnsatisfiedAdmissionChecks"
    message = _AWAITS_TOPOLOGY if are_ready else _AWAITS_CHECKS
    return Condition(ADMITTED, holds=False, reason=reason, message=message)


def _resets(workload: Mapping[str, object], types: Iterable[str], reason: str) -> Iterable[Condition]:
    """Yield the true conditions of these types, set to false (pkg/workload/workload.go resetActiveCondition)."""
    for condition_type in types:
        if is_true(workload, condition_type):
            message = f"Previously: {message_of(workload, condition_type)}"
            yield Condition(condition_type, holds=False, reason=reason, message=message)


def _counted_evictions(workload: Mapping[str, object], cause: EvictionCause) -> list[Json]:
    stats = FieldReader(workload, "", []).child("status").child("schedulingStats")
    counts = {
        (item.text("reason"), item.text("underlyingCause")): item.count("count", 0) or 0
        for item in stats.children("evictions")
    }
    key = cause.reason, cause.underlying_cause
    counts[key] = counts.get(key, 0) + 1
    return [
        {"reason": reason, "underlyingCause": underlying, "count": count}
        for (reason, underlying), count in counts.items()
    ]


def _requeue_state(state: RequeueState) -> Json:
    return {"count": state.requeues, "requeueAt": None if state.requeue_at is None else api_time(state.requeue_at)}


def _past_execution_time(workload: Mapping[str, object], now: float) -> int:
    """Return the execution time of all admissions in seconds, including the one that ends now."""
    past = FieldReader(workload, "", []).child("status").count(PAST_TIME, 0) or 0
    admitted_at = condition_time(workload, ADMITTED)
    return past + (0 if admitted_at is None else max(0, int(now - admitted_at)))

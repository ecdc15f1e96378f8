"""The next write of a Workload's status, as the planner's decisions and the admission checks require.

    intent         observed                          next write
    any            its job is gone, no pod is active Finished: the job was deleted without its dependents
    any            quota, Evicted                    none: quota is released once no pod is active (job.py)
    any            DeactivationTarget, active        spec.active=false
    any            quota, a check is Rejected        DeactivationTarget (workloads/failed_checks.py)
    any            quota, a check is Retry           Evicted, with the time of the retry
    evict          quota                             Evicted
    place          quota                             admission with its topology assignment
    any            quota, a limit is exceeded        Evicted, or DeactivationTarget (workloads/time_limits.py)
    any            quota, unhealthyNodes differ      unhealthyNodes
    any            quota, other checks required      the required checks, until it is Admitted
    any            quota, all checks Ready           Admitted, which a check that becomes pending again does not undo
    any            no quota, Admitted                neither QuotaReserved, nor admission, nor Admitted
    any            no quota, DeactivationTarget      Evicted, without DeactivationTarget
    any            no quota, not active              Evicted, and its requeues are forgotten
    any            no quota, its wait is over        Requeued
    admit          no quota                          QuotaReserved, admission; Admitted if no check is pending
    any            its class has a new value         spec.priority

The first matching line applies. An intent that the object already shows leads to no write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.cluster_cache import object_version, uid_of
from zonewise_scheduler.controller.planning.intents import AdmitIntent, EvictIntent
from zonewise_scheduler.controller.planning.restarted_queues import RESTARTS
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.failed_checks import ADMISSION_CHECK, reject, retry
from zonewise_scheduler.controller.workloads.manifest import is_orphaned
from zonewise_scheduler.controller.workloads.status import (
    ADMITTED,
    DEACTIVATED,
    DEACTIVATION_TARGET,
    QUOTA_RESERVED,
    REQUEUED,
    EvictionCause,
    admit,
    deactivate,
    evict,
    finish_for,
    has_quota,
    note_deactivation,
    reactivate,
    requeue,
    requeue_time,
    require_checks,
    reserve_quota,
    withdraw_quota,
)
from zonewise_scheduler.controller.workloads.time_limits import evict_with_backoff, exceed

if TYPE_CHECKING:
    from zonewise_scheduler.controller.planning.intents import Intent
    from zonewise_scheduler.controller.pods.pod_rejections import PodRejection
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits, TimeLimit

REJECT = "reject"
"""Purpose of the write that reacts to a Rejected admission check."""
KUBELET_REJECTIONS = "KubeletRejections"
"""Reason for evicting a workload whose pods a kubelet has rejected repeatedly."""
_REQUEUED_AFTER_A_WAIT = frozenset({"PodsReadyTimeout", ADMISSION_CHECK, KUBELET_REJECTIONS})
"""Reasons for evictions after which a Workload waits until requeueState.requeueAt, if that is set."""


class WorkloadState(NamedTuple):
    """A Workload, and the decisions about it."""

    name: str
    """Key of the Workload."""
    workload: Json
    intent: Intent | None = None
    unhealthy_nodes: tuple[str, ...] | None = None
    """The required list of failed nodes; None: the current one."""
    limit: TimeLimit | None = None
    """Its next time limit; None: there is none."""
    rejection: PodRejection | None = None
    """The kubelet's rejection that ends its admission; None: there is none."""
    required_checks: tuple[str, ...] | None = None
    """The admission checks of its ClusterQueue and flavors; None: they are unknown."""
    is_queue_open: bool = False
    """Whether its queues are not stopped."""
    priority: int | None = None
    """The new value of its WorkloadPriorityClass; None: its priority does not change."""
    is_active: bool = False
    """Whether one of its pods may run."""


def next_workload_write(state: WorkloadState, limits: ReadinessLimits, now: float) -> Write | None:
    """Return the next write of a Workload; None: it already shows all decisions."""
    if is_true(state.workload, "Finished"):
        return None
    if is_orphaned(state.workload):
        return None if state.is_active else _finish_orphan(state, now)
    return _next_status_write(state, limits, now) or _follow_class(state)


def _finish_orphan(state: WorkloadState, now: float) -> Write | None:
    body = finish_for(state.workload, "OwnerNotFound", "The job of the Workload no longer exists", now)
    return patch_status(state.workload, state.name, "finish", body)


def _next_status_write(state: WorkloadState, limits: ReadinessLimits, now: float) -> Write | None:
    if has_quota(state.workload):
        return None if is_true(state.workload, "Evicted") else _with_quota(state, limits, now)
    if is_true(state.workload, QUOTA_RESERVED) or is_true(state.workload, ADMITTED):
        return patch_status(state.workload, state.name, "withdraw quota", withdraw_quota(state.workload, now))
    return _without_quota(state, now)


def _follow_class(state: WorkloadState) -> Write | None:
    """Return the write of the priority that a new value of its class gives to a Workload."""
    if state.priority is None or FieldReader(state.workload, "", []).child("spec").number("priority") == state.priority:
        return None
    body = {"spec": {"priority": state.priority}}
    return patch_workload(state.workload, state.name, "follow the priority class", body)


def _with_quota(state: WorkloadState, limits: ReadinessLimits, now: float) -> Write | None:
    name, workload, intent, unhealthy_nodes, limit, rejection, *_ = state
    if (stop := _stop(state, now)) is not None:
        return stop
    if isinstance(intent, AdmitIntent) and intent.has_quota and (placed := _admit(state, intent, now)) is not None:
        return placed
    if limit is not None and limit.at <= now:
        return patch_status(workload, name, "evict", exceed(workload, limit, limits, now))
    if rejection is not None and _is_placed(workload):
        cause = EvictionCause(KUBELET_REJECTIONS, f"Again {rejection.text}")
        return patch_status(workload, name, "evict", evict_with_backoff(workload, cause, limits, now))
    if unhealthy_nodes is not None and unhealthy_nodes != _unhealthy_nodes(workload):
        nodes = [{"name": node} for node in unhealthy_nodes]
        return patch_workload(workload, name, "record failed nodes", {"status": {"unhealthyNodes": nodes}}, "status")
    return None if is_true(workload, ADMITTED) else _pass_checks(state, now)


def _stop(state: WorkloadState, now: float) -> Write | None:
    """Return the write that stops a Workload with quota; None: it continues."""
    name, workload, intent, *_ = state
    if is_true(workload, DEACTIVATION_TARGET):
        if _is_active(workload):
            return _deactivate(state)
    elif (body := reject(workload, now)) is not None:
        return patch_status(workload, name, REJECT, body)
    elif (body := retry(workload, now)) is not None:
        return patch_status(workload, name, "evict", body)
    return _evict(name, workload, intent, now) if isinstance(intent, EvictIntent) else None


def _pass_checks(state: WorkloadState, now: float) -> Write | None:
    required, workload = state.required_checks, state.workload
    if required is not None and (body := require_checks(workload, required, now)) is not None:
        return patch_status(workload, state.name, "require checks", body)
    return patch_status(workload, state.name, "pass checks", admit(workload, now))


def _without_quota(state: WorkloadState, now: float) -> Write | None:
    name, workload, intent, *_ = state
    if is_true(workload, DEACTIVATION_TARGET):
        if _is_active(workload):
            return _deactivate(state)
        return patch_status(workload, name, "evict", deactivate(workload, now))
    if not _is_active(workload):
        return patch_status(workload, name, "note deactivation", note_deactivation(workload, now))
    if (write := _requeue(state, now)) is not None:
        return write
    return _admit(state, intent, now) if isinstance(intent, AdmitIntent) and not intent.has_quota else None


def _is_placed(workload: Json) -> bool:
    """Return whether the queue has chosen the nodes of some pods. For other pods, kube-scheduler chooses them."""
    admission = FieldReader(workload, "", []).child("status").child("admission")
    return any(item.has("topologyAssignment") for item in admission.children("podSetAssignments"))


def _is_active(workload: Json) -> bool:
    return FieldReader(workload, "", []).child("spec").flag("active", default=True)


def _deactivate(state: WorkloadState) -> Write:
    return patch_workload(state.workload, state.name, "deactivate", {"spec": {"active": False}})


def _admit(state: WorkloadState, intent: AdmitIntent, now: float) -> Write | None:
    """Return the write of an admission. For a workload that already had quota, the time of the admission is now."""
    admission = intent.workload.admission
    if admission is not None and intent.has_quota:
        admission = admission._replace(reserved_at=now)
    body = None if admission is None else reserve_quota(state.workload, admission)
    return patch_status(state.workload, state.name, "admit", body)


def _requeue(state: WorkloadState, now: float) -> Write | None:
    """Return the write that requeues a Workload after a backoff, its activation, or the restart of its queue."""
    name, workload, *_ = state
    requeued = find_condition(workload, REQUEUED) or {}
    reason = str(requeued.get("reason"))
    if requeued.get("status") != "False":
        return None
    if reason.startswith(DEACTIVATED):
        return patch_status(workload, name, "requeue", reactivate(workload, now))
    if state.is_queue_open and reason in RESTARTS:
        return patch_status(workload, name, "requeue", requeue(workload, *RESTARTS[reason], now))
    if reason not in _REQUEUED_AFTER_A_WAIT or requeue_time(workload) > now:
        return None
    body = requeue(workload, "BackoffFinished", "The workload backoff was finished", now)
    return patch_status(workload, name, "requeue", body)


def _unhealthy_nodes(workload: Json) -> tuple[str, ...]:
    nodes: list[Json] = workload["status"].get("unhealthyNodes") or []
    return tuple(str(node.get("name")) for node in nodes)


def _evict(name: str, workload: Json, intent: EvictIntent, now: float) -> Write | None:
    if intent.reason == DEACTIVATED or not _is_active(workload):
        return patch_status(workload, name, "evict", deactivate(workload, now))
    cause = EvictionCause(intent.reason, intent.message, preemption_reason=intent.preemption_reason)
    return patch_status(workload, name, "evict", evict(workload, cause, now))


def patch_workload(workload: Json, name: str, purpose: str, body: Json, subresource: str = "") -> Write:
    """Return a merge patch of a Workload for the observed version."""
    version = str(object_version(workload) or "")
    key = workload_key(name)
    return Write(Verb.MERGE_PATCH, key, purpose, body, subresource, uid_of(workload), version, name)


def patch_status(workload: Json, name: str, purpose: str, *patches: Json | None) -> Write | None:
    """Return the write of all patches of a Workload's status (workloads/status.py); None: nothing changes."""
    status = {field: value for patch in patches if patch is not None for field, value in patch["status"].items()}
    return patch_workload(workload, name, purpose, {"status": status}, "status") if status else None


def workload_key(name: str) -> ObjectKey:
    """Return the key of a Workload; `name`: its namespace and name."""
    namespace, _, own = name.partition("/")
    return ObjectKey(WORKLOADS, namespace, own)

"""The next writes for a job of plain pods (pkg/controller/jobs/pod/pod_controller.go, jobframework/reconciler.go).

    pods                          its Workload                     next writes
    complete                      none                             create it
    fewer                         none                             none; those that cannot run are released
    more                          any                              delete the newest, held ones first
    other roles                   pending                          delete it
    some run                      none, not Admitted, or Evicted   stop each: set the reason, then delete it
    some are absent               not Admitted                     WaitingForReplacementPods, so it is not pending
    none is active                Evicted, with quota              quota released
    any, of another class         pending, or Admitted             priority
    any, their PodGroup has       any                              the reference to the PodGroup, in that version
    another API version
    some are held                 Admitted                         start each of them, by one patch
    some can no longer run        Admitted                         WaitingForReplacementPods; replaced ones are released
    ended, or all deleted         not Finished                     Finished
    any                           Finished                         all are released

A released pod loses its finalizer. The writes concern different objects, so their order does not matter. Everything is
derived from the observed objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import NAMESPACES, WORKLOADS
from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.jobs.interface import StartConflict
from zonewise_scheduler.controller.pods.group_state import (
    absent_pods,
    are_pods_ready,
    excess_pods,
    is_cancelled,
    plain_end,
    reclaimable_pods,
    replaced_pods,
    startable_pods,
)
from zonewise_scheduler.controller.pods.group_workload import (
    build_plain_workload,
    is_group_workload,
    member_references,
    missing_references,
    plain_pod_sets,
    pod_set_name,
    role_counts,
    unserved_references,
    workload_counts,
)
from zonewise_scheduler.controller.pods.pod_group import PlainPods, read_group_pod, read_plain_pods
from zonewise_scheduler.controller.pods.pod_writes import delete_pod, release_pod, start_pod, stop_pod
from zonewise_scheduler.controller.reconcile.start_infos import MissingFlavor, start_infos
from zonewise_scheduler.controller.reconcile.workload import patch_status, patch_workload, workload_key
from zonewise_scheduler.controller.types import ObjectKey, Verb, Write
from zonewise_scheduler.controller.workloads.conditions import find_condition, is_true
from zonewise_scheduler.controller.workloads.manifest import (
    FOLLOWED_ANNOTATIONS,
    annotation_changes,
    check_priority_class,
    followed_annotations,
    priority_changes,
)
from zonewise_scheduler.controller.workloads.status import (
    finish,
    finish_for,
    may_run,
    release_quota,
    reset_pods_ready,
    set_pods_ready,
    set_reclaimable_pods,
    set_waiting_for_replacement,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.controller.pods.group_owner import GroupOwner
    from zonewise_scheduler.controller.pods.pod_group import GroupPod
    from zonewise_scheduler.controller.reconcile.job import JobContext
    from zonewise_scheduler.controller.types import Json


class PlainPodsState(NamedTuple):
    """A job of plain pods with the observed objects that concern it."""

    namespace: str
    name: str
    """Name of a group's Workload; "": a single pod."""
    pods: Sequence[Json]
    workload: Json | None
    """For a group the Workload with that name, for a single pod the Workload that it owns."""
    group: GroupOwner | None = None
    is_surplus: bool = False
    """Whether the owner does not exist, or now has fewer groups and deletes the pods."""


class _Owned(NamedTuple):
    """A job with its Workload."""

    job: PlainPods
    key: str
    workload: Json
    counts: Mapping[str, int]


def next_plain_writes(state: PlainPodsState, context: JobContext) -> list[Write]:
    """Return the next write of each object of the job. Raises FieldError for pods that do not form a job."""
    if state.is_surplus or _is_namespace_deleted(state, context):
        # the pods may not form a job: in a set of Kueue, some name a group and others do not
        return _releases((pod for pod in map(read_group_pod, state.pods) if pod.is_gone), "")
    job, workload = read_plain_pods(state.pods, state.group), state.workload
    if workload is None:
        return _without_workload(state, job, context)
    if job.is_group and not is_group_workload(workload):
        raise FieldError("metadata.name", f"the Workload {state.name!r:.80} exists, and is not of this pod group")
    owned = _Owned(job, f"{state.namespace}/{workload['metadata']['name']}", workload, workload_counts(workload))
    writes = _owned_writes(state, owned, context)
    if workload_key(owned.key) not in {write.key for write in writes}:
        writes += _follow_version(state, owned)
    if not writes and not is_true(workload, "Finished"):
        check_priority_class(job.priority_class, workload, context.manifest)
    return writes


def _owned_writes(state: PlainPodsState, owned: _Owned, context: JobContext) -> list[Write]:
    """Return the next writes of a job that has a Workload."""
    job, workload = owned.job, owned.workload
    if is_true(workload, "Finished"):
        return _releases(job.pods, owned.key)
    end = plain_end(job)
    if end is not None:
        return _status_writes(owned, "finish", finish(workload, end, context.now))
    if is_cancelled(job):
        return _releases(job.pods, owned.key)
    return _live_writes(state, owned, context)


def awaited_pods(state: PlainPodsState) -> str:
    """Return why a group without a Workload is not queued yet, if it lacks pods; "": it lacks none.

    Source: pod_controller.go validatePodGroupMetadata. Raises FieldError for pods that do not form a job.
    """
    if state.workload is not None or state.is_surplus:
        return ""
    job = read_plain_pods(state.pods, state.group)
    if not job.counting or not _lacks_pods(job) or plain_end(job) is not None:
        return ""
    return f"the pod group has {len(job.counting)} of its {job.total} pods; it is queued once the others exist"


def _lacks_pods(job: PlainPods) -> bool:
    """Return whether the pod sets of a job are unknown until more of its pods exist."""
    return len(job.counting) < job.total and not job.is_fast and not job.pod_sets


def _is_namespace_deleted(state: PlainPodsState, context: JobContext) -> bool:
    """Return whether the namespace is being deleted, so that no pod will be replaced.

    The namespace controller deletes other objects, such as the Workload, only once no pod is left (KEP-5080).
    """
    namespace = context.find(NAMESPACES, "", state.namespace)
    return namespace is not None and "deletionTimestamp" in namespace["metadata"]


def _without_workload(state: PlainPodsState, job: PlainPods, context: JobContext) -> list[Write]:
    if plain_end(job) is not None:
        return _releases(job.pods, "")
    releases = _releases((pod for pod in job.pods if _needs_no_accounting(job, pod)), "")
    if stops := _stops(job, "NoMatchingWorkload", "No Workload matches the pods", "", context):
        return releases + [stop._replace(needs=WORKLOADS) for stop in stops]
    if excess := [pod for pod in excess_pods(job, None) if pod.deleted_at is None]:
        return releases + [delete_pod(pod, "delete an excess pod", "") for pod in excess]
    if not job.counting or _lacks_pods(job) or _is_deleted_pod(job):
        return releases
    workload = build_plain_workload(job, state.name, plain_pod_sets(job), context.manifest, state.group)
    key = ObjectKey(WORKLOADS, state.namespace, workload["metadata"]["name"])
    return [*releases, Write(Verb.CREATE, key, "create the Workload", workload, workload=key.namespaced_name)]


def _live_writes(state: PlainPodsState, owned: _Owned, context: JobContext) -> list[Write]:
    """Return the writes of a job that has a Workload and has not ended."""
    job, key, workload = owned.job, owned.key, owned.workload
    writes = _releases(_released_pods(job, owned.counts), key)
    excess = [pod for pod in excess_pods(job, owned.counts) if pod.deleted_at is None] if job.is_group else []
    writes += [delete_pod(pod, "delete an excess pod", key) for pod in excess]
    if not may_run(workload):
        return writes + _without_admission(owned, context)
    if state.group is None and job.is_group and missing_references(workload, job):
        body = {"metadata": {"ownerReferences": member_references(job)}}
        writes.append(patch_workload(workload, key, "own the Workload", body))
    elif (write := _follow_class(owned, context)) is not None:
        writes.append(write)
    else:
        writes += _following(owned, context)
    chosen = {write.key for write in writes}
    try:
        return writes + [write for write in _starts(owned, context) if write.key not in chosen]
    except MissingFlavor:
        if writes:  # the end of a write checks the pods again
            return writes
        raise


def _without_admission(owned: _Owned, context: JobContext) -> list[Write]:
    """Stop the pods, then release the quota of the Workload."""
    job, key, workload = owned.job, owned.key, owned.workload
    eviction = find_condition(workload, "Evicted") or {}
    is_evicted = eviction.get("status") == "True"
    reason = str(eviction.get("reason") or "Evicted") if is_evicted else "NotAdmitted"
    message = str(eviction.get("message") or "") if is_evicted else "The Workload is not admitted"
    if stops := _stops(job, reason, message, key, context):
        return stops
    return [] if any(pod.holds_quota(context.now) for pod in job.pods) else _without_active_pods(owned, context)


def _without_active_pods(owned: _Owned, context: JobContext) -> list[Write]:
    """Return the next write of a Workload that is not admitted and has no active pod."""
    job, key, workload = owned.job, owned.key, owned.workload
    absent = 0 if job.pod_sets else absent_pods(job, owned.counts)  # an owner may create pods after the start of others
    if (waiting := set_waiting_for_replacement(workload, absent, context.now)) is not None:
        return _status_writes(owned, "await replacements", waiting)
    if is_true(workload, "QuotaReserved"):
        released = release_quota(workload, context.now) if is_true(workload, "Evicted") else None
        return _status_writes(owned, "release quota", released)
    if (reset := reset_pods_ready(workload, context.now)) is not None:
        return _status_writes(owned, "follow the pods", reset)
    if _has_other_roles(owned):
        purpose = "delete a Workload that does not match"
        return [Write(Verb.DELETE, workload_key(key), purpose, uid=uid_of(workload), workload=key)]
    if workload["spec"].get("queueName") != job.queue and (job.pod_sets or not job.is_serving):
        return [patch_workload(workload, key, "follow the queue", {"spec": {"queueName": job.queue}})]
    write = _follow_class(owned, context)
    return _follow_annotations(owned) if write is None else [write]


def _follow_class(owned: _Owned, context: JobContext) -> Write | None:
    """Return the write of the current priority class of the job (jobframework/reconciler.go UpdateWorkloadPriority)."""
    changes = priority_changes(owned.job.priority_class, owned.workload, context.manifest)
    return (
        patch_workload(owned.workload, owned.key, "follow the priority class", {"spec": changes}) if changes else None
    )


def _follow_annotations(owned: _Owned) -> list[Write]:
    """Return the write of the current begin time and admission gates of the job. Raises FieldError."""
    wanted = {**dict.fromkeys(FOLLOWED_ANNOTATIONS), **followed_annotations(owned.job.annotations)}
    body = annotation_changes(wanted, owned.workload)
    return [patch_workload(owned.workload, owned.key, "follow the annotations", body)] if body else []


def _follow_version(state: PlainPodsState, owned: _Owned) -> list[Write]:
    """Return the write that names the owner of the Workload in the version that the API server serves."""
    owners = None if state.group is None else unserved_references(owned.workload, state.group)
    if owners is None:
        return []
    body = {"metadata": {"ownerReferences": owners}}
    return [patch_workload(owned.workload, owned.key, "own the Workload", body)]


def _starts(owned: _Owned, context: JobContext) -> list[Write]:
    """Return the writes that start the held pods. Raises MissingFlavor."""
    held = startable_pods(owned.job, owned.counts)
    if not held:
        return []
    try:
        infos = {info.name: info for info in start_infos(owned.workload, context.flavors)}
        return [start_pod(pod, infos[pod_set_name(owned.job, pod)], owned.key) for pod in held]
    except MissingFlavor:
        raise
    except (StartConflict, FieldError) as error:
        message = f"the pods cannot start: {error}"
        return _status_writes(owned, "cannot start", finish_for(owned.workload, "FailedToStart", message, context.now))


def _following(owned: _Owned, context: JobContext) -> list[Write]:
    """Return the write that adapts the status of an admitted Workload to its pods."""
    job, workload = owned.job, owned.workload
    waiting = set_waiting_for_replacement(workload, absent_pods(job, owned.counts), context.now)
    if waiting is not None:
        return _status_writes(owned, "await replacements", waiting)
    ready = set_pods_ready(workload, context.now, ready=are_pods_ready(job))
    reclaimable = set_reclaimable_pods(workload, reclaimable_pods(job, owned.counts))
    return _status_writes(owned, "follow the pods", ready, reclaimable)


def _stops(job: PlainPods, reason: str, message: str, key: str, context: JobContext) -> list[Write]:
    started = (pod for pod in job.pods if not pod.is_held and not pod.is_terminated and pod.deleted_at is None)
    return [stop_pod(pod, reason, message, key, context.now) for pod in started]


def _releases(pods: Iterable[GroupPod], key: str) -> list[Write]:
    return [release_pod(pod, key) for pod in pods if pod.has_finalizer]


def _needs_no_accounting(job: PlainPods, pod: GroupPod) -> bool:
    """Return whether a pod of a job without a Workload may be released."""
    if job.is_serving:
        return pod.is_gone
    return not pod.counts or (pod.deleted_at is not None and (pod.is_terminated or not job.is_group))


def _released_pods(job: PlainPods, counts: Mapping[str, int]) -> Iterable[GroupPod]:
    """Return the pods to release.

    The pods of a serving group's replica have fixed names, so a replacement can only be created once the old pod is
    gone.
    """
    if not job.is_group:
        return job.pods if _is_deleted_pod(job) else ()
    return [pod for pod in job.pods if pod.is_gone] if job.is_serving else replaced_pods(job, counts)


def _is_deleted_pod(job: PlainPods) -> bool:
    """Return whether the job is a single pod that is deleted."""
    return not job.is_group and job.pods[0].deleted_at is not None


def _has_other_roles(owned: _Owned) -> bool:
    """Return whether all pods of a group exist and form pod sets that differ from those of its Workload."""
    job = owned.job
    is_whole = job.is_group and not job.is_fast and len(job.needed) == job.total
    return is_whole and role_counts(job, job.needed) != owned.counts


def _status_writes(owned: _Owned, purpose: str, *patches: Json | None) -> list[Write]:
    write = patch_status(owned.workload, owned.key, purpose, *patches)
    return [] if write is None else [write]

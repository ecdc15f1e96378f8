"""One synchronisation of a Job: it computes the necessary writes from the Job, its pods and the time.

Source: pkg/controller/job/job_controller.go (syncJob, manageJob, trackJobStatusAndRemoveFinalizers) of Kubernetes 1.36,
with default feature gates. There is one deviation: while the creation of pods is backed off, the status contains the
number of active pods. Upstream's manageJob returns 0 there, which the API server rejects while pods are ready.

Pods are counted exactly once, although the controller can end between any two writes:

1. The interim status names ended pods by UID in uncountedTerminatedPods, or by index in completedIndexes.
2. The finalizer of these pods is removed. Until then, the pods exist.
3. The final status moves the UIDs into the counters.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.jobcontroller.backoff import BackoffRecord, format_time, parse_time
from zonewise_sandbox.jobcontroller.index_tracking import IndexState, track_indexes
from zonewise_sandbox.jobcontroller.indexes import format_indexes
from zonewise_sandbox.jobcontroller.pod_management import ManagedPods, manage_pods
from zonewise_sandbox.jobcontroller.policies import judge_failure, success_message
from zonewise_sandbox.jobcontroller.types import is_failed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_sandbox.jobcontroller.types import Job, JobPod, Object


class JobSync(NamedTuple):
    """The writes that a Job needs, in this order."""

    create: Sequence[Object]
    delete: Sequence[JobPod]
    uncount: bool
    """Whether the finalizers of the pods to delete are removed first, so that the pods do not count as failed."""
    interim: Object | None
    """The status before finalizers are removed; None if the Job already has it."""
    release: list[JobPod]
    """Pods whose finalizer is removed."""
    final: Object | None
    """The status after that; None if it is unchanged."""
    backoff: BackoffRecord
    """The record for the next synchronisation."""
    again_in: float | None = None
    """Seconds until the Job must be synchronised again even without an event."""


class _Finish(NamedTuple):
    """How a Job ends."""

    kind: str
    """FailureTarget, Failed or SuccessCriteriaMet."""
    reason: str
    message: str


def sync_job(job: Job, pods: Sequence[JobPod], record: BackoffRecord, now: float) -> JobSync:
    """Return the writes for an unfinished Job, with all pods that it controls; `now` is in seconds since 1970."""
    return _Synchronisation(job, pods, record, now).run()


class _Synchronisation:
    def __init__(self, job: Job, pods: Sequence[JobPod], record: BackoffRecord, now: float) -> None:
        self._job, self._spec = job, job.spec
        self._now = now
        self._pods = sorted(pods, key=lambda pod: (-1 if pod.index is None else pod.index, pod.metadata.name))
        self._active = [pod for pod in self._pods if pod.is_active]
        self._status: Object = copy.deepcopy(job.status)
        uncounted: Object = self._status.get("uncountedTerminatedPods") or {}
        self._uncounted: dict[str, list[str]] = {
            "succeeded": list(uncounted.get("succeeded") or ()),
            "failed": list(uncounted.get("failed") or ()),
        }
        succeeded = [pod for pod in self._uncounted_pods("succeeded") if pod.status.phase == "Succeeded"]
        failed = [pod for pod in self._uncounted_pods("failed") if is_failed(pod, self._spec)]
        counted = [pod for pod in failed if judge_failure(self._spec.pod_failure_policy, pod).counts]
        self._succeeded = self._count("succeeded") + len(succeeded) + len(self._uncounted["succeeded"])
        self._failed = self._count("failed") + len(counted) + len(self._uncounted["failed"])
        self._record = record.after(succeeded, failed)
        self._indexes = IndexState(set(), set(), {})

    def run(self) -> JobSync:
        if not self._status.get("startTime") and not self._spec.suspend:
            self._status["startTime"] = format_time(self._now)
        if self._spec.is_indexed:
            self._indexes = track_indexes(self._job, self._pods, self._active)
            self._succeeded = len(self._indexes.succeeded)
        finish = self._previous_finish() or self._failure()
        if finish is None and (message := success_message(self._spec, self._indexes.succeeded)):
            finish = _Finish("SuccessCriteriaMet", "SuccessPolicy", message)
        if finish is not None:
            managed = ManagedPods(delete=list(self._active), uncount=False)
        else:
            managed = self._manage()
            finish = self._completion(len(self._active) + len(managed.create) - len(managed.delete))
            if finish is None and self._job.metadata.deletion_timestamp is None:
                self._note_suspension()
        return self._track(managed, finish)

    # --- how it ends

    def _previous_finish(self) -> _Finish | None:
        for kind, final in (("SuccessCriteriaMet", "SuccessCriteriaMet"), ("FailureTarget", "Failed")):
            condition = self._job.condition(kind)
            if condition is not None:
                return _Finish(final, condition.get("reason", ""), condition.get("message", ""))
        return None

    def _failure(self) -> _Finish | None:
        for pod in self._pods:
            if is_failed(pod, self._spec):
                message = judge_failure(self._spec.pod_failure_policy, pod).message
                if message:
                    return _Finish("FailureTarget", "PodFailurePolicy", message)
        if self._failed > self._spec.backoff_limit or self._restarts_exceed():
            return _failure("BackoffLimitExceeded", "Job has reached the specified backoff limit")
        if (self._deadline_in() or 1.0) <= 0:
            return _failure("DeadlineExceeded", "Job was active longer than specified deadline")
        limit, failed = self._spec.max_failed_indexes, len(self._indexes.failed)
        if limit is not None and failed > limit:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return _failure("MaxFailedIndexesExceeded", message)
        if failed and failed + len(self._indexes.succeeded) >= (self._spec.completions or 0):
            return _failure("FailedIndexes", "Job has failed indexes")
        return None

    def _restarts_exceed(self) -> bool:
        """Return whether containers that restart in place have used up the backoffLimit (pastBackoffLimitOnFailure)."""
        if self._spec.template["spec"].get("restartPolicy") != "OnFailure":
            return False
        restarts = sum(
            container.restart_count
            for pod in self._pods
            if pod.status.phase in {"Running", "Pending"}
            for container in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        )
        return restarts >= max(self._spec.backoff_limit, 1)

    def _deadline_in(self) -> float | None:
        """Return the seconds until activeDeadlineSeconds expires; None if no deadline applies now."""
        seconds, start = self._spec.active_deadline_seconds, self._status.get("startTime")
        if seconds is None or self._spec.suspend or start is None:
            return None
        return parse_time(start) + seconds - self._now or -1e-9

    def _completion(self, active: int) -> _Finish | None:
        needed = self._spec.completions
        if active or self._succeeded < (1 if needed is None else needed):
            return None
        return _Finish("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")

    # --- pods and suspension

    def _manage(self) -> ManagedPods:
        if self._job.metadata.deletion_timestamp is not None:
            return ManagedPods()
        wait = self._record.remaining(self._now)
        return manage_pods(self._job, self._pods, self._succeeded, self._indexes, wait, self._now)

    def _note_suspension(self) -> None:
        if self._spec.suspend:
            if self._set_condition("Suspended", "True", "JobSuspended", "Job suspended"):
                self._status.pop("startTime", None)  # MutableSchedulingDirectivesForSuspendedJobs, enabled in 1.36
        elif self._set_condition("Suspended", "False", "JobResumed", "Job resumed"):
            self._status["startTime"] = format_time(self._now)

    # --- status

    def _track(self, managed: ManagedPods, finish: _Finish | None) -> JobSync:
        ready = sum(pod.is_ready for pod in self._active)
        active = len(self._active) + len(managed.create) - len(managed.delete)
        terminating = sum(pod.is_terminating for pod in self._pods) + len(managed.delete)
        self._set_count("active", active)
        self._status["ready"] = ready - sum(pod.is_ready for pod in managed.delete)
        self._status["terminating"] = terminating
        uncounting = {pod.metadata.uid for pod in managed.delete} if managed.uncount else set[str]()
        tracked = [pod for pod in self._pods if pod.is_tracked and pod.metadata.uid not in uncounting]
        self._count_released({pod.metadata.uid for pod in tracked})
        release = [pod for pod in tracked if self._is_releasable(pod, finish)]
        for pod in release:
            self._note_ended(pod, finish)
        self._note_indexes()
        if finish is not None and finish.kind != "Failed":
            self._set_condition(finish.kind, "True", finish.reason, finish.message)
        interim = self._rendered()
        self._count_released({pod.metadata.uid for pod in tracked} - {pod.metadata.uid for pod in release})
        if finish is not None and not terminating:
            self._enact(finish)
        final = self._rendered()
        return JobSync(
            managed.create,
            managed.delete,
            managed.uncount,
            interim if interim != self._job.status else None,
            release,
            final if final != interim else None,
            self._record,
            _soonest(managed.again_in, self._deadline_in()),
        )

    def _is_releasable(self, pod: JobPod, finish: _Finish | None) -> bool:
        """Return whether a pod may lose its finalizer (canRemoveFinalizer)."""
        if self._job.metadata.deletion_timestamp or finish is not None or pod.status.phase == "Succeeded":
            return True
        return is_failed(pod, self._spec) and pod.metadata.uid not in self._indexes.delayed_uids

    def _note_ended(self, pod: JobPod, finish: _Finish | None) -> None:
        """Record the UID of a pod that is about to be released, if it counts."""
        uid, succeeded = pod.metadata.uid, pod.status.phase == "Succeeded"
        if uid in self._uncounted["failed"] or uid in self._uncounted["succeeded"]:
            return
        if succeeded:
            if not self._spec.is_indexed:
                self._uncounted["succeeded"].append(uid)
            return
        fails = is_failed(pod, self._spec) or (finish is not None and finish.kind != "SuccessCriteriaMet")
        if fails and self._has_valid_index(pod) and judge_failure(self._spec.pod_failure_policy, pod).counts:
            self._uncounted["failed"].append(uid)

    def _note_indexes(self) -> None:
        if self._spec.is_indexed:
            self._set_count("succeeded", len(self._indexes.succeeded))
            self._status["completedIndexes"] = format_indexes(self._indexes.succeeded)
        if self._spec.backoff_limit_per_index is not None:
            self._status["failedIndexes"] = format_indexes(self._indexes.failed)

    def _count_released(self, tracked: set[str]) -> None:
        """Move the UIDs of pods without the finalizer into the counters (cleanUncountedPodsWithoutFinalizers)."""
        for field, uids in self._uncounted.items():
            remaining = [uid for uid in uids if uid in tracked]
            self._set_count(field, self._count(field) + len(uids) - len(remaining))
            self._uncounted[field] = remaining

    def _enact(self, finish: _Finish) -> None:
        kind = "Complete" if finish.kind == "SuccessCriteriaMet" else "Failed"
        self._set_condition(kind, "True", finish.reason, finish.message)
        if kind == "Complete":
            self._status["completionTime"] = format_time(self._now)

    def _set_condition(self, kind: str, status: str, reason: str, message: str) -> bool:
        """Set a condition; return whether it changed. An absent one is not set to False (ensureJobConditionStatus)."""
        conditions: list[Object] = self._status.setdefault("conditions", [])
        old = next((item for item in conditions if item["type"] == kind), None)
        if old is None and status == "False":
            return False
        if old is not None and (old["status"], old.get("reason"), old.get("message")) == (status, reason, message):
            return False
        now = format_time(self._now)
        new = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
        new |= {"reason": reason, "message": message}
        self._status["conditions"] = [new if item is old else item for item in conditions]
        if old is None:
            self._status["conditions"].append(new)
        return True

    def _rendered(self) -> Object:
        """Return the status as the API server stores it, without empty fields."""
        uncounted = {field: list(uids) for field, uids in self._uncounted.items() if uids}
        status = {**self._status, "uncountedTerminatedPods": uncounted}
        if self._job.status.get("uncountedTerminatedPods") is None and not uncounted and not self._status:
            del status["uncountedTerminatedPods"]
        return {name: value for name, value in status.items() if value not in ("", []) and value is not None}

    def _uncounted_pods(self, field: str) -> list[JobPod]:
        """Return the tracked pods that the status does not list yet."""
        uids = self._uncounted[field]
        return [
            pod for pod in self._pods
            if pod.is_tracked and pod.metadata.uid not in uids and self._has_valid_index(pod)
        ]  # fmt: skip

    def _has_valid_index(self, pod: JobPod) -> bool:
        if not self._spec.is_indexed:
            return True
        return pod.index is not None and pod.index < (self._spec.completions or 0)

    def _count(self, field: str) -> int:
        value: int | None = self._status.get(field)
        return value or 0

    def _set_count(self, field: str, value: int) -> None:
        if value:
            self._status[field] = value
        else:
            self._status.pop(field, None)


def _failure(reason: str, message: str) -> _Finish:
    return _Finish("FailureTarget", reason, message)


def _soonest(*times: float | None) -> float | None:
    return min((time for time in times if time is not None and time > 0), default=None)

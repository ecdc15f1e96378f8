"""The controller: caches of Jobs and pods, workers that synchronise Jobs, and the writes that these wait for.

A Job is not synchronised until the caches contain the writes of its last synchronisation (ControllerExpectations and
the consistency store upstream). New objects are matched by their resource version, deleted and released pods by UID.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Conflict, KubeError, NotFound
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import JOBS, PODS
from zonewise_sandbox.jobcontroller.backoff import BackoffRecord, parse_time
from zonewise_sandbox.jobcontroller.job_pods import JobPods
from zonewise_sandbox.jobcontroller.sync import sync_job
from zonewise_sandbox.jobcontroller.types import FINALIZER, MANAGER, Job, JobPod
from zonewise_sandbox.workqueue import Controller, Key

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.config import Config
    from zonewise_sandbox.jobcontroller.sync import JobSync
    from zonewise_sandbox.jobcontroller.types import Object

log = logging.getLogger(__name__)

_RETRY = 0.2
"""Seconds until a Job is synchronised again if its writes failed."""
_OBSERVED_WITHIN = 30.0
"""Seconds within which the caches must show a write; upstream waits for 5 minutes."""
_WORKERS = 4
_JOB = msgspec.json.Decoder(Job)
_POD = msgspec.json.Decoder(JobPod)


class _Written:
    """The writes of one synchronisation, which the caches must show before the next one."""

    def __init__(self, until: float) -> None:
        self.until = until
        """When the writes count as observed in any case, since a listing can skip states (ExpectationsTimeout)."""
        self.job_version = 0
        self.pod_version = 0
        self.deleted: set[str] = set()
        self.released: set[str] = set()

    def are_observed(self, job: Job, pods: list[JobPod], pod_version: int) -> bool:
        """Return whether a Job and its pods are newer than these writes."""
        if int(job.metadata.resource_version) < self.job_version or pod_version < self.pod_version:
            return False
        uids = ((pod, pod.metadata.uid) for pod in pods)
        return not any(
            (uid in self.deleted and pod.is_active) or (uid in self.released and pod.is_tracked) for pod, uid in uids
        )


class JobController(Controller):
    """Synchronises every Job of a cluster until it is closed."""

    def __init__(
        self,
        config: Config,
        *,
        clock: Callable[[], float] = time.time,
        speed: float = 1.0,
    ) -> None:
        """Create a controller from the API server and a clock in seconds since 1970.

        `speed` is the number of clock seconds per real second. Call wake() after a jump of the clock.
        """
        super().__init__(config, "job-controller", clock, _WORKERS, speed)
        self._pods = JobPods()
        self._records: dict[str, BackoffRecord] = {}
        self._written: dict[str, _Written] = {}
        self._job_cache: Reflector[Job] = Reflector(self._client, JOBS, _JOB.decode, self._job_changed)
        self._pod_cache: Reflector[JobPod] = Reflector(self._client, PODS, _POD.decode, self._pod_changed)

    @property
    def _caches(self) -> tuple[Reflector[Any], ...]:
        return self._pod_cache, self._job_cache

    # --- events

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new or old
        if job is not None:
            self._queue.add(job.key)

    def _pod_changed(self, old: JobPod | None, new: JobPod | None) -> None:
        for key in self._pods.record(old, new):
            self._queue.add(key)

    # --- synchronisation

    def _handle(self, key: Key) -> None:
        try:
            self._sync(key)
        except (Conflict, NotFound):
            self._queue.add_at(key, self._clock() + _RETRY * self._speed)
        except KubeError as error:
            log.warning("job %s/%s: %s", *key, error)
            self._queue.add_at(key, self._clock() + _RETRY * self._speed)

    def _sync(self, key: Key) -> None:
        job = self._job_cache.get(key[1], key[0])
        if job is not None and job.spec.managed_by != MANAGER:
            return
        self._release_orphans(key, job)
        if job is None:
            return
        uid, pods = job.metadata.uid, self._pods.pods_of(key, job.metadata.uid)
        if job.is_finished:
            self._records.pop(uid, None)
            self._written.pop(uid, None)
            self._expire(job)
            return
        written = self._written.get(uid)
        now = self._clock()
        if written and now < written.until and not written.are_observed(job, pods, self._pods.version):
            self._queue.add_at(key, written.until)
            return  # the missing events will add the Job again
        sync = sync_job(job, pods, self._records.get(uid, BackoffRecord()), now)
        self._execute(job, sync)
        self._records[uid] = sync.backoff
        if sync.again_in is not None:
            self._queue.add_at(key, now + sync.again_in)

    def _execute(self, job: Job, sync: JobSync) -> None:
        written = self._written[job.metadata.uid] = _Written(self._clock() + _OBSERVED_WITHIN * self._speed)
        for pod in sync.delete:
            if sync.uncount and pod.is_tracked:
                self._release(pod, written)
            self._delete(pod, written)
        for body in sync.create:
            created = self._client.create(PODS, body)
            written.pod_version = max(written.pod_version, int(created["metadata"]["resourceVersion"]))
        version, status = job.metadata.resource_version, job.status
        if sync.interim is not None:
            version, status = self._write_status(job, status, sync.interim, version), sync.interim
            written.job_version = int(version)
        for pod in sync.release:
            self._release(pod, written)
        if sync.final is not None:
            written.job_version = int(self._write_status(job, status, sync.final, version))

    def _write_status(self, job: Job, old: Object, new: Object, version: str) -> str:
        """Write the status if the Job has this resource version; return its next version."""
        removed: Object = {name: None for name in old if name not in new}
        if old.get("uncountedTerminatedPods"):
            removed["uncountedTerminatedPods"] = {"succeeded": None, "failed": None}
        merged = {**removed, **new}
        uncounted = {**removed.get("uncountedTerminatedPods", {}), **new.get("uncountedTerminatedPods", {})}
        if "uncountedTerminatedPods" in merged:
            merged["uncountedTerminatedPods"] = uncounted
        patch = {"metadata": {"resourceVersion": version}, "status": merged}
        namespace, name = job.key
        stored = self._client.patch(JOBS, name, patch, kind=PatchKind.MERGE, namespace=namespace, subresource="status")
        return stored["metadata"]["resourceVersion"]

    def _delete(self, pod: JobPod, written: _Written) -> None:
        namespace, name = pod.key
        with contextlib.suppress(NotFound, Conflict):
            self._client.delete(PODS, name, namespace=namespace, uid=pod.metadata.uid, propagation="Background")
        written.deleted.add(pod.metadata.uid)

    def _release(self, pod: JobPod, written: _Written | None = None) -> None:
        """Remove the finalizer of a pod, if it is still the same pod."""
        namespace, name = pod.key
        patch = {"metadata": {"uid": pod.metadata.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
        with contextlib.suppress(NotFound, Conflict):
            self._client.patch(PODS, name, patch, kind=PatchKind.STRATEGIC, namespace=namespace)
        if written is not None:
            written.released.add(pod.metadata.uid)

    def _release_orphans(self, key: Key, job: Job | None) -> None:
        """Release the pods of Jobs that no longer exist or have finished (handleSingleOrphanPod)."""
        for uid in self._pods.job_uids(key):
            if job is None or job.metadata.uid != uid or job.is_finished:
                for pod in self._pods.pods_of(key, uid):
                    if pod.is_tracked:
                        self._release(pod)

    def _expire(self, job: Job) -> None:
        """Delete a finished Job after ttlSecondsAfterFinished (pkg/controller/ttlafterfinished)."""
        end = job.condition("Complete") or job.condition("Failed")
        if job.spec.ttl_seconds_after_finished is None or end is None or job.metadata.deletion_timestamp is not None:
            return
        due = parse_time(end["lastTransitionTime"]) + job.spec.ttl_seconds_after_finished
        if due > self._clock():
            self._queue.add_at(job.key, due)
            return
        namespace, name = job.key
        self._client.delete(JOBS, name, namespace=namespace, uid=job.metadata.uid, propagation="Foreground")

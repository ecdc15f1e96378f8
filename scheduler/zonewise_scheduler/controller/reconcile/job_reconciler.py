"""The next writes of changed jobs. A job is an object of any kind except Workloads and pods."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import JOBS, LEADER_WORKER_SETS, STATEFUL_SETS
from zonewise_scheduler.controller.cluster_cache import (
    WorkloadIndex,
    observed_labels,
    owner_uid,
    uid_of,
    workload_owner_uid,
)
from zonewise_scheduler.controller.jobs.interface import ParentAdapter
from zonewise_scheduler.controller.jobs.managed_owner import has_queued_owner
from zonewise_scheduler.controller.jobs.registry import adapter_of_job, group_kind
from zonewise_scheduler.controller.reconcile.dependent_jobs import DependencyProgress, DependentJobs
from zonewise_scheduler.controller.reconcile.job import JobContext, JobState, next_job_write
from zonewise_scheduler.controller.reconcile.plain_pods_state import surplus_workloads
from zonewise_scheduler.controller.reverse_index import ReverseIndex
from zonewise_scheduler.controller.workloads.prebuilt import prebuilt_workload_key
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json, ObjectKey, Write

log = logging.getLogger(__name__)


class JobReconciler:
    """Finds the jobs that have changed, and yields their next writes."""

    def __init__(
        self,
        adapters: Mapping[tuple[str, str], JobAdapter],
        find: Callable[[ObjectKey], Json | None],
        workloads: WorkloadIndex,
        active_pods: Callable[[str], int],
        manages: Callable[[str], bool],
    ) -> None:
        """Set the adapters by API group and kind.

        `find` returns an observed object; `active_pods` returns the number of active pods of a Workload. `manages`
        returns whether the jobs of a namespace are queued.
        """
        self.invalid: dict[ObjectKey, str] = {}
        """Jobs that cannot be read, each with the field and its problem."""
        self.by_uid: dict[str, ObjectKey] = {}
        """Existing jobs by UID."""
        self._adapters = adapters
        self._find = find
        self._workloads = workloads
        self._active_pods = active_pods
        self._manages = manages
        self._unmanaged: set[ObjectKey] = set()
        """Jobs that are not queued because of their namespace."""
        self._dirty: dict[ObjectKey, None] = {}
        self._dependents = DependentJobs(find)
        self._prebuilt: ReverseIndex[ObjectKey, str] = ReverseIndex()
        """The Workload that each job names, if it names one."""
        self._owned: ReverseIndex[ObjectKey, str] = ReverseIndex()
        """The UID of the owner of each job that has an owner."""
        self._writers: dict[ObjectKey, ObjectKey] = {}
        """The job that last had a write for an object, by key of that object. Another write may still be pending."""

    def change(self, key: ObjectKey, old: Json | None, new: Json | None) -> None:
        """Record a job before and after a change; None: it did not exist, or was deleted."""
        if new is None:
            self.invalid.pop(key, None)
            self._unmanaged.discard(key)
        if old is not None:
            self.by_uid.pop(uid_of(old), None)
        if new is not None:
            self.by_uid[uid_of(new)] = key
        if key.resource == JOBS:
            self._dirty.update(dict.fromkeys(self._dependents.change(key, old, new)))
        prebuilt = "" if new is None else prebuilt_workload_key(new)
        self._prebuilt.change(key, (prebuilt,) if prebuilt else ())
        self._mark_parent(new or old)
        self._mark_descendants(key, old, new)

    @property
    def waiting_for_jobs(self) -> Mapping[ObjectKey, str]:
        """Return the Jobs that are not queued because they wait for other Jobs, each with the reason."""
        return self._dependents.waiting

    def find_by_uid(self, uid: str) -> Json | None:
        """Return the observed job with a UID; None: there is none. Several threads call it."""
        key = self.by_uid.get(uid)
        return None if key is None else self._find(key)

    def mark(self, key: ObjectKey) -> None:
        """Check a job for next writes."""
        self._dirty[key] = None

    def mark_class(self, names: Collection[str]) -> None:
        """Check the jobs that name one of these WorkloadPriorityClasses for next writes."""
        for key in self.by_uid.values() if names else ():
            job = self._find(key)
            if job is not None and observed_labels(job).get(PRIORITY_CLASS_LABEL) in names:
                self._dirty[key] = None

    def mark_unmanaged(self) -> None:
        """Check the jobs that were not queued because of their namespace, after namespaces have changed."""
        self._dirty.update(dict.fromkeys(self._unmanaged))

    def mark_all(self) -> None:
        """Check all jobs for next writes."""
        self._dirty.update(dict.fromkeys(self.by_uid.values()))

    def mark_writer(self, key: ObjectKey) -> None:
        """Check the job that had a write for an object, since that object may be written again."""
        if (job := self._writers.pop(key, None)) is not None:
            self._dirty[job] = None

    def forget_marks(self) -> None:
        """Drop pending checks, because this replica does not lead."""
        self._dirty.clear()

    def mark_owner(self, workload: Json) -> None:
        """Check the job that owns a Workload, and the jobs that name it."""
        if (job := self.by_uid.get(workload_owner_uid(workload))) is not None:
            self._dirty[job] = None
        metadata: Json = workload["metadata"]
        self._dirty.update(dict.fromkeys(self._prebuilt.sources(f"{metadata['namespace']}/{metadata['name']}")))

    def writes(self, context: JobContext) -> Iterator[Write]:
        """Yield the next writes of jobs that have changed."""
        dirty, self._dirty = self._dirty, {}
        for key in dirty:
            job = self._find(key)
            if job is None:
                continue
            self.invalid.pop(key, None)
            self._dependents.waiting.pop(key, None)
            try:
                for write in self._writes_of(key, job, context):
                    self._writers[write.key] = key
                    yield write
            except FieldError as error:
                log.warning("object=%s invalid: %s", key, error)
                self.invalid[key] = str(error)
            except Exception as error:  # a defect that one job reveals must not block the writes of others
                log.exception("object=%s the next write cannot be computed", key)
                self.invalid[key] = repr(error)

    def _writes_of(self, key: ObjectKey, job: Json, context: JobContext) -> list[Write]:
        workloads = self._workloads.owned_by(uid_of(job))
        if not workloads and not self._manages(key.namespace):
            self._unmanaged.add(key)
            return []
        self._unmanaged.discard(key)
        if key.resource in {LEADER_WORKER_SETS, STATEFUL_SETS}:
            return surplus_workloads(key.resource, job, workloads, self._active_pods)
        adapter = self._adapters.get(group_kind(key.resource))
        if adapter is None or has_queued_owner(job, self._adapters, self.find_by_uid):
            return []
        of_job = adapter_of_job(adapter, job, self._find)
        if of_job is None:
            return []
        pods = sum(map(self._active_pods, workloads))
        has_dependencies = key.resource == JOBS and not workloads
        dependencies = self._dependents.progress(key, job) if has_dependencies else DependencyProgress()
        prebuilt = self._workloads.by_key.get(prebuilt_workload_key(job))
        write = next_job_write(JobState(key, job, of_job, workloads, pods, dependencies, prebuilt), context)
        return [] if write is None else [write]

    def _mark_descendants(self, key: ObjectKey, old: Json | None, new: Json | None) -> None:
        """Check what a job owns, directly or not, if it is observed for the first time, or has another queue."""
        owner = "" if new is None else owner_uid(new)
        self._owned.change(key, (owner,) if owner else ())
        is_new = new is not None and (old is None or _queue_of(old) != _queue_of(new))
        owners, seen = [new] if is_new else [], {key}
        while owners:
            if (owning := owners.pop()) is not None:
                children = [child for child in self._owned.sources(uid_of(owning)) if child not in seen]
                seen.update(children)
                self._dirty.update(dict.fromkeys(children))
                owners += map(self._find, children)

    def _mark_parent(self, child: Json | None) -> None:
        """Check the job whose pods this object determines."""
        job = None if child is None else self.by_uid.get(owner_uid(child))
        if job is not None and isinstance(self._adapters.get(group_kind(job.resource)), ParentAdapter):
            self._dirty[job] = None


def _queue_of(job: Json) -> str:
    return str(observed_labels(job).get(QUEUE_LABEL) or "")

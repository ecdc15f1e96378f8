"""The next writes of changed jobs of plain pods: pod groups and single pods."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError
from zonewise_common.kube.resources import PODS
from zonewise_scheduler.controller.pods.plain_pod_index import PlainPodIndex
from zonewise_scheduler.controller.reconcile.plain_pods import awaited_pods, next_plain_writes
from zonewise_scheduler.controller.reconcile.plain_pods_state import plain_pods_state
from zonewise_scheduler.controller.types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_scheduler.controller.cluster_cache import WorkloadIndex
    from zonewise_scheduler.controller.reconcile.job import JobContext
    from zonewise_scheduler.controller.types import Json, Write

log = logging.getLogger(__name__)


class PlainPodsReconciler:
    """Finds the jobs of plain pods that have changed, and yields their next writes."""

    def __init__(self, find: Callable[[ObjectKey], Json | None], workloads: WorkloadIndex) -> None:
        """`find` returns an observed object."""
        self.index = PlainPodIndex()
        self.invalid: dict[ObjectKey, str] = {}
        """Groups and single pods that cannot be read, each with the field and its problem.

        A group without an object that describes it has the key of one of its pods.
        """
        self.waiting: dict[ObjectKey, str] = {}
        """Groups that are not queued because pods are missing, each with the reason; the keys are as above."""
        self._find = find
        self._workloads = workloads

    def mark_workload(self, key: ObjectKey, workload: Json | None) -> None:
        """Check the pods of a Workload for next writes; None: the Workload does not exist, and a group may need it."""
        references: list[Json] = [] if workload is None else workload["metadata"].get("ownerReferences") or []
        pods = [str(entry.get("name")) for entry in references if entry.get("kind") == "Pod"]
        self.index.mark_workload(key.namespace, key.name, pods)

    def forget(self, key: ObjectKey) -> None:
        """Drop the problem of a pod, or of the object that describes a group: it is checked again, or was deleted."""
        self.invalid.pop(key, None)
        self.waiting.pop(key, None)

    def writes(self, context: JobContext) -> Iterator[Write]:
        """Yield the next writes of jobs that have changed or are due."""
        for job, pods in self.index.take_dirty(context.now):
            keys = sorted(ObjectKey(PODS, job.namespace, pod["metadata"]["name"]) for pod in pods)
            key = job.owner or keys[0]
            for known in (key, *keys):
                self.forget(known)
            try:
                state = plain_pods_state(job, pods, self._find, self._workloads, self.index)
                yield from next_plain_writes(state, context)
                if reason := awaited_pods(state):
                    self.waiting[key] = reason
            except FieldError as error:
                log.warning("pods=%s/%s invalid: %s", job.namespace, job.group or job.pod, error)
                self.invalid[key] = str(error)
            except Exception as error:  # a defect that one job reveals must not block the writes of others
                log.exception("pods=%s/%s the next write cannot be computed", job.namespace, job.group or job.pod)
                self.invalid[key] = repr(error)

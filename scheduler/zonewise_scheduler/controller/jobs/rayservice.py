"""RayServices of ray.io/v1 (pkg/controller/jobs/rayservice/rayservice_controller.go). A RayService never ends.

The suspend field is that of its cluster, as in Kueue. A service may have two clusters while the operator replaces one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import Resource
from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.ray_templates import RAY_VERSION, queued_cluster_templates
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json

_CLUSTER: FieldPath = ("spec", "rayClusterConfig")
_CLUSTER_STATUSES = ("activeServiceStatus", "pendingServiceStatus")
_INACTIVE = frozenset({"", "suspended"})
"""States of a cluster that is not ready yet or has no pods. Its observed pods hold its quota in any case."""


class RayService(SuspendableJob):
    """The adapter of RayServices. The pod sets are those of one cluster."""

    suspend_path: FieldPath = (*_CLUSTER, "suspend")

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the templates of the head and the worker groups."""
        return queued_cluster_templates(job, _CLUSTER)

    def is_active(self, job: Json) -> bool:
        """Return whether the service or one of its clusters is ready, or such a cluster is not suspended yet."""
        return self.pods_ready(job) or not read_strictly(job, _cluster_states) <= _INACTIVE

    def pods_ready(self, job: Json) -> bool:
        """Return whether the service serves requests."""
        return condition_message(job, "Ready") is not None


ADAPTER: JobAdapter = RayService(Resource("ray.io", RAY_VERSION, "rayservices", "RayService", namespaced=True))


def _cluster_states(reader: FieldReader) -> frozenset[str]:
    status = reader.child("status")
    return frozenset(status.child(name).child("rayClusterStatus").text("state") for name in _CLUSTER_STATUSES)

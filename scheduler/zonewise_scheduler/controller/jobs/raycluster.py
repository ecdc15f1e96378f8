"""RayClusters of ray.io/v1 (pkg/controller/jobs/raycluster/raycluster_controller.go). A RayCluster never ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.kube.resources import Resource
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.jobs.ray_templates import RAY_VERSION, queued_cluster_templates
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json


class RayCluster(SuspendableJob):
    """The adapter of RayClusters. The head and each worker group are pod sets."""

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the templates of the head and the worker groups."""
        return queued_cluster_templates(job, ("spec",))

    def is_active(self, job: Json) -> bool:
        """Return whether pods may exist: the operator reports "suspended" once all are deleted.

        A cluster without a status was never started (ray-operator raycluster_controller.go calculateStatus). Kueue
        counts a cluster as active only while it is "ready", which frees its quota while pods still terminate.
        """
        return read_strictly(job, lambda reader: bool(reader.child("status").obj) and _state(reader) != "suspended")

    def pods_ready(self, job: Json) -> bool:
        """Return whether the state is "ready", which means that all pods run."""
        return read_strictly(job, lambda reader: _state(reader) == "ready")


ADAPTER: JobAdapter = RayCluster(Resource("ray.io", RAY_VERSION, "rayclusters", "RayCluster", namespaced=True))


def _state(reader: FieldReader) -> str:
    return reader.child("status").text("state")

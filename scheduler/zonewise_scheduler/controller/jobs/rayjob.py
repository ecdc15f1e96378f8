"""RayJobs of ray.io/v1 that create their own cluster (pkg/controller/jobs/rayjob/rayjob_controller.go).

By default, the pod of a separate Job submits the job to its cluster, and forms its own pod set. In SidecarMode, a
container of the head submits the job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader, object_in
from zonewise_common.kube.resources import Resource
from zonewise_scheduler.controller.jobs.interface import FinishedJob
from zonewise_scheduler.controller.jobs.job_fields import read_strictly
from zonewise_scheduler.controller.jobs.ray_templates import RAY_VERSION, queued_cluster_templates
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.types import Json

SUBMITTER = "submitter"
"""Name of the submitter's pod set."""

_ENDS = frozenset({"Complete", "Failed", "ValidationFailed"})
"""Statuses after which the operator does nothing more for a job (ray-operator rayjob_controller.go Reconcile)."""
_SUBMITTER_CONTAINER = "ray-job-submitter"
_SUBMITTER_RESOURCES = {
    "limits": {"cpu": "1", "memory": "1Gi"},
    "requests": {"cpu": "500m", "memory": "200Mi"},
}
"""Resources of the submitter's container if the job declares no template for it (ray-operator common/job.go
GetDefaultSubmitterContainer)."""


class RayJob(SuspendableJob):
    """The adapter of RayJobs: first the pod sets of the cluster, then that of the submitter."""

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the templates of the cluster and of the submitter.

        A job on an existing cluster is reported as a problem, because the pods cannot be admitted together with the
        job. So is a job that leaves its cluster behind, because the pods outlive the job.
        """
        spec = job.child("spec")
        if spec.pairs("clusterSelector"):
            spec.report("clusterSelector", "a queued job has a cluster of its own")
        elif not spec.has("rayClusterSpec"):
            spec.report("rayClusterSpec", "a queued job must declare its cluster")
        if not spec.flag("shutdownAfterJobFinishes", default=False):
            spec.report("shutdownAfterJobFinishes", "the cluster of a queued job must end with it")
        mode, cluster = spec.text("submissionMode", "K8sJobMode"), spec.child("rayClusterSpec")
        sidecars = [_submitter_container()] if mode == "SidecarMode" else []
        yield from queued_cluster_templates(job, ("spec", "rayClusterSpec"), sidecars)
        if mode == "K8sJobMode":
            yield JobTemplate(SUBMITTER, 1, _submitter_template(spec, cluster), ("spec", "submitterPodTemplate"))

    def is_active(self, job: Json) -> bool:
        """Return whether the job is neither new nor suspended."""
        return read_strictly(job, lambda reader: _deployment_status(reader) not in {"", "Suspended"})

    def pods_ready(self, job: Json) -> bool:
        """Return whether the cluster is ready."""
        return read_strictly(
            job, lambda reader: reader.child("status").child("rayClusterStatus").text("state") == "ready"
        )

    def finished(self, job: Json) -> FinishedJob | None:
        """Return how the job ended: its deployment was completed, has failed, or the operator rejected the job."""

        def read(reader: FieldReader) -> FinishedJob | None:
            if _deployment_status(reader) not in _ENDS:
                return None
            status = reader.child("status")
            return FinishedJob(status.text("jobStatus") == "SUCCEEDED", status.text("message"))

        return read_strictly(job, read)


ADAPTER: JobAdapter = RayJob(Resource("ray.io", RAY_VERSION, "rayjobs", "RayJob", namespaced=True))


def uses_existing_cluster(job: Json) -> bool:
    """Return whether a RayJob submits to a cluster that exists. KubeRay cannot suspend it. Raises FieldError."""
    return bool(object_in(object_in(job, "spec", ""), "clusterSelector", "spec."))


def _deployment_status(reader: FieldReader) -> str:
    return reader.child("status").text("jobDeploymentStatus")


def _submitter_template(spec: FieldReader, cluster: FieldReader) -> FieldReader:
    """Return the submitter's template: from the job, or else the operator's default with the image of the head."""
    if spec.has("submitterPodTemplate"):
        return spec.child("submitterPodTemplate")
    head = cluster.child("headGroupSpec").child("template").child("spec")
    image = next((container.text("image") for container in head.children("containers")), "")
    template = {"spec": {"containers": [{**_submitter_container(), "image": image}], "restartPolicy": "Never"}}
    return FieldReader(template, f"{spec.path}submitterPodTemplate.", spec.problems)


def _submitter_container() -> Json:
    return {"name": _SUBMITTER_CONTAINER, "resources": _SUBMITTER_RESOURCES}

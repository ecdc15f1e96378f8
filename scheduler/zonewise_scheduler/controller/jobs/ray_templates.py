"""The pod templates of a Ray cluster within a RayCluster or a RayJob (pkg/controller/jobs/raycluster/common.go)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json

RAY_VERSION = "v1"
HEAD = "head"
"""Name of the head group's pod set."""
_FAULT_TOLERANCE = "ray.io/ft-enabled"
_CLEANUP_REQUESTS = {"cpu": "200m", "memory": "256Mi"}
"""Requests of the Job that cleans Redis up (ray-operator raycluster_controller.go buildRedisCleanupJob)."""


def queued_cluster_templates(
    job: FieldReader, path: FieldPath, head_containers: Sequence[Json] = ()
) -> Iterator[JobTemplate]:
    """Yield the templates of the cluster at a path in a job.

    With fault tolerance, a Job of the operator cleans Redis up after the cluster. The head accounts for that Job.
    """
    spec = job
    for name in path:
        spec = spec.child(str(name))
    is_tolerant = job.child("metadata").pairs("annotations").get(_FAULT_TOLERANCE, "").lower() == "true"
    cleans_up = is_tolerant or spec.has("gcsFaultToleranceOptions")
    head, *groups = ray_cluster_templates(spec, path, head_containers)
    yield head._replace(least_requests=_CLEANUP_REQUESTS) if cleans_up else head
    yield from groups


def ray_cluster_templates(
    spec: FieldReader, path: FieldPath, head_containers: Sequence[Json] = ()
) -> Iterator[JobTemplate]:
    """Yield the templates of the head and of each worker group in the spec of a cluster.

    `path`: path of the spec in the job. `head_containers`: containers that the operator adds to the head. An
    autoscaling cluster is reported as a problem, because it would run more pods than are admitted.
    """
    if spec.flag("enableInTreeAutoscaling", default=False):
        spec.report("enableInTreeAutoscaling", "a queued job has a fixed number of pods")
    head = spec.child("headGroupSpec").child("template")
    yield JobTemplate(HEAD, 1, head, (*path, "headGroupSpec", "template"), added_containers=head_containers)
    for i, group in enumerate(spec.children("workerGroupSpecs")):
        if group.text("groupName") == HEAD:
            group.report("groupName", "is the name of the head group")
        replicas = group.int_in_range("replicas", 1, MAX_PODS, minimum=0)
        hosts = group.int_in_range("numOfHosts", 1, MAX_PODS, minimum=0)
        yield JobTemplate(
            group.required_name("groupName").lower(),
            replicas * max(1, hosts),
            group.child("template"),
            (*path, "workerGroupSpecs", i, "template"),
        )

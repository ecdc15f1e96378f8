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

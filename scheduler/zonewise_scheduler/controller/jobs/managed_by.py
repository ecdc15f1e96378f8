"""The field managedBy of jobs (KEP-4368). A job that MultiKueue manages runs on another cluster, which is unsupported.

The job's own controller ignores such a job, so it would hold quota without ever having a pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldError, object_in, string_in
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import MULTIKUEUE_CONTROLLER

if TYPE_CHECKING:
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json


def check_managed_by(job: Json, suspend_path: FieldPath) -> None:
    """Raise FieldError if MultiKueue manages a job.

    `suspend_path`: path of the field that suspends the job. The field managedBy is in the same object, or above it.
    """
    owner, path = job, ""
    for name in map(str, suspend_path[:-1]):
        owner, path = object_in(owner, name, path), f"{path}{name}."
        if string_in(owner, "managedBy", path) == MULTIKUEUE_CONTROLLER:
            raise FieldError(f"{path}managedBy", "MultiKueue is not supported: remove the field")

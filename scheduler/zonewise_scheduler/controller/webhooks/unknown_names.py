"""Warnings about annotations of new jobs that nothing reads: misspelled ones, and those in a pod template.

The API server passes warnings on, and kubectl prints them (AdmissionResponse.warnings). An error would reject jobs that
a newer version accepts.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.jobs.job_deadline import SUBMITTED_DEADLINE_ANNOTATION
from zonewise_scheduler.controller.jobs.job_fields import annotations_of
from zonewise_scheduler.controller.webhooks.field_checks import annotation_field
from zonewise_scheduler.controller.webhooks.validate_job import pod_templates
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION, FULFILLED_ANNOTATION
from zonewise_scheduler.quota.api.submitted_by import SUBMITTED_BY_ANNOTATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.types import Json

_PREFIX = "zonewise.dev/"
_SIMULATED = "zonewise.dev/simulated-"
_DECLARED = (BEGIN_ANNOTATION, DEPENDENCY_ANNOTATION, MAX_RUN_ANNOTATION)
"""Annotations of a job that its user sets."""
_WRITTEN = frozenset({
    INJECTED_ANNOTATION, SUBMITTED_DEADLINE_ANNOTATION, FULFILLED_ANNOTATION, SUBMITTED_BY_ANNOTATION,
})  # fmt: skip
"""Annotations that the controller or its webhooks write: a copy of a job may have them."""
_MAX_WARNINGS = 5


def job_warnings(job: Json) -> list[str]:
    """Return warnings about a new job. Raises FieldError for metadata that is not an object."""
    return list(islice(_warnings(job), _MAX_WARNINGS))


def _warnings(job: Json) -> Iterator[str]:
    for name in annotations_of(job):
        if name.startswith(_PREFIX) and not name.startswith(_SIMULATED) and name not in {*_DECLARED, *_WRITTEN}:
            advice = "".join(f": did you mean {match}?" for match in get_close_matches(name, _DECLARED, 1, 0.8))
            yield f"{annotation_field(name[:100])} is unknown, so it has no effect{advice}"
    for path, template in pod_templates(job):
        annotations = object_in(object_in(template, "metadata", path), "annotations", f"{path}metadata.")
        for name in _DECLARED:
            if name in annotations:
                field = annotation_field(name, f"{path}metadata.")
                yield f"{field} has no effect in a pod template: set it in metadata.annotations"

"""The deadline that a start sets on a batch Job, and the submitted deadline, which a stop restores.

An annotation of the Job records the submitted activeDeadlineSeconds; it is empty if there was none. The deadline may
change at any time. It counts from the start time, which each start sets again (pkg/controller/job pastActiveDeadline).
"""

from __future__ import annotations

from math import ceil, inf
from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.job_fields import annotations_of, read_strictly

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Json

SUBMITTED_DEADLINE_ANNOTATION = "zonewise.dev/submitted-active-deadline-seconds"
_MAX_DIGITS = 19
"""Maximum number of digits of a 64-bit field."""


def deadline_patch(job: Json, walltime: float) -> Json:
    """Return the patch that makes a Job end at its walltime; empty if there is none or the Job ends by then anyway."""
    if walltime == inf:
        return {}
    submitted = submitted_deadline(job)
    if submitted is not None and submitted <= walltime:
        return {}
    text = "" if submitted is None else str(submitted)
    return {
        "metadata": {"annotations": {SUBMITTED_DEADLINE_ANNOTATION: text}},
        "spec": {"activeDeadlineSeconds": max(1, ceil(walltime))},
    }


def submitted_deadline(job: Json) -> int | None:
    """Return the activeDeadlineSeconds that the user declared; None: none. Raises FieldError for an invalid job."""
    annotations = annotations_of(job)
    text = annotations.get(SUBMITTED_DEADLINE_ANNOTATION)
    if text is None:
        return read_strictly(job, lambda reader: reader.child("spec").count("activeDeadlineSeconds"))
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) <= _MAX_DIGITS else None

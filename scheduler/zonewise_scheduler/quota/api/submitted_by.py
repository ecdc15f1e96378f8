"""The user who submitted a job, as `squeue -u` selects jobs.

Kubernetes objects do not name their creator. The mutating webhook knows it, and writes it into an annotation of the
job. The Workload of the job takes it over. A job without the annotation has an unknown user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_common.k8s.fields import FieldReader

SUBMITTED_BY_ANNOTATION = "zonewise.dev/submitted-by"
"""Annotation of a job and of its Workload with the user name that the API server authenticated."""


def read_submitter(metadata: FieldReader) -> str:
    """Return the user who submitted a job, from its metadata or from that of its Workload; "" if unknown."""
    return metadata.pairs("annotations").get(SUBMITTED_BY_ANNOTATION, "")

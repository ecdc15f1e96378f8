"""The user who submitted a job, as `squeue -u` selects jobs.

Kubernetes objects do not name their creator. The mutating webhook knows it, and writes it into an annotation of the
job. The Workload of the job takes it over. A job without the annotation has an unknown user.
"""

from __future__ import annotations

SUBMITTED_BY_ANNOTATION = "zonewise.dev/submitted-by"
"""Annotation of a job and of its Workload with the user name that the API server authenticated."""

"""Begin times: a job starts at this time at the earliest, like Slurm's `sbatch --begin`.

The annotation `zonewise.dev/begin` of a job declares it. With the annotation `zonewise.dev/advance-reservations` of its
ClusterQueue, the job holds a reservation from its submission on, as `scontrol create reservation` makes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.dates import parse_date
from zonewise_common.k8s.fields import FieldError, FieldReader

if TYPE_CHECKING:
    from collections.abc import Mapping

BEGIN_ANNOTATION = "zonewise.dev/begin"
"""Annotation with an RFC 3339 time."""
ADVANCE_ANNOTATION = "zonewise.dev/advance-reservations"
"""Annotation of a ClusterQueue: "true" if its jobs with a begin time hold a reservation before that time."""


def read_begin(annotations: Mapping[str, str]) -> float:
    """Return the begin time in seconds since 1970, 0 if it is absent; raise FieldError if it is invalid."""
    text = annotations.get(BEGIN_ANNOTATION)
    if text is None:
        return 0.0
    try:
        return parse_date(text)
    except ValueError as error:
        problem = f"not an RFC 3339 time: {text[:80]!r}"
        raise FieldError(f"metadata.annotations.{BEGIN_ANNOTATION}", problem) from error


def read_advance_reservations(obj: Mapping[str, Any], problems: list[str]) -> bool:
    """Return whether a ClusterQueue makes advance reservations; report only its own problems."""
    metadata = FieldReader(obj, "", []).child("metadata")  # the reader of the queue reports the other problems
    text = metadata.pairs("annotations").get(ADVANCE_ANNOTATION, "false")
    if text not in {"true", "false"}:
        problems.append(f'metadata.annotations.{ADVANCE_ANNOTATION}: not "true" or "false": {text[:80]!r}')
    return text == "true"

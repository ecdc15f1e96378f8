"""The rules for the status of batch/v1 Jobs: the changes that its writer may make.

Source: pkg/apis/batch/validation/validation.go (ValidateJobStatusUpdate, validateJobStatus) and
pkg/registry/batch/job/strategy.go (getStatusValidationOptions) of Kubernetes 1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.apiserver.json_values import list_in, object_in
from zonewise_sandbox.apiserver.status_errors import Cause, invalid_value, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_sandbox.apiserver.json_values import Object, Value


def condition_is(job: Object, kind: str, status: str = "True") -> bool:
    """Return whether a job has a condition with this status."""
    conditions = list_in(object_in(job, "status"), "conditions")
    return any(item.get("type") == kind and item.get("status") == status for item in conditions)


def validate_status_update(old: Object, new: Object) -> Iterator[Cause]:
    """Yield the errors of a status update (ValidateJobUpdateStatus with JobManagedBy)."""
    yield from _validate_conditions(old, new)
    yield from _validate_times(old, new)
    yield from _validate_counts(old, new)


def _validate_conditions(old: Object, new: Object) -> Iterator[Cause]:
    for kind in ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"):
        if condition_is(old, kind) and not condition_is(new, kind):
            yield _conditions(f"cannot disable the terminal {kind}=True condition")
    complete, failed = condition_is(new, "Complete"), condition_is(new, "Failed")
    met, target = condition_is(new, "SuccessCriteriaMet"), condition_is(new, "FailureTarget")
    if complete and not condition_is(old, "Complete"):
        if not met:
            yield _conditions("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
        if failed:
            yield _conditions("cannot set Complete=True and Failed=true conditions")
        if target:
            yield _conditions("cannot set Complete=True and FailureTarget=true conditions")
    if failed and not condition_is(old, "Failed") and not target:
        yield _conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    if met and failed:
        yield _conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and target:
        yield _conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")


def _validate_times(old: Object, new: Object) -> Iterator[Cause]:
    before, after = object_in(old, "status"), object_in(new, "status")
    start, end = after.get("startTime"), after.get("completionTime")
    resumes = condition_is(old, "Suspended") and condition_is(new, "Suspended", "False")
    if before.get("startTime") not in (None, start) and not new["spec"]["suspend"] and not resumes:
        yield invalid_value("status.startTime", start, "field is immutable for unsuspended job once set")
    has_run = not (new["spec"]["suspend"] and new["spec"].get("completions") == 0)
    if _is_finished(new) and start is None and has_run and (not _is_finished(old) or before.get("startTime")):
        yield required("status.startTime", "startTime is required for finished job")
    complete = condition_is(new, "Complete")
    if end is not None and not complete:
        detail = "cannot set completionTime when there is no Complete=True condition"
        yield invalid_value("status.completionTime", end, detail)
    if end is None and complete:
        yield required("status.completionTime", "completionTime is required for Complete jobs")
    if start and end and end < start:  # RFC 3339 in UTC: texts sort as times
        yield invalid_value("status.completionTime", end, "must be equal to or after `startTime`")
    if end and before.get("completionTime") not in (None, end):
        yield invalid_value("status.completionTime", end, "field is immutable")


def _validate_counts(old: Object, new: Object) -> Iterator[Cause]:
    before, after, spec = object_in(old, "status"), object_in(new, "status"), new["spec"]
    for field in ("active", "succeeded", "failed", "ready", "terminating"):
        if _count(after, field) < 0:
            yield invalid_value(f"status.{field}", after[field], "must be greater than or equal to 0")
    shrinks = spec["completionMode"] == "Indexed" and spec.get("completions") == spec["parallelism"]
    for field in ("failed",) if shrinks else ("failed", "succeeded"):
        if _count(after, field) < _count(before, field):
            yield invalid_value(f"status.{field}", after.get(field), f"cannot decrease the {field} counter")
    if "ready" in after and _count(after, "ready") > _count(after, "active"):
        yield invalid_value("status.ready", after["ready"], "cannot set more ready pods than active")
    if _is_finished(new):
        yield from _validate_remains(after)
    if after.get("completedIndexes") and spec["completionMode"] != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid_value("status.completedIndexes", after["completedIndexes"], detail)


def _validate_remains(status: Object) -> Iterator[Cause]:
    """Yield an error for each kind of pods that a finished job must not have."""
    for field in ("active", "terminating"):
        if _count(status, field):
            yield invalid_value(f"status.{field}", status[field], f"{field}>0 is invalid for finished job")
    if any(object_in(status, "uncountedTerminatedPods").values()):
        uncounted = status["uncountedTerminatedPods"]
        yield invalid_value("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")


def _count(status: Object, field: str) -> int:
    value: Value = status.get(field)
    return value or 0


def _is_finished(job: Object) -> bool:
    return condition_is(job, "Complete") or condition_is(job, "Failed")


def _conditions(detail: str) -> Cause:
    return Cause("FieldValueInvalid", "status.conditions", f"Invalid value: {detail}")

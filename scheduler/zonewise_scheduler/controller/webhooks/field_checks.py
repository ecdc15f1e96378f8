"""Checks of labels and annotations. Each yields a sentence with the field, its value, and advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise_common.k8s.dates import parse_date
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.quota.api.admission_gates import (
    ADMISSION_GATES_ANNOTATION,
    is_admission_gate,
    read_admission_gates,
)
from zonewise_scheduler.quota.api.begin_time import BEGIN_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import MAX_EXEC_TIME_LABEL, MAX_RUN_ANNOTATION, parse_walltime
from zonewise_scheduler.quota.api.job_dependency import DEPENDENCY_ANNOTATION, parse_dependency
from zonewise_scheduler.quota.api.job_priority import PRIORITY_CLASS_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.controller.types import Json

MAX_ANNOTATION_BYTES = 256 << 10
"""Maximum size of all annotations of an object (apimachinery pkg/api/validation/objectmeta.go
TotalAnnotationSizeLimitB)."""
MAX_WALLTIME = (1 << 31) - 1
"""Largest maximumExecutionTimeSeconds of a Workload in seconds, which is 68 years."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_MAX_NAME = 253
_WHOLE_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)


def problem(field: str, value: object, advice: str) -> str:
    """Return the text of one problem: field, value, and advice."""
    return f"{field}: {abbreviated(value)} {advice}"


def label_field(name: str) -> str:
    """Return the name of a label as messages show it."""
    return f"metadata.labels[{name}]"


def annotation_field(name: str, path: str = "metadata.") -> str:
    """Return the name of an annotation as messages show it."""
    return f"{path}annotations[{name}]"


def whole_number(value: object, maximum: int = MAX_WALLTIME) -> int | None:
    """Return the number in a string of digits; None if it is not a number, or exceeds the maximum."""
    if not isinstance(value, str) or not _WHOLE_NUMBER.fullmatch(value) or int(value) > maximum:
        return None
    return int(value)


def check_object_name(field: str, value: object) -> Iterator[str]:
    """Yield a problem if a value is not a valid object name (RFC 1123 subdomain)."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > _MAX_NAME:
        yield problem(field, value, "is not a valid object name: use lower-case letters, digits, '-' and '.'")


def check_class_remains(old: Json, new: Json) -> Iterator[str]:
    """Yield a problem if a priority class is removed; `old`, `new`: the labels. A Workload would keep the class."""
    before = old.get(PRIORITY_CLASS_LABEL)
    if before and not new.get(PRIORITY_CLASS_LABEL):
        field = label_field(PRIORITY_CLASS_LABEL)
        yield problem(field, before, "cannot be removed: name another WorkloadPriorityClass")


def check_walltime(labels: Json, annotations: Json) -> Iterator[str]:
    """Yield a problem if a declared walltime is not a duration above zero, or exceeds what a Workload allows."""
    value = labels.get(MAX_EXEC_TIME_LABEL)
    if value is not None and not whole_number(value):
        yield problem(
            label_field(MAX_EXEC_TIME_LABEL), value, f"must be a whole number of seconds from 1 to {MAX_WALLTIME}"
        )
    text = annotations.get(MAX_RUN_ANNOTATION)
    if text is None:
        return
    try:
        seconds = parse_walltime(str(text))
    except ValueError as error:
        yield problem(
            annotation_field(MAX_RUN_ANNOTATION), text, f"is {error}: use seconds, or a duration such as 90m or 1d12h"
        )
    else:
        if seconds > MAX_WALLTIME:
            yield problem(annotation_field(MAX_RUN_ANNOTATION), text, f"must be at most {MAX_WALLTIME} seconds")


def check_begin(annotations: Json) -> Iterator[str]:
    """Yield a problem if a begin time is not a time with an offset from UTC."""
    text = annotations.get(BEGIN_ANNOTATION)
    if text is None:
        return
    try:
        parse_date(str(text))
    except ValueError:
        yield problem(annotation_field(BEGIN_ANNOTATION), text, "is not an RFC 3339 time, such as 2026-12-24T08:00:00Z")


def check_dependency(annotations: Json) -> Iterator[str]:
    """Yield a problem if a dependency of a Job is not in sbatch's notation."""
    text = annotations.get(DEPENDENCY_ANNOTATION)
    if not text:
        return
    try:
        parse_dependency(str(text))
    except ValueError as error:
        yield f"{annotation_field(DEPENDENCY_ANNOTATION)}: {error}"


def check_admission_gates(annotations: Mapping[str, object], old: Mapping[str, object] | None) -> Iterator[str]:
    """Yield a problem if admission gates are invalid, or were added to an existing job; `old`: its annotations."""
    field = annotation_field(ADMISSION_GATES_ANNOTATION)
    gates = read_admission_gates(annotations)
    for i, gate in enumerate(gates):
        if not is_admission_gate(gate):
            yield problem(field, gate, "is not the name of a gate, such as example.com/budget")
        elif gate in gates[:i]:
            yield problem(field, gate, "is listed more than once")
        elif old is not None and gate not in read_admission_gates(old):
            yield problem(field, gate, "cannot be added to an existing job: gates can only be removed")


def check_annotation_sizes(annotations: Mapping[str, object], path: str) -> Iterator[str]:
    """Yield a problem if annotations are so large that the API server would reject pods with them."""
    size = sum(len(f"{name}{value}".encode()) for name, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        largest = max(annotations, key=lambda name: len(str(annotations[name])))
        share = len(str(annotations[largest]).encode())
        yield (
            f"{path}annotations: {size} bytes, {share} of them in {largest[:80]}: pods may have {MAX_ANNOTATION_BYTES} "
            "bytes of annotations; put large data into a ConfigMap"
        )

"""Strict reading of jobs: an invalid field is an error, and is not replaced by a default."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar, cast

from zonewise_common.k8s.fields import FieldError, FieldReader, object_in, string_in
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise_scheduler.controller.types import Json

T = TypeVar("T")


def read_strictly(obj: Mapping[str, object], read: Callable[[FieldReader], T]) -> T:
    """Return the result of a function that reads an object. Raises FieldError for the first problem that it reports."""
    problems: list[str] = []
    value = read(FieldReader(obj, "", problems))
    if problems:
        field, _, problem = problems[0].partition(": ")
        raise FieldError(field, problem)
    return value


def labels_of(obj: Json) -> Json:
    """Return the labels of an object. Raises FieldError for invalid metadata."""
    return object_in(object_in(obj, "metadata", ""), "labels", "metadata.")


def annotations_of(obj: Json) -> Json:
    """Return the annotations of an object. Raises FieldError for invalid metadata."""
    return object_in(object_in(obj, "metadata", ""), "annotations", "metadata.")


def queue_name(obj: Json) -> str:
    """Return the LocalQueue that an object specifies; "": none. Raises FieldError."""
    return string_in(labels_of(obj), QUEUE_LABEL, "metadata.labels.")


def annotation_of(job: Json, name: str) -> str:
    """Return an annotation of a job; "" if there is none. Raises FieldError for invalid metadata."""
    return string_in(annotations_of(job), name, "metadata.annotations.")


def parse_object(text: str) -> Json:
    """Return the JSON object in an annotation; empty if the annotation contains none."""
    try:
        parsed: object = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("Json", parsed) if isinstance(parsed, dict) else {}


def condition_message(job: Json, condition_type: str) -> str | None:
    """Return the message of a condition of the job; None if the condition is absent or not true."""
    for condition in read_strictly(job, lambda reader: list(reader.child("status").children("conditions"))):
        if condition.text("type") == condition_type and condition.text("status") == "True":
            return condition.text("message")
    return None

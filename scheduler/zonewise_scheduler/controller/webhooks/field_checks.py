"""Checks of labels and annotations. Each yields a sentence with the field, its value, and advice."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.quota.api.declared_walltime import MAX_EXEC_TIME_LABEL, MAX_RUN_ANNOTATION, parse_walltime
from zonewise_scheduler.quota.api.job_pod_sets import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    SLICE_CONSTRAINTS,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED_ANNOTATION,
)

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
_PREFIX = re.compile(rf"(?:{_NAME.pattern})/", re.ASCII)
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?", re.ASCII)
_MAX_LABEL_NAME = 63
_WHOLE_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_TRUE_OR_FALSE = ("true", "false")
_MODES = (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, UNCONSTRAINED_ANNOTATION)
_MAX_SLICE_LEVELS = 3


def problem(field: str, value: object, advice: str) -> str:
    """Return the text of one problem: field, value, and advice."""
    return f"{field}: {abbreviated(value)} {advice}"


def label_field(name: str, path: str = "metadata.") -> str:
    """Return the name of a label as messages show it."""
    return f"{path}labels[{name}]"


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


def check_topology_request(annotations: Json, path: str) -> Iterator[str]:
    """Yield the problems of a pod template's topology annotations.

    Source: pkg/controller/jobframework/tas_validation.go ValidateTASPodSetRequest.
    """
    modes = [name for name in _MODES if name in annotations]
    if len(modes) > 1:
        yield f"{path}annotations: {' and '.join(modes)} exclude each other: keep one of them"
    for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY, SLICE_TOPOLOGY):
        if name in annotations and not _is_label_name(annotations[name]):
            yield problem(annotation_field(name, path), annotations[name], "must be a level: the name of a node label")
    value = annotations.get(UNCONSTRAINED_ANNOTATION)
    if value is not None and value not in _TRUE_OR_FALSE:
        yield problem(annotation_field(UNCONSTRAINED_ANNOTATION, path), value, "must be true or false")
    yield from _check_slices(annotations, path)


def _check_slices(annotations: Json, path: str) -> Iterator[str]:
    size = annotations.get(SLICE_SIZE)
    if size is not None and not whole_number(size):
        yield problem(annotation_field(SLICE_SIZE, path), size, f"must be a number from 1 to {MAX_WALLTIME}")
    if (SLICE_TOPOLOGY in annotations) != (size is not None):
        yield f"{path}annotations: {SLICE_TOPOLOGY} and {SLICE_SIZE} must be set together: set both or neither"
    text = annotations.get(SLICE_CONSTRAINTS)
    if text is None:
        return
    if SLICE_TOPOLOGY in annotations or size is not None:
        yield f"{path}annotations: {SLICE_CONSTRAINTS} replaces {SLICE_TOPOLOGY}: keep one of them"
    if not _are_slice_constraints(text):
        yield problem(
            annotation_field(SLICE_CONSTRAINTS, path),
            text,
            'must be JSON with one to three levels, such as [{"topology": "example.com/rack", "size": 4}]',
        )


def _is_label_name(value: object) -> bool:
    if not isinstance(value, str):
        return False
    prefix = _PREFIX.match(value)
    name = value[prefix.end() :] if prefix else value
    return len(name) <= _MAX_LABEL_NAME and _LABEL_NAME.fullmatch(name) is not None


def _are_slice_constraints(text: object) -> bool:
    try:
        levels: list[Json] = json.loads(str(text))
        return (
            isinstance(levels, list)  # pyright: ignore[reportUnnecessaryIsInstance]
            and 0 < len(levels) <= _MAX_SLICE_LEVELS
            and all(
                _is_label_name(level["topology"]) and type(level["size"]) is int and level["size"] > 0
                for level in levels
            )
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        return False

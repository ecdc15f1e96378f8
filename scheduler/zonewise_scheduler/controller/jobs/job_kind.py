"""Kinds of jobs that the settings describe by the paths of suspend field, pod templates, counts and conditions.

    jobKinds:
    - group: example.com
      version: v1
      kind: Training
      plural: trainings
      suspend: /spec/suspend
      podSets:
      - name: driver
        template: /spec/driver
      - name: /spec/workers/*/name
        template: /spec/workers/*/template
        count: /spec/workers/*/replicas
      activePods: [/status/active]
      conditions: {ready: Running, succeeded: Complete, failed: Failed}

A JSON pointer (RFC 6901) names a field; `*` stands for each item of a list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

SETTING = "jobKinds"
EACH = "*"
MAX_COUNT = 1_000_000
"""Maximum number of pods of one template."""

_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_POD_SET_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")

FieldPattern = tuple[str, ...]
"""The parts of a pointer; EACH stands for each item of a list."""


class PodSetPattern(NamedTuple):
    """A pod template of a kind, or one for each item of a list."""

    name: str | FieldPattern
    template: FieldPattern
    pods: int | FieldPattern = 1
    pod_index_label: str = ""
    """Label that contains the index of a pod; "": the pods have no indexes."""


class JobKind(NamedTuple):
    """A kind of job from the setting `jobKinds`: where its objects have the fields that the queue needs."""

    resource: Resource
    suspend: FieldPattern
    pod_sets: tuple[PodSetPattern, ...]
    active_pods: tuple[FieldPattern, ...]
    """Fields with the numbers of pods that run or terminate."""
    ready_condition: str
    succeeded_condition: str
    failed_condition: str


def parse_job_kinds(value: object) -> tuple[JobKind, ...]:
    """Return the kinds of the setting `jobKinds`. Raises ValueError that lists each invalid field and its value."""
    problems: list[str] = []
    kinds = tuple(map(_job_kind, FieldReader({SETTING: value}, "", problems).children(SETTING)))
    if problems:
        raise ValueError("; ".join(problems))
    return kinds


def _job_kind(reader: FieldReader) -> JobKind:
    reader.report_missing("podSets", "activePods")
    resource = Resource(
        _name(reader, "group", _DNS_NAME),
        _name(reader, "version", _DNS_NAME),
        _name(reader, "plural", _DNS_NAME),
        _name(reader, "kind", _KIND),
        namespaced=True,
    )
    conditions = reader.child("conditions")
    kind = JobKind(
        resource,
        _pointer(reader, "suspend", reader.required_name("suspend"), root="spec", may_repeat=False),
        tuple(map(_pod_set, reader.children("podSets"))),
        tuple(_pointer(reader, "activePods", text, root="status") for text in reader.texts("activePods")),
        conditions.required_name("ready"),
        conditions.required_name("succeeded"),
        conditions.required_name("failed"),
    )
    conditions.report_unknown()
    reader.report_unknown()
    if reader.has("podSets") and not kind.pod_sets:
        reader.report("podSets", "a job has at least one")
    return kind


def _pod_set(reader: FieldReader) -> PodSetPattern:
    template = _pointer(reader, "template", reader.required_name("template"), root="spec")
    name = _pod_set_name(reader, template)
    pod_set = PodSetPattern(name, template, _count(reader, template), reader.text("podIndexLabel"))
    reader.report_unknown()
    return pod_set


def _pod_set_name(reader: FieldReader, template: FieldPattern) -> str | FieldPattern:
    """Return the name of a pod set, or the pointer to it: templates in a list have their own names."""
    text = reader.required_name("name")
    if text.startswith("/"):
        return _sibling(reader, "name", text, template)
    if text and EACH in template:
        reader.report("name", f"not a pointer to a field of each item, as {reader.text('template')!r} is")
    elif text and not _POD_SET_NAME.fullmatch(text):
        reader.report("name", "neither a name of small letters, digits and dashes nor a pointer")
    return text


def _count(reader: FieldReader, template: FieldPattern) -> int | FieldPattern:
    if isinstance(reader.obj.get("count"), str):
        return _sibling(reader, "count", reader.text("count"), template)
    return reader.int_in_range("count", 1, MAX_COUNT)


def _sibling(reader: FieldReader, field: str, text: str, template: FieldPattern) -> FieldPattern:
    """Return a pointer that repeats over the same list as the pointer of a template."""
    pattern = _pointer(reader, field, text, root="spec")
    if _list_of(pattern) != _list_of(template) and (EACH in pattern or field == "name"):
        reader.report(field, f"not within the same list as {reader.text('template')!r}")
    return pattern


def _list_of(pattern: Sequence[str]) -> Sequence[str]:
    """Return the path of the list over whose items a pattern repeats; empty if it does not repeat."""
    return pattern[: pattern.index(EACH)] if EACH in pattern else ()


def _pointer(reader: FieldReader, field: str, text: str, *, root: str, may_repeat: bool = True) -> FieldPattern:
    """Return the parts of a pointer that begins with `root`; empty if the pointer is invalid."""
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])
    repeats = parts.count(EACH)
    is_pointer = text.startswith("/") and all(parts) and parts[:1] == (root,) and len(parts) > 1
    if is_pointer and repeats <= int(may_repeat) and EACH not in (*parts[:2], *parts[-1:]):
        return parts
    if text:
        repeated = f", with * at most once and within, such as /{root}/sets/*/field" if may_repeat else ""
        reader.report(field, f"not a pointer such as /{root}/field{repeated}")
    return ()


def _name(reader: FieldReader, field: str, pattern: re.Pattern[str]) -> str:
    name = reader.required_name(field)
    if name and not pattern.fullmatch(name):
        reader.report(field, "not a name")
    return name

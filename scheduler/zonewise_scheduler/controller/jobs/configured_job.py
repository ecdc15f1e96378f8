"""The adapter of a job kind that the settings describe (job_kind.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.job_fields import condition_message, read_strictly
from zonewise_scheduler.controller.jobs.job_kind import EACH
from zonewise_scheduler.controller.jobs.suspendable_job import JobTemplate, SuspendableJob
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS, PodIndexes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.k8s.fields import FieldReader
    from zonewise_scheduler.controller.jobs.job_kind import JobKind, PodSetPattern
    from zonewise_scheduler.controller.jobs.template_paths import FieldPath
    from zonewise_scheduler.controller.types import Json


class ConfiguredJob(SuspendableJob):
    """The adapter of one kind. Each template that a job contains is a pod set."""

    def __init__(self, kind: JobKind) -> None:
        super().__init__(kind.resource)
        self.suspend_path = kind.suspend
        self.end_conditions = ((kind.succeeded_condition, True), (kind.failed_condition, False))
        self._kind = kind

    def templates(self, job: FieldReader) -> Iterator[JobTemplate]:
        """Yield the templates that are present, in the order of the settings."""
        for pattern in self._kind.pod_sets:
            yield from _templates(job, pattern)

    def is_active(self, job: Json) -> bool:
        """Return whether any field with a number of active pods is above zero."""

        def read(reader: FieldReader) -> bool:
            return any(
                owner.count(field) for pattern in self._kind.active_pods for owner, field, _ in _fields(reader, pattern)
            )

        return read_strictly(job, read)

    def pods_ready(self, job: Json) -> bool:
        """Return whether the readiness condition is true."""
        return condition_message(job, self._kind.ready_condition) is not None


def _templates(job: FieldReader, pattern: PodSetPattern) -> Iterator[JobTemplate]:
    indexes = PodIndexes(pattern.pod_index_label)
    for i, (owner, field, path) in enumerate(_fields(job, pattern.template)):
        if owner.has(field):
            yield JobTemplate(_name(job, pattern, i), _pods(job, pattern, i), owner.child(field), path, indexes)


def _name(job: FieldReader, pattern: PodSetPattern, i: int) -> str:
    if isinstance(pattern.name, str):
        return pattern.name
    owner, field, _ = list(_fields(job, pattern.name))[i]
    return owner.required_name(field).lower()


def _pods(job: FieldReader, pattern: PodSetPattern, i: int) -> int:
    if isinstance(pattern.pods, int):
        return pattern.pods
    numbers = list(_fields(job, pattern.pods))
    owner, field, _ = numbers[i if EACH in pattern.pods else 0]
    return owner.int_in_range(field, 1, MAX_PODS, minimum=0)


def _fields(
    owner: FieldReader, pattern: Sequence[str], path: FieldPath = ()
) -> Iterator[tuple[FieldReader, str, FieldPath]]:
    """Yield each field that a pattern matches: the reader of its owner, its name, and its path."""
    name, *rest = pattern
    if not rest:
        yield owner, name, (*path, name)
    elif rest[0] == EACH:
        for i, item in enumerate(owner.children(name)):
            yield from _fields(item, rest[1:], (*path, name, i))
    else:
        yield from _fields(owner.child(name), rest, (*path, name))

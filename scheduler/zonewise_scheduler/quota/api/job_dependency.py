"""Jobs that wait for other Jobs: the annotation `zonewise.dev/dependency`, in sbatch's notation.

    afterok:prepare:download,afterany:train-1

All parts must hold. The Jobs must be in the same namespace. A failed Job never fulfils afterok.

A fulfilled dependency stays fulfilled if the other Job is deleted, for example by its ttlSecondsAfterFinished. Another
annotation notes it, as slurmctld removes a fulfilled dependency from the list of a job.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from zonewise_common.k8s.fields import FieldError, FieldReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEPENDENCY_ANNOTATION = "zonewise.dev/dependency"
FULFILLED_ANNOTATION = "zonewise.dev/fulfilled-dependencies"
"""The UID of the Job, a space, and its fulfilled dependencies. A copy of the Job has another UID, so it waits again."""

DependencyKind = Literal["afterok", "afterany", "afternotok"]
DependencyState = Literal["fulfilled", "waits", "never"]

_ENDS: Mapping[DependencyKind, str] = {"afterok": "succeed", "afterany": "end", "afternotok": "fail"}
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")


class JobDependency(NamedTuple):
    """One Job that another waits for."""

    kind: DependencyKind
    job: str
    """The name of the Job."""


def parse_dependency(text: str) -> tuple[JobDependency, ...]:
    """Return the dependencies in a text. Raises ValueError, which names the invalid part."""
    dependencies: list[JobDependency] = []
    for part in text.split(","):
        kind, *jobs = part.split(":")
        if "?" in part:
            raise ValueError(f"{part!r}: one of several dependencies (?) is not supported: all must hold")
        if kind not in get_args(DependencyKind) or not jobs:
            raise ValueError(f"{part!r} is not a dependency, such as {':JOB, '.join(get_args(DependencyKind))}:JOB")
        for job in jobs:
            if not _NAME.fullmatch(job):
                raise ValueError(f"{part!r}: {job!r} is not a Job name")
            dependencies.append(JobDependency(_kind(kind), job))
    return tuple(dependencies)


def read_dependencies(job: Mapping[str, Any]) -> tuple[JobDependency, ...]:
    """Return the dependencies that a Job declares. Raises FieldError."""
    text = FieldReader(job, "", []).child("metadata").pairs("annotations").get(DEPENDENCY_ANNOTATION)
    if not text:
        return ()
    try:
        return parse_dependency(text)
    except ValueError as error:
        raise FieldError(f"metadata.annotations.{DEPENDENCY_ANNOTATION}", str(error)) from error


def read_fulfilled(job: Mapping[str, Any]) -> frozenset[JobDependency]:
    """Return the dependencies of a Job that are noted as fulfilled. Raises FieldError for invalid metadata."""
    metadata = FieldReader(job, "", []).child("metadata")
    uid, _, text = metadata.pairs("annotations").get(FULFILLED_ANNOTATION, "").partition(" ")
    if not uid or uid != metadata.text("uid"):
        return frozenset()
    try:
        return frozenset(parse_dependency(text))
    except ValueError:  # edited by hand
        return frozenset()


def fulfilled_annotation(job: Mapping[str, Any], fulfilled: Iterable[JobDependency]) -> str:
    """Return the annotation that notes the fulfilled dependencies of a Job."""
    return f"{job['metadata']['uid']} {','.join(f'{kind}:{name}' for kind, name in fulfilled)}"


def dependency_state(dependency: JobDependency, job: Mapping[str, Any] | None) -> DependencyState:
    """Return whether a dependency holds; `job`: the Job that it names, or None if that does not exist.

    A missing Job may still be created, so the dependency then waits.
    """
    if job is None:
        return "waits"
    conditions = FieldReader(job, "", []).child("status").children("conditions")
    ended = {entry.text("type") for entry in conditions if entry.text("status") == "True"} & {"Complete", "Failed"}
    if not ended:
        return "waits"
    if dependency.kind == "afterany":
        return "fulfilled"
    return "fulfilled" if ("Complete" in ended) == (dependency.kind == "afterok") else "never"


def dependency_message(dependency: JobDependency, job: Mapping[str, Any] | None) -> str:
    """Return why a dependency keeps a Job from being queued; "" if it is fulfilled. `job`: as in dependency_state()."""
    state = dependency_state(dependency, job)
    if state == "never":
        ended = "has failed" if dependency.kind == "afterok" else "has succeeded"
        return f"Job {dependency.job} {ended}, so it never starts: `zonewise cancel` removes it"
    unknown = ", which does not exist" if job is None else ""
    return f"waits for Job {dependency.job} to {_ENDS[dependency.kind]}{unknown}" if state == "waits" else ""


def _kind(text: str) -> DependencyKind:
    return next(kind for kind in get_args(DependencyKind) if kind == text)

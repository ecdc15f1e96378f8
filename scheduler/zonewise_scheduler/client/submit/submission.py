"""Creates the objects of a job. The Job comes first: it owns the others, so they are deleted with it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from zonewise_common.cli.command import CommandError
from zonewise_common.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from zonewise_common.kube.resources import CONFIG_MAPS, JOBS, LOCAL_QUEUES, SERVICES, WORKLOAD_PRIORITY_CLASSES
from zonewise_scheduler.client.submit.job_objects import job_objects
from zonewise_scheduler.client.submit.job_request import MAX_NAME
from zonewise_scheduler.quota.api.job_dependency import dependency_state, parse_dependency

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.client.cluster.session import Session
    from zonewise_scheduler.client.submit.job_request import JobRequest

Json = dict[str, Any]

_RESOURCES = {"ConfigMap": CONFIG_MAPS, "Service": SERVICES, "Job": JOBS}
_MAX_ATTEMPTS = 1000


def submit(
    session: Session, request: JobRequest, script: str, note: Callable[[str], object]
) -> tuple[JobRequest, list[Json]]:
    """Create the objects of a job; return the request with the final name, and the created objects.

    If the name exists, a number is appended: train, train-2, train-3. Raises CommandError and KubeError.
    """
    if session.find(LOCAL_QUEUES, request.queue, namespace=session.namespace) is None:
        raise CommandError(
            f"there is no LocalQueue {request.queue} in namespace {session.namespace}: select one with -p; `zonewise "
            "queue` lists them"
        )
    _check_priority_class(session, request)
    _check_dependencies(session, request, note)
    base = request.name
    for number in range(1, _MAX_ATTEMPTS):
        suffix = f"-{number}" if number > 1 else ""
        named = request._replace(name=f"{base[: MAX_NAME - len(suffix)].rstrip('-')}{suffix}")
        with contextlib.suppress(AlreadyExists):
            return named, _create(session, job_objects(named, script))
    raise CommandError(f"there are already {_MAX_ATTEMPTS} Jobs {base}-NUMBER: choose another name with -J")


def _create(session: Session, objects: list[Json]) -> list[Json]:
    """Create all objects or none, and return them. Raises AlreadyExists if one of the names exists, and KubeError.

    The objects of a Job that was deleted a moment ago may still exist.
    """
    *others, job = objects
    job = session.client.create(JOBS, job, namespace=session.namespace)
    try:
        created = [
            session.client.create(_RESOURCES[obj["kind"]], _owned(obj, job), namespace=session.namespace)
            for obj in others
        ]
    except BaseException:  # including an interrupt
        _delete_again(session, job)
        raise
    return [*created, job]


def _delete_again(session: Session, job: Json) -> None:
    """Delete a Job whose other objects were not created. Raises CommandError if that is impossible."""
    metadata = job["metadata"]
    name = metadata["name"]
    try:
        session.client.delete(JOBS, name, namespace=session.namespace, uid=metadata["uid"], propagation="Background")
    except (NotFound, Conflict):
        return  # it no longer exists
    except KubeError as error:
        raise CommandError(f"Job {name} is incomplete: {error}; `zonewise cancel {name}` removes it") from error


def _check_priority_class(session: Session, request: JobRequest) -> None:
    """Raise CommandError if the class does not exist: the controller would not queue the job."""
    if not request.priority_class:
        return
    with contextlib.suppress(Forbidden):  # classes are cluster-wide, so the user may lack the permission to read them
        if session.find(WORKLOAD_PRIORITY_CLASSES, request.priority_class) is None:
            raise CommandError(
                f"there is no WorkloadPriorityClass {request.priority_class}: name one by --priority-class; "
                "`kubectl get workloadpriorityclasses` lists them"
            )


def _check_dependencies(session: Session, request: JobRequest, note: Callable[[str], object]) -> None:
    for dependency in parse_dependency(request.dependency) if request.dependency else ():
        job = session.find(JOBS, dependency.job, namespace=session.namespace)
        if job is None:
            raise CommandError(f"-d {dependency.kind}:{dependency.job}: no such Job in namespace {session.namespace}")
        if dependency_state(dependency, job) == "never":
            note(
                f"-d {dependency.kind}:{dependency.job}: that Job has ended differently, so this one would never start"
            )


def _owned(obj: Json, job: Json) -> Json:
    metadata = job["metadata"]
    owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**obj, "metadata": {**obj["metadata"], "ownerReferences": [owner]}}

"""The pods that a Job creates and deletes (job_controller.go manageJob, activePodsForRemoval)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.jobcontroller.backoff import BackoffRecord, end_time, parse_time
from zonewise_sandbox.jobcontroller.index_tracking import total_failures
from zonewise_sandbox.jobcontroller.pod_bodies import pod_body

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_sandbox.jobcontroller.index_tracking import IndexState
    from zonewise_sandbox.jobcontroller.types import Job, JobPod, JobSpec, Object

MAX_WRITES = 500
"""Maximum number of pods that one synchronisation creates or deletes (MaxPodCreateDeletePerSync)."""
_PHASES = ("Pending", "Unknown", "Running")


class ManagedPods(NamedTuple):
    """The pods to create and to delete."""

    create: Sequence[Object] = ()
    delete: Sequence[JobPod] = ()
    uncount: bool = True
    """Whether finalizers are removed before the deletion, so that the pods do not count as failed."""
    again_in: float | None = None
    """Seconds until pods may be created whose creation is backed off now."""


def manage_pods(
    job: Job, pods: Sequence[JobPod], succeeded: int, indexes: IndexState, wait: float, now: float
) -> ManagedPods:
    """Return the pods to create or delete; `wait` is the number of seconds for which creation is backed off."""
    spec, active = job.spec, [pod for pod in pods if pod.is_active]
    if spec.suspend:
        return ManagedPods(delete=active)
    wanted = _wanted(spec, len(active), succeeded)
    surplus = _surplus(spec, active, max(0, len(active) - wanted))
    if surplus:
        return ManagedPods(delete=surplus[:MAX_WRITES])
    terminating = [pod for pod in pods if pod.is_terminating] if spec.only_replaces_failed else []
    missing = min(wanted - len(terminating) - len(active), MAX_WRITES)
    if missing <= 0:
        return ManagedPods()
    if wait > 0 and spec.backoff_limit_per_index is None:
        return ManagedPods(again_in=wait)
    if not spec.is_indexed:
        return ManagedPods([pod_body(job, None, None) for _ in range(missing)])
    occupied = {pod.index for pod in (*active, *terminating)} | indexes.succeeded | indexes.failed
    pending = [index for index in range(spec.completions or 0) if index not in occupied][:missing]
    delays = {index: _delay(indexes.delayed.get(index), now) for index in pending}
    due = [index for index in pending if not delays[index]]
    create = [pod_body(job, index, indexes.delayed.get(index)) for index in due]
    return ManagedPods(create, again_in=None if create else min(delays.values(), default=None))


def _wanted(spec: JobSpec, active: int, succeeded: int) -> int:
    if spec.completions is None:
        return active if succeeded else spec.parallelism
    return max(0, min(spec.completions - succeeded, spec.parallelism))


def _delay(replaced: JobPod | None, now: float) -> float:
    if replaced is None:
        return 0.0
    record = BackoffRecord(total_failures(replaced) + 1, end_time(replaced))
    return record.remaining(now)


def _surplus(spec: JobSpec, active: list[JobPod], count: int) -> list[JobPod]:
    """Return the pods to delete: those with invalid and duplicate indexes first, then the least advanced ones."""
    surplus: list[JobPod] = []
    if spec.is_indexed:
        for index, group in groupby(sorted(active, key=_by_index), key=_by_index):
            same = sorted(group, key=_advance)
            surplus += same if not 0 <= index < (spec.completions or 0) else same[:-1]
    uids = {pod.metadata.uid for pod in surplus}
    remaining = sorted((pod for pod in active if pod.metadata.uid not in uids), key=_advance)
    return surplus + remaining[: max(0, count - len(surplus))]


def _by_index(pod: JobPod) -> int:
    return -1 if pod.index is None else pod.index


def _advance(pod: JobPod) -> tuple[bool, int, bool, float]:
    """Return the order in which pods are deleted (controller_utils.go ActivePods)."""
    phase = pod.status.phase
    age = -parse_time(pod.metadata.creation_timestamp)
    return bool(pod.spec.node_name), _PHASES.index(phase) if phase in _PHASES else 0, pod.is_ready, age

"""The state of a job of plain pods: whether it has ended, and which of its pods are surplus or replaced.

Source: pod_controller.go Finished, PodsReady, ReclaimablePods, sortActivePods, sortInactivePods, countAbsentPods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.controller.jobs.interface import FinishedJob
from zonewise_scheduler.controller.pods.group_workload import pod_set_name, role_counts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.pods.pod_group import GroupPod, PlainPods


def plain_end(job: PlainPods) -> FinishedJob | None:
    """Return how a job has ended; None: it has not ended.

    | job | ends when |
    |---|---|
    | a single pod | it has succeeded or failed |
    | a group | its total number of pods has succeeded, or all have terminated and one is not retriable |
    | a PodGroup | no pod is active, and at least its total number of pods has terminated |
    | a serving group | never |
    """
    is_active = any(not pod.is_terminated for pod in job.pods)
    if job.is_serving:
        return None
    if not job.is_group:
        return None if is_active else FinishedJob(job.succeeded == 1, _message(job.pods[0]))
    message = f"Pods succeeded: {job.succeeded}/{job.total}."
    if job.may_exceed:
        ended = not is_active and len(job.pods) >= job.total
        return FinishedJob(job.succeeded >= job.total, message) if ended else None
    has_failed = not is_active and any(not pod.is_retriable for pod in job.pods)
    return FinishedJob(job.succeeded >= job.total, message) if has_failed or job.succeeded >= job.total else None


def is_cancelled(job: PlainPods) -> bool:
    """Return whether a user has deleted all pods, so that no replacements are to be expected."""
    return all(pod.deleted_at is not None and pod.is_gone and not pod.is_stopped for pod in job.pods)


def are_pods_ready(job: PlainPods) -> bool:
    """Return whether the job's total number of pods is ready or has succeeded."""
    return sum(pod.is_ready or pod.phase == "Succeeded" for pod in job.counting) >= job.total


def reclaimable_pods(job: PlainPods, counts: Mapping[str, int]) -> dict[str, int]:
    """Return by pod set the number of succeeded pods that no other pod replaces."""
    if job.is_serving or not job.is_group:
        return {}
    surplus: dict[str, int] = {}
    for name, count in counts.items():
        members = [pod for pod in job.counting if pod_set_name(job, pod) == name]
        succeeded = sum(pod.is_terminated for pod in members)
        if (pods := min(succeeded, count - (len(members) - succeeded))) > 0:
            surplus[name] = pods
    return surplus


def absent_pods(job: PlainPods, counts: Mapping[str, int]) -> int:
    """Return the number of pods that must be replaced."""
    if not job.is_group:
        return 0
    present = role_counts(job, job.counting)
    if job.is_fast:
        return sum(count > 0 and not present[name] for name, count in counts.items())
    return sum(max(0, count - present[name]) for name, count in counts.items())


def excess_pods(job: PlainPods, counts: Mapping[str, int] | None) -> list[GroupPod]:
    """Return the surplus pods of a job. Of the held pods, the newest are surplus first.

    `counts`: number of pods in each pod set of the Workload; None: there is no Workload. A deleted pod that still runs
    is surplus before all others, so its replacement is not deleted.
    """
    if job.may_exceed:
        return []
    ordered = sorted(job.counting, key=_keeping_order)
    if counts is None:
        return ordered[job.total :]
    excess: list[GroupPod] = []
    room = dict(counts)
    for pod in ordered:
        name = pod_set_name(job, pod)
        room[name] = room.get(name, 0) - 1
        if room[name] < 0 and (name in counts or len(ordered) > job.total):
            excess.append(pod)
    return excess


def replaced_pods(job: PlainPods, counts: Mapping[str, int]) -> list[GroupPod]:
    """Return the pods that can no longer run and have a replacement. The remaining ones show that a pod is missing."""
    present = role_counts(job, job.counting)
    replaced: list[GroupPod] = []
    inactive = sorted((pod for pod in job.pods if not pod.counts), key=lambda pod: (pod.has_finalizer, pod.created))
    for name in dict.fromkeys(pod_set_name(job, pod) for pod in inactive):
        members = [pod for pod in inactive if pod_set_name(job, pod) == name]
        surplus = len(members) + present[name] - counts.get(name, 0)
        replaced += members[: max(0, surplus)]
    return replaced


def startable_pods(job: PlainPods, counts: Mapping[str, int]) -> list[GroupPod]:
    """Return the held pods that still fit into their pod set's count, oldest first."""
    room = dict(counts)
    for pod in job.counting:
        uses_quota = not (job.may_exceed and pod.is_terminated)
        if not pod.is_held and uses_quota:
            name = pod_set_name(job, pod)
            room[name] = room.get(name, 0) - 1
    startable: list[GroupPod] = []
    for pod in job.counting:
        name = pod_set_name(job, pod)
        if pod.is_held and pod.deleted_at is None and room.get(name, 0) > 0:
            room[name] -= 1
            startable.append(pod)
    return startable


def _keeping_order(pod: GroupPod) -> tuple[bool, bool, bool, float, str]:
    return pod.deleted_at is not None, pod.is_held, not pod.has_finalizer, pod.created, pod.name


def _message(pod: GroupPod) -> str:
    return str(pod.obj.get("status", {}).get("message") or f"Pod {pod.phase.lower()}")

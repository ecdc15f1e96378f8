"""The slice to which the pods of elastic jobs belong: the one that covers them now.

A pod names the slice with which its job was started, and the first slice of the job (workloads/slices.py). If another
slice takes over, the pods of the job belong to that one. Until a first slice is observed with quota, a pod belongs to
the slice that it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from zonewise_scheduler.controller.cluster_cache import uid_of
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.controller.workloads.slices import first_slice_name, is_slice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise_scheduler.controller.observed_pod import WatchedPod
    from zonewise_scheduler.controller.types import Json

_PodName = tuple[str, str]
"""Namespace and name of a pod."""


class SlicePods:
    """Keeps the pods of elastic jobs, and the slice that covers the pods of each job."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[_PodName, WatchedPod]] = {}
        """Pods by key of the first slice of their job."""
        self._job_of_pod: dict[_PodName, str] = {}
        """Key of the first slice of each pod's job."""
        self._ages: dict[str, dict[str, tuple[str, str]]] = {}
        """By key of the first slice: the slices with quota, each with its time of creation and UID."""
        self._job_of_slice: dict[str, str] = {}
        self._current: dict[str, str] = {}
        """Key of the slice that covers the pods, by key of the first slice."""

    def observe_pod(self, namespace: str, name: str, pod: WatchedPod | None) -> WatchedPod | None:
        """Record a pod, and return it with the slice to which it belongs; None: it was deleted."""
        key = (namespace, name)
        first = "" if pod is None or pod.managed is None else pod.managed.first_slice
        job = f"{namespace}/{first}" if first else ""
        if (old := self._job_of_pod.pop(key, "")) and old != job:
            del self._pods[old][key]
            self._forget(old)
        if pod is None or not job:
            return pod
        self._job_of_pod[key] = job
        self._pods.setdefault(job, {})[key] = pod
        return self._with_slice(pod, self._current.get(job, ""))

    def observe_workload(self, key: str, workload: Json | None) -> Iterator[tuple[_PodName, WatchedPod]]:
        """Record a Workload, and yield the pods that now belong to another slice; None: it was deleted."""
        old = self._job_of_slice.pop(key, "")
        self._ages.get(old, {}).pop(key, None)
        job = "" if workload is None or not is_slice(workload) else _job_key(key, workload)
        if job and workload is not None:
            self._job_of_slice[key] = job
            if is_true(workload, "QuotaReserved") and not is_true(workload, "Finished"):
                age = str(workload["metadata"].get("creationTimestamp", "")), uid_of(workload)
                self._ages.setdefault(job, {})[key] = age
        for each in dict.fromkeys((old, job)):
            yield from self._move_pods(each)

    def _move_pods(self, job: str) -> Iterator[tuple[_PodName, WatchedPod]]:
        ages = self._ages.get(job) or {}
        current = max(ages, key=ages.__getitem__, default="")
        if not current:
            self._forget(job)
            return
        previous, self._current[job] = self._current.get(job, ""), current
        for key, pod in self._pods.get(job, {}).items():
            if (previous or pod.tracked.workload) != current:
                yield key, self._with_slice(pod, current)

    def _with_slice(self, pod: WatchedPod, current: str) -> WatchedPod:
        if not current or pod.managed is None or pod.tracked.workload == current:
            return pod
        managed = replace(pod.managed, workload=current.partition("/")[2])
        return pod._replace(tracked=replace(pod.tracked, workload=current), managed=managed)

    def _forget(self, job: str) -> None:
        """Forget a job without pods whose slices have no quota. While it has pods, these remain where they are."""
        if not self._pods.get(job) and not self._ages.get(job):
            self._pods.pop(job, None)
            self._ages.pop(job, None)
            self._current.pop(job, None)


def _job_key(key: str, workload: Json) -> str:
    return f"{key.partition('/')[0]}/{first_slice_name(workload)}"

"""Watches the pods of submitted Jobs: when each is bound, runs and ends."""

from __future__ import annotations

import threading
import time
from math import inf
from typing import TYPE_CHECKING

import msgspec

from benchmarks.support.gang_spans import PodSpan
from benchmarks.support.live_jobs import JOB_LABEL, Watch, submitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.support.live_jobs import GangJob, Manifest
    from support.live_cluster import LiveCluster


def observe_pods(
    jobs: Sequence[GangJob],
    cluster: LiveCluster,
    limit: float,
    manifest: Manifest,
    observe: Callable[[ObservedPod], object] | None = None,
) -> list[PodSpan]:
    """Submit Jobs to a cluster; watch their pods until all have succeeded, for at most `limit` seconds.

    Returns the spans of the pods that held resources. `observe` is called with each new state of a pod, in the thread
    that watches.
    """
    from zonewise_common.kube.resources import PODS

    watcher = _PodWatcher(jobs, observe)
    watch = Watch(PODS, msgspec.json.Decoder(ObservedPod).decode, watcher.observe)
    with submitting(jobs, cluster, watch, manifest) as (_, begin):
        watcher.wait(limit)
    return watcher.spans(begin)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 -- the field's name in the API


class _Status(msgspec.Struct):
    phase: str = ""


class ObservedPod(msgspec.Struct):
    """The fields of a pod that a measurement reads."""

    metadata: _Metadata
    spec: _Spec
    status: _Status

    @property
    def job(self) -> str:
        """Return the name of its Job; "" if it has none."""
        return self.metadata.labels.get(JOB_LABEL, "")


class _PodWatcher:
    """Records when pods are bound, run and end."""

    def __init__(self, jobs: Sequence[GangJob], observe: Callable[[ObservedPod], object] | None) -> None:
        self._missing = sum(job.pods for job in jobs)
        self._observe = observe
        self._condition = threading.Condition()
        self._times: dict[str, dict[str, float]] = {}
        self._pods: dict[str, ObservedPod] = {}

    def observe(self, old: ObservedPod | None, pod: ObservedPod | None) -> None:
        now = time.monotonic()
        if pod is None:
            if old is not None and old.metadata.name in self._pods:
                self._times[old.metadata.name].setdefault("ended", now)
            return
        if not pod.job:
            return
        if self._observe is not None:
            self._observe(pod)
        name, phase = pod.metadata.name, pod.status.phase
        times = self._times.setdefault(name, {})
        if pod.spec.nodeName:
            self._pods[name] = pod  # the newest state
            times.setdefault("bound", now)
        if phase in {"Running", "Succeeded"}:
            times.setdefault("running", now)
        if phase in {"Succeeded", "Failed"} and "ended" not in times:
            with self._condition:
                times["ended"] = now
                self._missing -= phase == "Succeeded"
                self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` seconds until all pods have succeeded."""
        with self._condition:
            self._condition.wait_for(lambda: self._missing <= 0, seconds)

    def spans(self, begin: float) -> list[PodSpan]:
        """Return the spans of all pods but those that their kubelets rejected.

        `begin` is the monotonic time of the first submission.
        """
        return [
            PodSpan(
                pod.job,
                pod.spec.nodeName,
                times["bound"] - begin,
                times.get("running", inf) - begin,
                times.get("ended", inf) - begin,
                pod.status.phase == "Succeeded",
            )
            for name, pod in self._pods.items()
            if "running" in (times := self._times[name]) or pod.status.phase != "Failed"
        ]

"""Watches the pods of submitted Jobs: when each is bound, runs and ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gang_spans import PodSpan
from benchmarks.live_jobs import JOB_LABEL, Watch, submitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.live_jobs import GangJob, Manifest
    from support.live_cluster import LiveCluster


def observe_pods(
    jobs: Sequence[GangJob],
    cluster: LiveCluster,
    limit: float,
    manifest: Manifest,
    observe: Callable[[ObservedPod], object] | None = None,
) -> list[PodSpan]:
    """Submit Jobs to a cluster; return the spans of those pods that succeed within `limit` seconds.

    `observe` is called with each new state of a pod, in the thread that watches.
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

    def observe(self, _old: ObservedPod | None, pod: ObservedPod | None) -> None:
        if pod is None:
            return
        if self._observe is not None:
            self._observe(pod)
        now, name = time.monotonic(), pod.metadata.name
        times = self._times.setdefault(name, {})
        if pod.spec.nodeName:
            self._pods[name] = pod  # the newest state
            times.setdefault("bound", now)
        if pod.status.phase in {"Running", "Succeeded", "Failed"}:
            times.setdefault("running", now)
        if pod.status.phase in {"Succeeded", "Failed"} and "ended" not in times:
            with self._condition:
                times["ended"] = now
                self._missing -= pod.status.phase == "Succeeded"
                self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` seconds until all pods have succeeded."""
        with self._condition:
            self._condition.wait_for(lambda: self._missing <= 0, seconds)

    def spans(self, begin: float) -> list[PodSpan]:
        """Return the spans of pods that have succeeded; `begin` is the monotonic time of the first submission."""
        return [
            PodSpan(
                pod.job,
                pod.spec.nodeName,
                times["bound"] - begin,
                times["running"] - begin,
                times["ended"] - begin,
            )
            for name, pod in self._pods.items()
            if "ended" in (times := self._times[name]) and pod.status.phase == "Succeeded"
        ]

"""Watches the pods of submitted Jobs: when each is bound, runs and ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import msgspec

from benchmarks.gang_spans import PodSpan
from benchmarks.live_jobs import JOB_LABEL, Watch, submitting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.live_jobs import GangJob
    from support.live_cluster import LiveCluster


def observe_pods(jobs: Sequence[GangJob], cluster: LiveCluster, limit: float, holder: str) -> list[PodSpan]:
    """Submit Jobs to a cluster; return the spans of those pods that succeed within `limit` seconds."""
    from zonewise_common.kube.resources import PODS

    watcher = _PodWatcher(jobs)
    watch = Watch(PODS, msgspec.json.Decoder(_Pod).decode, watcher.observe)
    with submitting(jobs, cluster, watch, holder) as (_, begin):
        watcher.wait(limit)
    return watcher.spans(begin)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 -- the field's name in the API


class _Status(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status


class _PodWatcher:
    """Records when pods are bound, run and end."""

    def __init__(self, jobs: Sequence[GangJob]) -> None:
        self._missing = sum(job.pods for job in jobs)
        self._condition = threading.Condition()
        self._times: dict[str, dict[str, float]] = {}
        self._pods: dict[str, _Pod] = {}

    def observe(self, _old: _Pod | None, pod: _Pod | None) -> None:
        if pod is None:
            return
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
                self._missing -= 1
                self._condition.notify_all()

    def wait(self, seconds: float) -> None:
        """Wait up to `seconds` seconds until all pods have ended."""
        with self._condition:
            self._condition.wait_for(lambda: self._missing <= 0, seconds)

    def spans(self, begin: float) -> list[PodSpan]:
        """Return the spans of pods that have succeeded; `begin` is the monotonic time of the first submission."""
        return [
            PodSpan(
                pod.metadata.labels.get(JOB_LABEL, ""),
                pod.spec.nodeName,
                times["bound"] - begin,
                times["running"] - begin,
                times["ended"] - begin,
            )
            for name, pod in self._pods.items()
            if "ended" in (times := self._times[name]) and pod.status.phase == "Succeeded"
        ]

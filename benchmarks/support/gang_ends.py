"""Ends the gangs of a measurement on real kubelets: a gang's containers exit some seconds after all of its pods run."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.support.live_jobs import GangJob
    from benchmarks.support.observed_pods import ObservedPod
    from support.e2e.node import Node

CONTAINER = "c"
"""Name of the container of each pod."""


class GangEnds:
    """Observes the pods of gangs on some nodes, and ends the gangs."""

    def __init__(self, jobs: Iterable[GangJob], nodes: Mapping[str, Node]) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._nodes = nodes
        self._running: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """The nodes of the running pods of each gang."""
        self._timers: list[threading.Timer] = []
        self.rejected: set[str] = set()
        """Names of the pods that failed, and thus of those that a kubelet rejected: no container fails."""

    def observe(self, pod: ObservedPod) -> None:
        """Take the new state of a pod; once all pods of its gang run, the gang works for its run time."""
        name, running = pod.metadata.name, self._running[pod.job]
        if pod.status.phase == "Failed":
            self.rejected.add(name)
        if pod.status.phase != "Running":
            running.pop(name, None)
            return
        is_new = name not in running
        running[name] = pod.spec.nodeName
        job = self._jobs[pod.job]
        if is_new and len(running) == job.pods:
            timer = threading.Timer(job.run, self._end, (job.name,))
            timer.daemon = True
            timer.start()
            self._timers.append(timer)

    def _end(self, job: str) -> None:
        for pod, node in list(self._running[job].items()):
            with contextlib.suppress(LookupError):  # it has been stopped
                self._nodes[node].runtime.finish(pod, CONTAINER)

    def close(self) -> None:
        """End no more gangs."""
        for timer in self._timers:
            timer.cancel()

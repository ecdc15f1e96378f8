"""From the submission of a gang to all its pods ungated, on idle simulated nodes: `python -m benchmarks.gang_start`.

A real kube-apiserver and a real kube-controller-manager serve it where they are found; else both are those in memory,
in one process with the nodes. The time is told apart: until the Job is started, until the Job controller has created
all pods, and until the last of them is ungated.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.agent_testbed import PROJECT
from benchmarks.targets import Row, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.live_cluster import LiveCluster
    from zonewise_common.kube.client import Client

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

MAX_SECONDS = 0.3
_LIMIT = 60.0
_JOB_LABEL = "batch.kubernetes.io/job-name"


class GangStart(NamedTuple):
    """Seconds from the submission of a gang on."""

    started: float
    """The Job is not suspended any more."""
    created: float
    """All its pods exist."""
    ungated: float
    """No gate holds any of them."""


class _Watcher:
    """Notes when Jobs start, and when their pods appear and are ungated."""

    def __init__(self, pods: int) -> None:
        self._pods = pods
        self._lock = threading.Condition()
        self._started: dict[str, float] = {}
        self._created: dict[str, dict[str, float]] = {}
        self._ungated: dict[str, dict[str, float]] = {}

    def observe_job(self, _old: Json | None, job: Json | None) -> None:
        if job is not None and not job["spec"].get("suspend"):
            with self._lock:
                self._started.setdefault(job["metadata"]["name"], time.monotonic())

    def observe_pod(self, _old: Json | None, pod: Json | None) -> None:
        job = "" if pod is None else pod["metadata"].get("labels", {}).get(_JOB_LABEL, "")
        if pod is None or not job:
            return
        name, now = pod["metadata"]["name"], time.monotonic()
        with self._lock:
            self._created.setdefault(job, {}).setdefault(name, now)
            if not pod["spec"].get("schedulingGates"):
                self._ungated.setdefault(job, {}).setdefault(name, now)
            self._lock.notify_all()

    def wait(self, job: str, submitted: float) -> GangStart:
        """Wait until all pods of a Job are ungated. Raises TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._ungated.get(job, ())) == self._pods, _LIMIT):
                raise TimeoutError(f"{len(self._ungated.get(job, ()))} of {self._pods} pods of {job} are ungated")
            started, created = self._started.get(job, submitted), max(self._created[job].values())
            return GangStart(started - submitted, created - submitted, max(self._ungated[job].values()) - submitted)


def measure(cluster: LiveCluster, client: Client, pods: int, nodes: int, gangs: int) -> list[GangStart]:
    """Return the times of gangs that are submitted one after another; the first is left out, as a rehearsal."""
    from support.waiting import eventually
    from zonewise_common.kube.reflector import Reflector
    from zonewise_common.kube.resources import JOBS, PODS
    from zonewise_scheduler.controller.informers import decode_object

    cluster.add_nodes(nodes)
    cluster.add_queue(nodes * 8, topology=True)
    watcher = _Watcher(pods)
    reflectors = [
        Reflector(client, JOBS, decode_object, watcher.observe_job),
        Reflector(client, PODS, decode_object, watcher.observe_pod),
    ]
    starts: list[GangStart] = []
    with cluster.controller("--writes-per-second", "10000", "--write-burst", "10000"):
        for reflector in reflectors:
            reflector.start()
            reflector.wait_synced(_LIMIT)
        for number in range(gangs + 1):
            name = f"gang-{number}"
            begin = time.monotonic()
            cluster.submit(name, pods=pods, run=1.0, topology="kubernetes.io/hostname")
            starts.append(watcher.wait(name, begin))
            eventually(lambda name=name: cluster.is_complete(name))
        for reflector in reflectors:
            reflector.close()
    return starts[1:]


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table; return 1 where the target is missed."""
    from support.apiserver import binaries
    from support.live_cluster import real_live_cluster, simulated_live_cluster
    from support.programs import find_program
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.config import Config

    parser = argparse.ArgumentParser(prog="python -m benchmarks.gang_start", description=__doc__)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=9)
    options = parser.parse_args(arguments)
    is_real = not isinstance(binaries(), str) and find_program("kube-controller-manager") is not None
    with real_live_cluster() if is_real else simulated_live_cluster() as cluster:
        flag, value = cluster.flags
        config = Config.from_kubeconfig(value) if flag == "--kubeconfig" else Config.from_url(value)
        client = Client(config)
        starts = measure(cluster, client, options.pods, options.nodes, options.gangs)
        client.close()
    servers = "real servers" if is_real else "servers in memory"
    started, created, ungated = (statistics.median(times) for times in zip(*starts, strict=True))
    worst = max(start.ungated for start in starts)
    label = f"gang of {options.pods} on {options.nodes:,} nodes, {servers}: to all pods ungated, median"
    return show(
        [
            Row(label, f"{ungated * 1e3:.0f} ms", f"<= {MAX_SECONDS * 1e3:.0f} ms", ungated <= MAX_SECONDS),
            Row("... until its Job is started", f"{started * 1e3:.0f} ms"),
            Row("... then until the Job controller has created all pods", f"{(created - started) * 1e3:.0f} ms"),
            Row("... then until the last pod is ungated", f"{(ungated - created) * 1e3:.0f} ms"),
            Row("... worst", f"{worst * 1e3:.0f} ms"),
        ]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

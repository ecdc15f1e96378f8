"""The time from a gang's submission until all its pods are ungated: `python -m benchmarks.gang_start`.

The simulated nodes are idle.

It uses a real kube-apiserver and kube-controller-manager if available; otherwise those in memory, in one process with
the nodes. The time has three parts: until the Job is started, until the Job controller has created all pods, until the
last of them is ungated. Nothing binds the pods, so that bindings use no CPU time.

The floor is the time that any controller needs on the same servers. A Job without a queue has pods with the same gate,
and a minimal client (minimal_client.py) sends the same patches. Floor and gangs are measured alternately.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.minimal_client import MinimalClient, PreparedWrite, ServerAccess
from benchmarks.support.targets import Row, load_row, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.live_cluster import LiveCluster
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.reflector import Reflector
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

MAX_SECONDS = 0.3
_LIMIT = 60.0
_JOB_LABEL = "batch.kubernetes.io/job-name"
_HOSTNAME = "kubernetes.io/hostname"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_PODS = "/api/v1/namespaces/default/pods"


class GangStart(NamedTuple):
    """Seconds after the submission of a gang."""

    started: float
    """When the Job was no longer suspended."""
    created: float
    """When all its pods existed."""
    ungated: float
    """When none of them had a gate any more."""


class Floor(NamedTuple):
    """Seconds that the servers need without a queue."""

    created: float
    """From the submission of a Job that is not suspended until all its pods exist."""
    patched: float
    """From then until the minimal client has a response to each patch."""


class _Watcher:
    """Records when Jobs start, and when their pods appear and are ungated."""

    def __init__(self, pods: int) -> None:
        self._pods = pods
        self._lock = threading.Condition()
        self._started: dict[str, float] = {}
        self._created: dict[str, dict[str, float]] = {}
        self._ungated: dict[str, dict[str, float]] = {}
        self._newest: dict[str, dict[str, Json]] = {}

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
            self._newest.setdefault(job, {})[name] = pod
            if not pod["spec"].get("schedulingGates"):
                self._ungated.setdefault(job, {}).setdefault(name, now)
            self._lock.notify_all()

    def wait(self, job: str, submitted: float) -> GangStart:
        """Wait until all pods of a Job are ungated. Raises TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._ungated.get(job, ())) == self._pods, _LIMIT):
                raise TimeoutError(f"{len(self._ungated.get(job, ()))} of {self._pods} pods of {job} are ungated")
            started, created = self._started.get(job, submitted), self._created_at(job)
            return GangStart(started - submitted, created - submitted, max(self._ungated[job].values()) - submitted)

    def wait_created(self, job: str) -> tuple[float, list[Json]]:
        """Wait until all pods of a Job exist; return when the last one appeared, and the pods. Raises TimeoutError."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self._created.get(job, ())) == self._pods, _LIMIT):
                raise TimeoutError(f"{len(self._created.get(job, ()))} of {self._pods} pods of {job} exist")
            return self._created_at(job), list(self._newest[job].values())

    def _created_at(self, job: str) -> float:
        return max(self._created[job].values())


class Bench:
    """Submits gangs one after another to a cluster whose pods are watched."""

    def __init__(self, cluster: LiveCluster, pods: int, watcher: _Watcher, client: MinimalClient) -> None:
        self._cluster = cluster
        self._pods = pods
        self._watcher = watcher
        self._client = client

    def gang(self, name: str) -> GangStart:
        """Submit a gang to the queue, and wait until it is ungated."""
        begin = time.monotonic()
        self._cluster.submit(name, pods=self._pods, topology=_HOSTNAME)
        start = self._watcher.wait(name, begin)
        self._delete(name)
        return start

    def floor(self, name: str) -> Floor:
        """Create a Job of gated pods, and ungate them with the minimal client."""
        begin = time.monotonic()
        self._cluster.api.post(_JOBS, _gated_job(name, self._pods)).ok()
        created, pods = self._watcher.wait_created(name)
        patched = self._client.send([[write] for write in _ungate_writes(pods)])
        self._delete(name)
        return Floor(created - begin, patched)

    def _delete(self, name: str) -> None:
        """Delete a Job, and wait until its pods and Workload no longer exist and use no CPU time."""
        from support.waiting import eventually

        cluster = self._cluster
        cluster.api.delete(f"{_JOBS}/{name}", propagationPolicy="Background").ok()
        for pod in cluster.pods(name):
            cluster.api.delete(f"{_PODS}/{pod['metadata']['name']}")
        eventually(lambda: not cluster.pods(name))
        eventually(lambda: not cluster.workloads())


def _gated_job(name: str, pods: int) -> Json:
    from zonewise_scheduler.controller.pods.pod_names import TOPOLOGY_GATE, WORKLOAD_ANNOTATION

    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {WORKLOAD_ANNOTATION: name}},
        "spec": {"restartPolicy": "Never", "containers": [container], "schedulingGates": [{"name": TOPOLOGY_GATE}]},
    }
    spec = {"completionMode": "Indexed", "parallelism": pods, "completions": pods, "backoffLimit": 0}
    return {"metadata": {"name": name}, "spec": {**spec, "template": template}}


def _ungate_writes(pods: Sequence[Json]) -> list[PreparedWrite]:
    """Return the patches that the controller would send, each pinning a pod to a node."""
    from zonewise_common.kube.client import PatchKind
    from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
    from zonewise_scheduler.controller.pods.node_pin import NodePin
    from zonewise_scheduler.controller.pods.ungate import Ungating, ungate_write

    def write(pod: ManagedPod, node: str) -> PreparedWrite:
        test = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
        operations = [test, *ungate_write(Ungating(pod, NodePin(node))).body]
        return PreparedWrite("PATCH", f"{_PODS}/{pod.name}", PatchKind.JSON.value, json.dumps(operations).encode())

    managed = [pod for pod in map(read_managed_pod, pods) if pod is not None]
    return [write(pod, f"node-{i}") for i, pod in enumerate(managed)]


def measure(
    cluster: LiveCluster, client: Client, pods: int, nodes: int, gangs: int
) -> tuple[list[GangStart], list[Floor]]:
    """Return the times of gangs that are submitted one after another; the first is omitted as a rehearsal."""
    from zonewise_common.kube.reflector import Reflector
    from zonewise_common.kube.resources import JOBS, PODS
    from zonewise_scheduler.controller.informers import decode_object
    from zonewise_scheduler.controller.writing.writer import THREADS

    cluster.add_nodes(nodes)
    cluster.add_queue(nodes * 8, topology=True)
    watcher = _Watcher(pods)
    reflectors: list[Reflector[Json]] = [
        Reflector(client, JOBS, decode_object, watcher.observe_job),
        Reflector(client, PODS, decode_object, watcher.observe_pod),
    ]
    access = ServerAccess(cluster.api.url, cluster.api.token or "", cluster.api.ca)
    starts: list[GangStart] = []
    floors: list[Floor] = []
    with (
        MinimalClient(access, THREADS) as minimal,
        cluster.controller("--writes-per-second", "10000", "--write-burst", "10000"),
    ):
        for reflector in reflectors:
            reflector.start()
            reflector.wait_synced(_LIMIT)
        bench = Bench(cluster, pods, watcher, minimal)
        for number in range(gangs + 1):
            floors.append(bench.floor(f"floor-{number}"))
            starts.append(bench.gang(f"gang-{number}"))
        for reflector in reflectors:
            reflector.close()
    return starts[1:], floors[1:]


def main(arguments: Sequence[str]) -> int:
    """Run the measurement and print the table; return 1 if the target is missed."""
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
    with real_live_cluster(scheduled=False) if is_real else simulated_live_cluster(scheduled=False) as cluster:
        flag, value = cluster.flags
        config = Config.from_kubeconfig(value) if flag == "--kubeconfig" else Config.from_url(value)
        client = Client(config)
        starts, floors = measure(cluster, client, options.pods, options.nodes, options.gangs)
        client.close()
    servers = "real servers" if is_real else "servers in memory"
    return show(_rows(f"gang of {options.pods} on {options.nodes:,} nodes, {servers}", starts, floors))


def _rows(label: str, starts: Sequence[GangStart], floors: Sequence[Floor]) -> list[Row]:
    started, created, ungated = (statistics.median(times) for times in zip(*starts, strict=True))
    floor_created, floor_patched = (statistics.median(times) for times in zip(*floors, strict=True))
    floor = statistics.median(each.created + each.patched for each in floors)
    worst = max(start.ungated for start in starts)
    return [
        Row(f"{label}: to all pods ungated, median", _ms(ungated), f"<= {_ms(MAX_SECONDS)}", ungated <= MAX_SECONDS),
        Row("... until its Job is started", _ms(started)),
        Row("... then until the Job controller has created all pods", _ms(created - started)),
        Row("... then until the last pod is ungated", _ms(ungated - created)),
        Row("... worst", _ms(worst)),
        Row("... floor of these servers: a Job of gated pods, patches by a minimal client", _ms(floor)),
        Row("... of it until the Job controller has created all pods", _ms(floor_created)),
        Row("... of it the patches", _ms(floor_patched)),
        Row("... gang / floor", f"{ungated / floor:.2f}"),
        load_row("... "),
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

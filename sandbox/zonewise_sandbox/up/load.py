"""A generated load: a job mix of the simulator, submitted as Jobs to the default queue.

The first jobs are submitted at once, until they request FILL times the capacity of the nodes. The queue is then not
empty, as in a cluster that has run for a while. The others follow as a Poisson process whose work is a share of the
nodes' capacity.
"""

from __future__ import annotations

import logging
import threading
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import AlreadyExists, KubeError
from zonewise_common.kube.resources import JOBS
from zonewise_sandbox.podrunner.types import GANG_PODS, RUN_SECONDS
from zonewise_scheduler.quota.api.declared_walltime import MAX_RUN_ANNOTATION
from zonewise_scheduler.quota.api.job_pod_sets import QUEUE_LABEL
from zonewise_scheduler.simulator.inputs.documents import Document
from zonewise_scheduler.simulator.inputs.mixes import DEFAULT_LOAD, MIXES, build_mix
from zonewise_scheduler.simulator.inputs.node_objects import fleet_from_reports
from zonewise_scheduler.simulator.inputs.source_files import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from zonewise_common.kube.config import Config
    from zonewise_sandbox.up.cluster_clock import ClusterClock
    from zonewise_sandbox.up.node_descriptions import NodeSet
    from zonewise_scheduler.simulator.scenario import Arrival

log = logging.getLogger(__name__)

QUEUE = "default"
FILL = 2.0
"""Amount that the initial jobs request, relative to the nodes' capacity."""
TTL_SECONDS = 3600
"""Seconds of the cluster's time for which a finished Job is kept."""
_JOBS_PER_MIX = 1000
"""Number of jobs that are drawn at once."""
_RETRY = 1.0
"""Seconds until a failed submission of a Job is repeated."""
_MEMORY_SHARE = 0.9
"""Share of a node's memory per CPU that a pod of the load requests: a kubelet reserves some for itself."""

Json = dict[str, Any]


class LoadError(ValueError):
    """A load that the nodes cannot run; the message names it."""


class SubmittedAt(NamedTuple):
    """A Job and its submission time, in seconds of the cluster's time after the start."""

    at: float
    job: Json


def load_jobs(name: str, nodes: NodeSet, *, share: float = DEFAULT_LOAD, seed: int = 0) -> Iterator[SubmittedAt]:
    """Return an endless sequence of Jobs of a mix, by time. Raises LoadError if the nodes cannot run the mix."""
    documents = [Document(f"Node {node.name}", _node(node.name, node.machine.allocatable)) for node in nodes.nodes]
    fleet = fleet_from_reports((), documents)
    if name not in MIXES:
        raise LoadError(f"--load {name}: unknown mix; the mixes are {', '.join(MIXES)}")
    resource = MIXES[name].resource
    capacity = fleet.total_capacity.get(resource, 0)
    memory_per_cpu = min(node.machine.capacity["memory"] // node.machine.capacity["cpu"] for node in nodes.nodes)

    def arrivals() -> Iterator[Arrival]:
        begin = 0.0
        for batch in count():
            scenario = build_mix(name, fleet, jobs=_JOBS_PER_MIX, load=share, seed=seed + batch)
            for arrival in scenario.arrivals:
                workload = arrival.workload
                yield arrival._replace(workload=_later(workload, begin, batch))
            begin += scenario.arrivals[-1].workload.created_at

    try:
        first = next(arrivals())
    except InputError as error:
        raise LoadError(f"--load {error}") from error
    del first
    return _submissions(arrivals(), capacity * FILL, resource, int(memory_per_cpu * _MEMORY_SHARE))


def _submissions(arrivals: Iterator[Arrival], fill: float, resource: str, memory_per_cpu: int) -> Iterator[SubmittedAt]:
    requested, begin = 0.0, None
    for arrival in arrivals:
        job, at = load_job(arrival, memory_per_cpu), arrival.workload.created_at
        pod_set = arrival.workload.pod_sets[0]
        requested += pod_set.pods * pod_set.requests[resource]
        if requested < fill:
            yield SubmittedAt(0.0, job)
        else:
            begin = at if begin is None else begin
            yield SubmittedAt(at - begin, job)


def load_job(arrival: Arrival, memory_per_cpu: int) -> Json:
    """Return the Job for an arrival, with the pods of its pod set, which do their work once all of them run.

    Each pod also requests memory, in bytes per CPU, so that its kubelet assigns it exclusive CPUs.
    """
    workload = arrival.workload
    pod_set = workload.pod_sets[0]
    cpus = max(1, pod_set.requests["cpu"] // 1000)
    limits = {"cpu": str(cpus), "memory": f"{max(1, cpus * memory_per_cpu >> 30)}Gi"}
    limits |= {name: str(amount) for name, amount in pod_set.requests.items() if "/" in name}
    annotations = {RUN_SECONDS: f"{arrival.run_time:.0f}", GANG_PODS: str(pod_set.pods)}
    container = {"name": "main", "image": "registry.example/load", "resources": {"limits": limits}}
    pod_spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {
        "metadata": {
            "name": workload.name,
            "namespace": "default",
            "labels": {QUEUE_LABEL: QUEUE},
            "annotations": {MAX_RUN_ANNOTATION: f"{workload.walltime:.0f}"},
        },
        "spec": {
            "suspend": True,
            "completionMode": "Indexed",
            "parallelism": pod_set.pods,
            "completions": pod_set.pods,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": TTL_SECONDS,
            "template": {"metadata": {"annotations": annotations}, "spec": pod_spec},
        },
    }


class LoadSubmitter:
    """Submits Jobs at their times, in a thread that runs while the context is entered."""

    def __init__(self, config: Config, jobs: Iterator[SubmittedAt], clock: ClusterClock) -> None:
        self._client = Client(config, user_agent="zonewise-load")
        self._jobs = jobs
        self._clock = clock
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(5.0)
        self._client.close()

    def _run(self) -> None:
        begin = self._clock()
        for at, job in self._jobs:
            if self._stopping.wait(max(0.0, begin + at - self._clock()) / self._clock.speed):
                return
            self._submit(job)

    def _submit(self, job: Json) -> None:
        while not self._stopping.is_set():
            try:
                self._client.create(JOBS, job, namespace="default")
                return
            except AlreadyExists:
                return
            except KubeError as error:
                log.warning("job %s: %s", job["metadata"]["name"], error)
                self._stopping.wait(_RETRY)


def _node(name: str, allocatable: dict[str, str]) -> Json:
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


def _later(workload: Any, seconds: float, batch: int) -> Any:  # noqa: ANN401
    from dataclasses import replace

    name = workload.name if not batch else f"{workload.name}-{batch}"
    return replace(workload, created_at=workload.created_at + seconds, name=name)

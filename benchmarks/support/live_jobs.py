"""Jobs of a scenario as objects on real servers with simulated nodes, for benchmarks from the users' point of view.

Several holders can start the Jobs. A queue may hold them before kube-scheduler: zonewise's controller, or Kueue's
manager (kueue_manager.py), also before kube-scheduler with a plugin (scheduler_plugins.py). Volcano may start them as
gangs (volcano_programs.py), or kube-scheduler runs without a queue. No pod of a gang works before all pods of the gang
run.
"""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.kueue_manager import kueue_absence, running_kueue
from benchmarks.support.scheduler_plugins import PLUGIN, plugin_absence
from benchmarks.support.volcano_programs import (
    DEFAULT_QUEUE,
    MIN_MEMBER,
    QUEUE_NAME,
    VOLCANO_SCHEDULER,
    running_volcano,
    volcano_absence,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Sequence

    import msgspec

    from support.live_cluster import LiveCluster
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.simulator.scenario import Scenario

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]
_T = TypeVar("_T")

QUEUE, KUEUE, VOLCANO, ALONE = "queue", "kueue", "volcano", "alone"
KUEUE_PLUGIN, KUEUE_PLUGIN_CACHE = "kueue-plugin", "kueue-plugin-cache"
TITLES = {
    QUEUE: "with the queue",
    KUEUE: "with Kueue's manager",
    KUEUE_PLUGIN: f"with Kueue and {PLUGIN}",
    KUEUE_PLUGIN_CACHE: f"with Kueue, {PLUGIN} and its cache",
    VOLCANO: "with Volcano",
    ALONE: "kube-scheduler alone",
}
"""Titles by the program that starts the Jobs."""
_PEER_ABSENCES = {
    KUEUE: (kueue_absence,),
    KUEUE_PLUGIN: (kueue_absence, plugin_absence),
    KUEUE_PLUGIN_CACHE: (kueue_absence, plugin_absence),
    VOLCANO: (volcano_absence,),
}
"""Functions that return why the programs of a peer cannot run here."""
PLACING_QUEUES = (QUEUE, KUEUE)
"""Programs that also place the pods of these Jobs on nodes."""
QUEUES = (*PLACING_QUEUES, KUEUE_PLUGIN, KUEUE_PLUGIN_CACHE)
"""Programs that hold Jobs by Kueue's label until they admit them."""
JOB_LABEL = "batch.kubernetes.io/job-name"
_SYNC_SECONDS = 60.0
_JOBS = "/apis/batch/v1/namespaces/default/jobs"


class GangJob(NamedTuple):
    """One Job, with times in seconds."""

    name: str
    submitted: float
    """When it is submitted, after the first one."""
    pods: int
    cpus: int
    """CPUs of each pod."""
    run: float
    deadline: int


Manifest = Callable[[GangJob], Json]
"""Function that returns a Job as an object; see job_manifest()."""


class Watch(NamedTuple, Generic[_T]):
    """A kind of objects to watch."""

    resource: Resource
    decode: Callable[[msgspec.Raw], _T]
    observe: Callable[[_T | None, _T | None], object]
    """Function of an object before and after a change."""


def gang_jobs(scenario: Scenario) -> list[GangJob]:
    """Return the jobs of a scenario, sorted by submission. Raises ValueError if a pod requests a fraction of a CPU."""
    first = min(arrival.workload.created_at for arrival in scenario.arrivals)
    return sorted(
        (
            GangJob(
                arrival.workload.name,
                arrival.workload.created_at - first,
                arrival.workload.total_requests[0].pods,
                _cpus(arrival.workload.pod_sets[0].requests["cpu"]),
                arrival.run_time,
                math.ceil(arrival.workload.walltime),
            )
            for arrival in scenario.arrivals
        ),
        key=lambda job: job.submitted,
    )


def _cpus(milli: int) -> int:
    cpus, rest = divmod(milli, 1000)
    if rest:
        raise ValueError(f"a pod requests {milli} m CPU")
    return cpus


def absence(holders: Iterable[str]) -> str:
    """Return why servers with these holders cannot run here, or "" if they can."""
    from support.apiserver import binaries
    from support.programs import find_program, missing_program

    if isinstance(servers := binaries(), str):
        return servers
    for program in ("kube-controller-manager", "kube-scheduler"):
        if find_program(program) is None:
            return missing_program(program)
    return next((reason for holder in holders if (reason := peer_absence(holder))), "")


def present(holders: Iterable[str]) -> list[str]:
    """Return the holders, without the peers that cannot run here."""
    return [holder for holder in holders if not peer_absence(holder)]


def peers(holders: Collection[str]) -> list[str]:
    """Return the holders with which the queue is compared, if it is among them."""
    return [holder for holder in holders if holder != QUEUE] if QUEUE in holders else []


def peer_absence(holder: str) -> str:
    """Return why the programs of a holder cannot run here, or "" if they can."""
    return next((reason for absence in _PEER_ABSENCES.get(holder, ()) if (reason := absence())), "")


@contextlib.contextmanager
def running_servers(nodes: int, cpus: int, holder: str) -> Generator[LiveCluster]:
    """Run a cluster of nodes with `cpus` CPUs each, the program that holds the Jobs, and the one that binds pods."""
    from support.e2e.cluster import running_scheduler
    from support.live_cluster import real_live_cluster

    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(real_live_cluster(scheduled=False))
        cluster.add_nodes(nodes, cpus)
        if holder == VOLCANO:
            stack.enter_context(running_volcano(cluster))
        else:
            stack.enter_context(running_scheduler(Path(cluster.flags[1]), cluster.directory))
        if holder in QUEUES:
            cluster.add_queue(nodes * cpus, topology=True)
            stack.enter_context(running_kueue(cluster) if holder == KUEUE else cluster.controller())
        yield cluster


@contextlib.contextmanager
def submitting(
    jobs: Sequence[GangJob], cluster: LiveCluster, watch: Watch[_T], manifest: Manifest
) -> Generator[tuple[Client, float]]:
    """Create each Job at its time while a kind of objects is watched.

    Yields a client of the cluster, and the monotonic time at which the first Job is created.
    """
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.config import Config
    from zonewise_common.kube.reflector import Reflector

    client = Client(Config.from_kubeconfig(cluster.flags[1]))
    reflector = Reflector(client, watch.resource, watch.decode, watch.observe)
    reflector.start()
    reflector.wait_synced(_SYNC_SECONDS)
    begin = time.monotonic()
    submitter = threading.Thread(target=_submit, args=(jobs, cluster, begin, manifest), daemon=True)
    submitter.start()
    yield client, begin
    submitter.join()
    reflector.close()
    client.close()


def _submit(jobs: Sequence[GangJob], cluster: LiveCluster, begin: float, manifest: Manifest) -> None:
    for job in jobs:
        time.sleep(max(0.0, begin + job.submitted - time.monotonic()))
        cluster.api.post(_JOBS, manifest(job)).ok()


def job_manifest(job: GangJob, holder: str) -> Json:
    """Return a Job as its users would write it for the program that starts it, with an end on simulated nodes.

    With Volcano, it has no deadline, which would count from its creation. With a plugin that selects nodes by zone,
    Kueue does not place its pods.
    """
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": str(job.cpus)}}}
    pod_spec: Json = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    pod_annotations = {"zonewise.dev/simulated-run-seconds": f"{job.run:.3f}",
                       "zonewise.dev/simulated-gang-pods": str(job.pods)}  # fmt: skip
    spec: Json = {
        "completionMode": "Indexed",
        "parallelism": job.pods,
        "completions": job.pods,
        "backoffLimit": 0,
        "template": {"metadata": {"annotations": pod_annotations}, "spec": pod_spec},
    }
    metadata: Json = {"name": job.name}
    if holder in QUEUES:
        metadata["labels"] = {"kueue.x-k8s.io/queue-name": "queue"}
        spec["suspend"] = True
    if holder in PLACING_QUEUES:
        pod_annotations["kueue.x-k8s.io/podset-preferred-topology"] = "kubernetes.io/hostname"
    if holder == VOLCANO:
        metadata["annotations"] = {MIN_MEMBER: str(job.pods)}
        pod_annotations[QUEUE_NAME] = DEFAULT_QUEUE
        pod_spec["schedulerName"] = VOLCANO_SCHEDULER
    else:
        spec["activeDeadlineSeconds"] = job.deadline
    return {"metadata": metadata, "spec": spec}

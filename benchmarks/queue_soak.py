"""The queue under churn and faults, on real servers: `python -m benchmarks.queue_soak [--minutes 20] [--seed 1]`.

It runs an API server, etcd, kube-controller-manager, two replicas of the queue's controller, and simulated nodes. Two
queues share the quota of a cohort, with preemption and placement on nodes. Every second, a user submits, deletes, moves
or deactivates a Job, deletes a pod, or stops a queue. Parts are killed or paused at random, and hostile clients attack
both replicas. The soak counts:

- the largest quota that pods have held at once;
- Jobs that wait although they fit, or whose pods are held although they run, while all parts are up;
- probes that get no response while their program runs;
- tracebacks in the logs of the replicas;
- the growth of memory, threads and file descriptors of the replicas;
- at the end, with no more changes and faults, Jobs that do not end, and quota that remains in use.

The binaries of kube-apiserver, etcd and kube-controller-manager are needed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import sys
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.soak_clients import HostileClients
from benchmarks.support.soak_cluster import Part
from benchmarks.support.soak_loop import SoakLoop, get
from benchmarks.support.targets import Row, show, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from support.apiserver import RealServer
    from support.live_cluster import ControllerProcess, LiveCluster
    from support.programs import RestartableProcess

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

NODES = 4
NODE_CPUS = 16
QUEUES = ("a", "b")
PRIORITIES = {"low": 0, "high": 100}
MAX_JOBS = 30
MAX_LATE = 10.0
"""Seconds that a Job may wait although it fits, or run with held pods. Preemptions and retries take some."""
_SETTLE = 240.0
"""Maximum of seconds until all Jobs have ended after the last change."""
_KEPT = 30
"""Seconds until an ended Job is deleted, so that the number of objects does not grow."""
_ENDED = ("Succeeded", "Failed")
_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
_NO_PORT = 1
"""A port on which nothing listens: the replica is restarting."""


class Counts(NamedTuple):
    """The counts of Jobs so far."""

    created: int = 0
    ended: int = 0
    preempted: int = 0
    largest_usage: int = 0
    """Largest number of CPUs that pods have held at once."""
    longest_late: float = 0.0
    """Longest time in seconds of a Job in a state that must not last."""
    late: tuple[str, ...] = ()
    """Jobs that were in such a state for too long."""


class _Replica:
    """A controller on a fixed port, which takes part in the leader election."""

    def __init__(self, live: LiveCluster, port: int) -> None:
        election = ("--leader-election", "true", "--namespace", "default")
        self._flags = (*live.flags, *election, "--metrics-listen", f"127.0.0.1:{port}")
        self._directory = live.directory
        self._port = port
        self._process: ControllerProcess | None = None

    def start(self) -> None:
        from support.live_cluster import ControllerProcess

        self._process = ControllerProcess(self._directory, *self._flags)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    @property
    def running(self) -> ControllerProcess:
        assert self._process is not None, "never started"
        return self._process

    @property
    def port(self) -> int | None:
        """The port, once it is served."""
        return self._port if "serving on port" in self.running.said else None

    def part(self, name: str) -> Part:
        return Part(name, self.kill, self.start, lambda: self.running.process.pid, lambda: self.running.said)


class SoakedQueue:
    """Jobs that come and go in two queues; implements SoakedSystem."""

    servers = frozenset({"etcd", "kube-apiserver"})

    def __init__(
        self, server: RealServer, manager: RestartableProcess, live: LiveCluster, replicas: Mapping[str, _Replica],
        chance: random.Random,
    ) -> None:  # fmt: skip
        self._server = server
        self._live = live
        self._replicas = replicas
        self._chance = chance
        self._stopped: set[str] = set()
        self._late_since: dict[str, float] = {}
        self._ended: set[str] = set()
        processes = {
            "etcd": server.etcd, "kube-apiserver": server.apiserver, "kube-controller-manager": manager,
        }  # fmt: skip
        parts = [
            Part(name, process.kill, process.start, partial(getattr, process, "pid"))
            for name, process in processes.items()
        ]
        self.parts = {part.name: part for part in (*parts, *(each.part(name) for name, each in replicas.items()))}
        self.counts = Counts()

    def interrupted(self) -> None:
        self._late_since.clear()

    def wait_until_served(self) -> None:
        self._server.wait_until_ready()

    def probe_port(self, name: str) -> int | None:
        """Return the port of a replica; None before it serves, and for other programs."""
        return self._replicas[name].port if name in self._replicas else None

    def role(self, name: str) -> str:
        """Return whether a replica leads now: a leader holds the state of the planner, and the other one does not."""
        return " as leader" if self._leads(self.probe_port(name)) else " standing by"

    def _leads(self, port: int | None) -> bool:
        try:
            return port is not None and get(port, "/readyz").strip() == "leads"
        except OSError:
            return False

    def summary(self) -> str:
        counts = self.counts
        return (f"{counts.created} Jobs, {counts.ended} ended, {counts.preempted} preempted, {len(counts.late)} late, "
                f"longest {counts.longest_late:.1f} s")  # fmt: skip

    # --- changes

    def change(self) -> None:
        """Do what a user or an administrator does."""
        jobs = [job["metadata"]["name"] for job in self._jobs() if not _has_ended(job)]
        if len(jobs) >= MAX_JOBS:
            self._delete_job(self._chance.choice(jobs))
            return
        changes = (self._change_priority, self._set_active, self._delete_pod, self._delete_job)
        if jobs and self._chance.random() < 0.35:
            self._chance.choice(changes)(self._chance.choice(jobs))
        elif self._chance.random() < 0.05:
            self._stop_or_start_queue()
        else:
            self._submit()

    def _submit(self) -> None:
        name = f"job-{self.counts.created}"
        self.counts = self.counts._replace(created=self.counts.created + 1)
        chance = self._chance
        fields: Json = {"backoffLimit": 20, "podReplacementPolicy": "Failed", "ttlSecondsAfterFinished": _KEPT}
        if chance.random() < 0.5:
            fields["activeDeadlineSeconds"] = 120
        self._live.submit(
            name, chance.choice((1, 2, 4)), pods=chance.randint(1, 8), run=chance.uniform(1, 15),
            stop=chance.randint(0, 2), priority=chance.choice(tuple(PRIORITIES)), queue=chance.choice(QUEUES), **fields,
        )  # fmt: skip

    def _delete_job(self, name: str) -> None:
        from support.live_cluster import JOBS

        self._live.api.delete(f"{JOBS}/{name}", propagationPolicy="Background")

    def _delete_pod(self, name: str) -> None:
        from support.live_cluster import PODS

        pods = self._live.pods(name)
        if pods:
            self._live.api.delete(f"{PODS}/{self._chance.choice(pods)['metadata']['name']}")

    def _change_priority(self, name: str) -> None:
        from support.live_cluster import JOBS

        labels = {_PRIORITY_LABEL: self._chance.choice(tuple(PRIORITIES))}
        self._live.api.patch(f"{JOBS}/{name}", {"metadata": {"labels": labels}})

    def _set_active(self, name: str) -> None:
        """Deactivate the Workload of a Job, or activate it again."""
        for workload in self._live.workloads():
            if _owner(workload) == name:
                active = not workload["spec"].get("active", True)
                self._patch_workload(workload, {"active": active})

    def _patch_workload(self, workload: Json, spec: Json) -> None:
        from support.live_cluster import WORKLOADS

        self._live.api.patch(f"{WORKLOADS}/{workload['metadata']['name']}", {"spec": spec})

    def _stop_or_start_queue(self) -> None:
        name = self._chance.choice(QUEUES)
        policy = "None" if name in self._stopped else self._chance.choice(("Hold", "HoldAndDrain"))
        self._set_stop_policy(name, policy)

    def _set_stop_policy(self, name: str, policy: str) -> None:
        from support.live_cluster import KUEUE

        self._live.api.patch(f"{KUEUE}/clusterqueues/{name}", {"spec": {"stopPolicy": policy}}).ok()
        (self._stopped.discard if policy == "None" else self._stopped.add)(name)

    # --- audit

    def audit(self, *, calm: bool) -> None:
        """Count the CPUs that pods hold and, while it is calm, Jobs in states that must not last."""
        jobs, pods, workloads = self._jobs(), self._pods(), self._live.workloads()
        active = [pod for pod in pods if pod["status"].get("phase") not in _ENDED]
        usage = sum(_cpus(pod) for pod in active)
        ended = self._ended | {job["metadata"]["uid"] for job in jobs if _has_ended(job)}
        preempted = max(self.counts.preempted, sum(_preemptions(workload) for workload in workloads))
        self._ended = ended
        self.counts = self.counts._replace(
            largest_usage=max(self.counts.largest_usage, usage), ended=len(ended), preempted=preempted
        )
        if calm:
            waiting = waiting_though_fitting(jobs, workloads, active, self._stopped)
            self._audit_states([*held_pods(jobs, pods), *waiting])
        else:
            self._late_since.clear()

    def _audit_states(self, states: Sequence[str]) -> None:
        now = time.monotonic()
        for state in self._late_since.keys() - set(states):
            del self._late_since[state]
        for state in states:
            late = now - self._late_since.setdefault(state, now)
            self.counts = self.counts._replace(longest_late=max(self.counts.longest_late, late))
            if late > MAX_LATE:
                del self._late_since[state]
                self.counts = self.counts._replace(late=(*self.counts.late, state))

    def _jobs(self) -> list[Json]:
        from support.live_cluster import JOBS

        return self._live.api.get(JOBS).ok()["items"]

    def _pods(self) -> list[Json]:
        from support.live_cluster import PODS

        return self._live.api.get(PODS).ok()["items"]

    # --- the end

    def settle(self) -> list[str]:
        """Start all queues and Workloads; return what remains once all Jobs should have ended and been deleted."""
        for name in QUEUES:
            self._set_stop_policy(name, "None")
        for workload in self._live.workloads():
            if not workload["spec"].get("active", True):
                self._patch_workload(workload, {"active": True})
        if not _within(_SETTLE, lambda: all(map(_has_ended, self._jobs()))):
            names = [job["metadata"]["name"] for job in self._jobs() if not _has_ended(job)]
            return [f"Jobs that do not end: {', '.join(names)}"]
        for job in self._jobs():
            self._delete_job(job["metadata"]["name"])
        left: list[str] = []
        if not _within(60.0, lambda: not self._live.workloads() and not self._pods()):
            left.append(f"{len(self._live.workloads())} Workloads and {len(self._pods())} pods of deleted Jobs")
        if not _within(60.0, lambda: not self._used()):
            left.append(f"usage of the queues: {self._used()}")
        return left

    def _used(self) -> list[Json]:
        """Return the usage that the statuses of the queues state, without zeros."""
        from support.live_cluster import KUEUE

        queues = self._live.api.get(f"{KUEUE}/clusterqueues").ok()["items"]
        return [
            resource
            for queue in queues
            for flavor in queue["status"].get("flavorsReservation", ())
            for resource in flavor["resources"]
            if resource["total"] != "0"
        ]


def held_pods(jobs: Iterable[Json], pods: Iterable[Json]) -> list[str]:
    """Return the Jobs that are not suspended and have pods which the queue holds.

    The Job controller creates the pods, so pods that do not exist yet do not count.
    """
    held = Counter(
        pod["metadata"]["labels"]["batch.kubernetes.io/job-name"] for pod in pods if pod["spec"].get("schedulingGates")
    )
    names = [job["metadata"]["name"] for job in jobs if not job["spec"].get("suspend") and not _has_ended(job)]
    return [f"{name} runs, but {held[name]} of its pods are held" for name in names if held[name]]


def waiting_though_fitting(
    jobs: Iterable[Json], workloads: Iterable[Json], active: Iterable[Json], stopped: Collection[str]
) -> list[str]:
    """Return the Jobs that wait although they fit on the nodes, and so within the quota of the cohort.

    `active`: the pods that have not ended. `stopped`: the queues that start no Jobs.
    """
    free = dict.fromkeys((f"node-{i}" for i in range(NODES)), NODE_CPUS)
    for pod in active:
        node = pod["spec"].get("nodeName")
        if node is None:
            return []  # it will take a place soon
        free[node] -= _cpus(pod)
    held = {_owner(workload) for workload in workloads if _holds_quota(workload)}
    queued = {_owner(workload) for workload in workloads if workload["spec"].get("active", True)} - held
    if held - {job["metadata"]["name"] for job in jobs if not job["spec"].get("suspend")}:
        return []  # an admitted Job has no pods yet
    return [
        f"{job['metadata']['name']} waits although it fits"
        for job in jobs
        if job["metadata"]["name"] in queued and not _has_ended(job)
        and job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] not in stopped
        and sum(amount // _job_cpus(job) for amount in free.values()) >= job["spec"]["parallelism"]
    ]  # fmt: skip


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


@contextlib.contextmanager
def running_soaked_queue(chance: random.Random) -> Generator[SoakedQueue]:
    """Run the servers, simulated nodes and two replicas, with two queues in a cohort."""
    from support.apiserver import real_apiserver
    from support.controller_manager import real_controller_manager
    from support.e2e.cluster import write_kubeconfig
    from support.kubelets import short_directory
    from support.live_cluster import LiveCluster, add_queue_kinds
    from zonewise_common.kube.config import Config
    from zonewise_sandbox.podrunner import PodRunner
    from zonewise_sandbox.up.ports import reserved_port

    with ExitStack() as stack:
        server = stack.enter_context(real_apiserver())
        manager = stack.enter_context(real_controller_manager(server))
        directory = stack.enter_context(short_directory())
        stack.enter_context(PodRunner(Config.from_url(server.url, server.token, ca=server.ca)))
        add_queue_kinds(server.admin)
        flags = ("--kubeconfig", str(write_kubeconfig(server, directory)))
        live = LiveCluster(server.admin, directory, flags, real=True)
        _add_queues(live)
        replicas: dict[str, _Replica] = {}
        for number in range(2):
            replica = replicas[f"replica {number}"] = _Replica(live, stack.enter_context(reserved_port()))
            replica.start()
            stack.callback(replica.kill)
        yield SoakedQueue(server, manager, live, replicas, chance)


def _add_queues(live: LiveCluster) -> None:
    from support.live_cluster import NAMESPACE
    from support.queue_objects import cluster_queue_spec

    live.add_nodes(NODES, NODE_CPUS)
    live.create("topologies", "Topology", "nodes", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
    flavor = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "nodes"}
    live.create("resourceflavors", "ResourceFlavor", "all", flavor)
    for name, value in PRIORITIES.items():
        live.create("workloadpriorityclasses", "WorkloadPriorityClass", name, {}, value=value)
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    for name in QUEUES:
        quota = {"cpu": str(NODES * NODE_CPUS // len(QUEUES))}
        live.create("clusterqueues", "ClusterQueue", name,
                    cluster_queue_spec(quota, "all", cohortName="all", preemption=preemption))  # fmt: skip
        live.create(f"namespaces/{NAMESPACE}/localqueues", "LocalQueue", name, {"clusterQueue": name})


def main(arguments: Sequence[str]) -> int:
    """Run the soak and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.programs import find_program, missing_program

    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    for program in ("etcd", "kube-apiserver", "kube-controller-manager"):
        if find_program(program) is None:
            return skip(missing_program(program))
    logging.getLogger("zonewise_sandbox").setLevel(logging.CRITICAL)  # its writes fail while the server is down
    chance = random.Random(options.seed)  # noqa: S311 -- no secret
    with ExitStack() as stack:
        queue = stack.enter_context(running_soaked_queue(chance))
        loop = SoakLoop(queue, chance)
        for index, name in enumerate(("replica 0", "replica 1")):
            port = partial(_port_or_none, queue, name)
            stack.enter_context(HostileClients(port, options.seed + index))
        loop.run(options.minutes * 60)
        left = queue.settle()
        for text in (*queue.counts.late, *left, *loop.counts.unanswered[:20], *loop.counts.tracebacks):
            print(text)
        return show([*_rows(queue.counts, left), *loop.rows()])


def _port_or_none(queue: SoakedQueue, name: str) -> int:
    return queue.probe_port(name) or _NO_PORT


def _rows(counts: Counts, left: Sequence[str]) -> list[Row]:
    cpus, most = NODES * NODE_CPUS, counts.largest_usage
    return [
        Row("Jobs created", str(counts.created)),
        Row("Jobs that ended before they were deleted", str(counts.ended)),
        Row("preemptions of one Workload or more, seen at once", str(counts.preempted)),
        Row("most CPUs that pods have held at once", str(most), f"<= {cpus}", most <= cpus),
        Row("longest time that a Job fits and waits, or its pods are held", f"{counts.longest_late:.1f} s",
            f"<= {MAX_LATE:.0f} s", not counts.late),
        Row("at the end: Jobs, Workloads, pods or quota that remain", str(len(left)), "0", not left),
    ]  # fmt: skip


def _has_ended(job: Json) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(entry["type"] in {"Complete", "Failed"} and entry["status"] == "True" for entry in conditions)


def _cpus(obj: Json) -> int:
    return int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])


def _job_cpus(job: Json) -> int:
    return _cpus(job["spec"]["template"])


def _owner(workload: Json) -> str:
    """Return the name of the Job of a Workload."""
    return next((owner["name"] for owner in workload["metadata"].get("ownerReferences", ())), "")


def _holds_quota(workload: Json) -> bool:
    return "admission" in workload.get("status", {})


def _preemptions(workload: Json) -> int:
    evictions: list[Json] = workload.get("status", {}).get("schedulingStats", {}).get("evictions", [])
    return sum(entry["count"] for entry in evictions if entry["reason"] == "Preempted")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

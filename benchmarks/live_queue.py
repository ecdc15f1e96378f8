"""The live queue on a real API server, under Kueue's baseline generator: `python -m benchmarks.live_queue`.

The load is a fifth of test/performance/scheduler/configs/baseline: 3,000 Workloads in 30 ClusterQueues of 5 cohorts,
created over time. As in Kueue's runner (test/performance/scheduler/runner/controller), an admitted Workload is finished
after its run time, and an evicted one is released. The controller is a separate process, with and without Kueue's limit
of 50 requests a second.

The floor is the time that the servers need for these Workloads without a queue. A minimal client (minimal_client.py)
creates, admits and finishes each at once, regardless of quota. The CPU time of the servers explains differences between
makespans. Other programs on the machine take CPU time away. The longer a Workload then waits, the more often the status
of its queue is written.

Kueue's minimal manager is measured in the same way if its binary is available. It is a build of
test/performance/scheduler/minimalkueue, with the request limit that was set at build time.

The binaries of kube-apiserver and etcd are needed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import yaml

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.minimal_client import MinimalClient, PreparedWrite, ServerAccess
from benchmarks.support.targets import Row, load_row, show, skip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from support.apiserver import RealServer
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.reflector import Reflector

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

COHORTS, QUEUES = 5, 6
KUEUE_RATE, KUEUE_BURST = 50, 100
"""Request limits of Kueue's minimal manager (test/performance/scheduler/minimalkueue/main.go)."""
PEER = "minimalkueue"
KUEUE_SECONDS = 82.0
"""Seconds that this manager takes with that limit, on two cores."""
MAX_SECONDS = 20.0
MAX_CPU_MS = 5.0
MAX_WRITES = 1.3
MAX_RESIDENT = 150 << 20
NAMESPACE = "default"
_THREADS = 4
_WRITE = re.compile(
    r'apiserver_request_total{(?=.*code="2)(?=.*group="kueue.x-k8s.io")(?=.*verb="(PATCH|PUT|APPLY|DELETE)")'
)
_RETRY = 0.02
"""Seconds before a write is repeated if the object has changed meanwhile."""
_KIND = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload"}


class WorkloadClass(NamedTuple):
    """Equal Workloads of each queue, created one after another."""

    name: str
    amount: int
    cpus: int
    run: float
    interval: float
    priority: int


CLASSES = (
    WorkloadClass("small", 70, 1, 0.2, 0.1, 50),
    WorkloadClass("medium", 20, 5, 0.5, 0.5, 100),
    WorkloadClass("large", 10, 20, 1.0, 1.2, 200),
)
TOTAL = COHORTS * QUEUES * sum(entry.amount for entry in CLASSES)


class LoadResult(NamedTuple):
    """The measurements of one run."""

    seconds: float
    """From the first creation to the end of the last Workload."""
    cpu_seconds: float
    """CPU seconds of the controller."""
    resident: int
    """Resident bytes of the controller at the end."""
    writes: float
    """Writes of the controller per Workload."""
    server_cpu: float
    """CPU seconds of kube-apiserver and etcd."""


class FloorResult(NamedTuple):
    """The cost of a run's writes without a queue."""

    seconds: float
    server_cpu: float
    """CPU seconds of kube-apiserver and etcd."""


class _TaskQueue:
    """Tasks sorted by time, and the threads that run them."""

    def __init__(self, carry_out: Callable[[str, Json], None], done: threading.Event) -> None:
        self._carry_out = carry_out
        self._done = done
        self._condition = threading.Condition()
        self._tasks: list[tuple[float, int, str, Json]] = []
        self._serial = 0

    def add(self, at: float, task: str, obj: Json) -> None:
        with self._condition:
            self._serial += 1
            heapq.heappush(self._tasks, (at, self._serial, task, obj))
            self._condition.notify()

    def start(self) -> None:
        for i in range(_THREADS):
            threading.Thread(target=self._work, name=f"runner-{i}", daemon=True).start()

    def _work(self) -> None:
        while not self._done.is_set():
            with self._condition:
                wait = self._tasks[0][0] - time.monotonic() if self._tasks else 0.1
                if wait > 0:
                    self._condition.wait(min(wait, 0.1))
                    continue
                _, _, task, obj = heapq.heappop(self._tasks)
            self._carry_out(task, obj)


class Runner:
    """Creates, finishes and releases Workloads by time, and counts its own writes."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._runs: dict[str, float] = {}
        self._scheduled: set[tuple[str, str]] = set()
        self._newest: dict[str, Json] = {}
        self._finished: set[str] = set()
        self.status_writes = 0
        self.done = threading.Event()
        self.ended_at = 0.0
        self._creations = _TaskQueue(self._carry_out, self.done)
        self._ends = _TaskQueue(self._carry_out, self.done)

    def start(self, start: float) -> None:
        """Create all Workloads from the time `start` on, in threads."""
        for entry, i, obj in _workloads():
            self._runs[obj["metadata"]["name"]] = entry.run
            self._creations.add(start + (i + 1) * entry.interval, "create", obj)
        self._creations.start()
        self._ends.start()

    def observe(self, _old: Json | None, obj: Json | None) -> None:
        """Handle a Workload from a watch: finish it after its run time, or release it."""
        from zonewise_scheduler.controller.workloads.conditions import is_true

        if obj is None:
            return
        name, now = obj["metadata"]["name"], time.monotonic()
        self._newest[name] = obj
        if is_true(obj, "Finished"):
            self._finished.add(name)
            if len(self._finished) == TOTAL:
                self.ended_at = now
                self.done.set()
        elif is_true(obj, "Evicted") and is_true(obj, "QuotaReserved"):
            self._ends.add(now, "release", obj)
        elif is_true(obj, "Admitted"):
            version = next(c["lastTransitionTime"] for c in obj["status"]["conditions"] if c["type"] == "QuotaReserved")
            if (name, version) not in self._scheduled:
                self._scheduled.add((name, version))
                self._ends.add(now + self._runs[name], "finish", obj)

    def _carry_out(self, task: str, obj: Json) -> None:
        from zonewise_common.kube.client import PatchKind
        from zonewise_common.kube.errors import Conflict
        from zonewise_common.kube.resources import WORKLOADS
        from zonewise_scheduler.controller.workloads.conditions import is_true
        from zonewise_scheduler.controller.workloads.status import finish_for, release_quota

        if task == "create":
            self._client.create(WORKLOADS, obj)
            return
        name = obj["metadata"]["name"]
        newest, now = self._newest[name], time.time()
        if not is_true(newest, "QuotaReserved") or is_true(newest, "Finished"):
            return
        if is_true(newest, "Evicted") != (task == "release"):
            return
        body = release_quota(newest, now) if task == "release" else finish_for(newest, "ByTest", "By test runner", now)
        metadata = {"resourceVersion": newest["metadata"]["resourceVersion"]}
        try:
            self._client.patch(WORKLOADS, name, {**(body or {}), "metadata": metadata}, kind=PatchKind.MERGE,
                               namespace=NAMESPACE, subresource="status")  # fmt: skip
            self.status_writes += 1
        except Conflict:
            self._ends.add(time.monotonic() + _RETRY, task, obj)


def _workloads() -> Iterator[tuple[WorkloadClass, int, Json]]:
    """Yield all Workloads, each with its class and its number in its queue."""
    for cohort in range(COHORTS):
        for queue in range(QUEUES):
            for entry in CLASSES:
                for i in range(entry.amount):
                    yield entry, i, _workload(entry, f"{entry.name}-{cohort}-{queue}-{i}", f"q-{cohort}-{queue}")


def _workload(entry: WorkloadClass, name: str, queue: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(entry.cpus)}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"class": entry.name}}
    return {
        **_KIND,
        "metadata": metadata,
        "spec": {"queueName": queue, "priority": entry.priority, "podSets": [pod_set]},
    }


def _prepare(server: RealServer) -> None:
    """Define Kueue's kinds and create the queues."""
    from support.queue_objects import resource_groups

    crds = sorted((PROJECT / "manifests" / "scheduler" / "components" / "kueue-crds").glob("*s.yaml"))
    for file in crds:
        server.admin.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(file.read_text())
        ).ok()
    group = "/apis/kueue.x-k8s.io/v1beta2"
    deadline = time.monotonic() + 60
    while server.admin.get(f"{group}/clusterqueues").status != 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    _create(
        server,
        f"{group}/resourceflavors",
        {**version, "kind": "ResourceFlavor", "metadata": {"name": "rf"}, "spec": {}},
    )
    for cohort in range(COHORTS):
        for queue in range(QUEUES):
            name = f"q-{cohort}-{queue}"
            spec = {
                "cohortName": f"cohort-{cohort}",
                "namespaceSelector": {},
                "resourceGroups": resource_groups({"cpu": "20"}, "rf", borrowingLimit="100"),
                "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            }
            _create(
                server,
                f"{group}/clusterqueues",
                {**version, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
            )
            local_queue = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
            _create(
                server,
                f"{group}/namespaces/{NAMESPACE}/localqueues",
                {**version, "kind": "LocalQueue", **local_queue},
            )


def _create(server: RealServer, path: str, obj: Json) -> None:
    server.admin.post(path, obj).ok()


def run_load(server: RealServer, *command: str) -> LoadResult:
    """Run all Workloads through a controller, which a command starts."""
    from support.e2e.cluster import write_kubeconfig
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.config import Config
    from zonewise_common.kube.reflector import Reflector
    from zonewise_common.kube.resources import WORKLOADS
    from zonewise_scheduler.controller.informers import decode_object

    kubeconfig = str(write_kubeconfig(server, server.directory))
    client = Client(Config.from_kubeconfig(kubeconfig))
    runner = Runner(client)
    log = server.directory / "controller.log"
    with (
        log.open("w") as output,
        subprocess.Popen([*command, "--kubeconfig", kubeconfig], stdout=output, stderr=output) as controller,
    ):
        while not _are_queues_active(server):
            if controller.poll() is not None:
                raise RuntimeError(f"the controller has ended: {log.read_text()}")
            time.sleep(0.1)
        process = psutil.Process(controller.pid)
        before = process.cpu_times()
        reflector = Reflector(client, WORKLOADS, decode_object, runner.observe)
        reflector.start()
        reflector.wait_synced(60.0)
        writes, server_cpu = _status_writes(server), _server_cpu(server)
        start = time.monotonic()
        runner.start(start)
        runner.done.wait(600.0)
        after = process.cpu_times()
        resident = process.memory_info().rss
        written = _status_writes(server) - writes - runner.status_writes
        server_cpu = _server_cpu(server) - server_cpu
        reflector.close()
        controller.terminate()
    client.close()
    cpu = after.user + after.system - before.user - before.system
    return LoadResult(runner.ended_at - start, cpu, resident, written / TOTAL, server_cpu)


def run_floor(server: RealServer) -> FloorResult:
    """Create, admit and finish all Workloads with the minimal client, while a watch receives them."""
    from zonewise_common.kube.client import Client
    from zonewise_common.kube.config import Config
    from zonewise_common.kube.reflector import Reflector
    from zonewise_common.kube.resources import WORKLOADS
    from zonewise_scheduler.controller.informers import decode_object
    from zonewise_scheduler.controller.writing.writer import THREADS

    chains = [_floor_writes(entry, obj) for entry, _, obj in _workloads()]
    client = Client(Config.from_url(server.url, server.token, ca=server.ca))
    reflector: Reflector[Json] = Reflector(client, WORKLOADS, decode_object, lambda _old, _new: None)
    with MinimalClient(ServerAccess(server.url, server.token, server.ca), THREADS) as minimal:
        reflector.start()
        reflector.wait_synced(60.0)
        before = _server_cpu(server)
        seconds = minimal.send(chains)
        cpu = _server_cpu(server) - before
    reflector.close()
    client.close()
    return FloorResult(seconds, cpu)


def _are_queues_active(server: RealServer) -> bool:
    """Return whether a controller has set up every ClusterQueue."""
    from zonewise_scheduler.controller.workloads.conditions import is_true

    queues = server.admin.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues").ok()["items"]
    return all(is_true(queue, "Active") for queue in queues)


def _floor_writes(entry: WorkloadClass, obj: Json) -> list[PreparedWrite]:
    """Return the writes that create, admit and finish a Workload."""
    from zonewise_common.kube.client import PatchKind
    from zonewise_scheduler.controller.workloads.conditions import Condition, with_conditions
    from zonewise_scheduler.controller.workloads.status import finish_for

    now = time.time()
    held = [Condition(name, holds=True, reason=name, message="by the floor") for name in ("QuotaReserved", "Admitted")]
    conditions = with_conditions(obj, held, now)
    usage = {"name": "main", "count": 1, "flavors": {"cpu": "rf"}, "resourceUsage": {"cpu": str(entry.cpus)}}
    admission = {"clusterQueue": obj["spec"]["queueName"], "podSetAssignments": [usage]}
    end = finish_for({**obj, "status": {"conditions": conditions}}, "ByTest", "By test runner", now)
    path = f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/workloads"
    status, merge = f"{path}/{obj['metadata']['name']}/status", PatchKind.MERGE.value
    return [
        PreparedWrite("POST", path, "application/json", json.dumps(obj).encode()),
        *(
            PreparedWrite("PATCH", status, merge, json.dumps(body).encode())
            for body in ({"status": {"admission": admission, "conditions": conditions}}, end)
        ),
    ]


def _server_cpu(server: RealServer) -> float:
    """Return the CPU seconds of kube-apiserver and etcd so far."""
    times = [psutil.Process(process.pid).cpu_times() for process in (server.apiserver, server.etcd)]
    return sum(each.user + each.system for each in times)


def _status_writes(server: RealServer) -> int:
    """Return the number of requests so far that changed an object of Kueue's kinds, except creations of Workloads."""
    text = str(server.admin.get("/metrics").body)
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in text.splitlines() if _WRITE.match(line))


def main(arguments: Sequence[str]) -> int:
    """Run all measurements and print the table; return 1 if a target is missed, 2 if a binary is absent."""
    from support.apiserver import binaries, real_apiserver
    from support.programs import find_program, missing_program

    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_queue", description=__doc__)
    parser.add_argument("--only", choices=("floor", "free", "limited", "peer"))
    options = parser.parse_args(arguments)
    servers, peer = binaries(), find_program(PEER)
    if isinstance(servers, str):
        return skip(servers)
    if options.only == "peer" and peer is None:
        return skip(missing_program(PEER))
    rows: list[Row] = []
    for name in (options.only,) if options.only else ("floor", "free", "limited", *(("peer",) if peer else ())):
        with real_apiserver() as server:
            _prepare(server)
            rows += _measure(server, name, str(peer))
    return show(rows)


def _measure(server: RealServer, name: str, peer: str) -> list[Row]:
    if name == "floor":
        return _floor_rows(run_floor(server))
    if name == "peer":
        return _rows("Kueue's manager", run_load(server, peer), math.inf)
    own = [str(PROJECT / ".venv" / "bin" / "zonewise"), "controller", "--leader-election", "false",
           "--metrics-listen", "", "--policy", "greedy"]  # fmt: skip
    if name == "limited":
        flags = "--writes-per-second", str(KUEUE_RATE), "--write-burst", str(KUEUE_BURST)
        return _rows(f"at {KUEUE_RATE} writes a second", run_load(server, *own, *flags), KUEUE_SECONDS)
    flags = "--writes-per-second", "10000", "--write-burst", "10000"
    return _rows("without a limit", run_load(server, *own, *flags), MAX_SECONDS)


def _floor_rows(floor: FloorResult) -> list[Row]:
    return [
        Row(f"floor: {TOTAL:,} Workloads created, admitted and ended by a minimal client", f"{floor.seconds:.1f} s"),
        Row("... CPU time of kube-apiserver and etcd by Workload", _ms_by_workload(floor.server_cpu)),
        load_row("... "),
    ]


def _rows(title: str, result: LoadResult, max_seconds: float) -> list[Row]:
    """Return the rows of a controller. An infinite `max_seconds` means no targets, as for the peer."""
    has_targets = max_seconds < math.inf

    def row(label: str, measured: str, value: float, target: str, limit: float) -> Row:
        return Row(label, measured, target, value <= limit) if has_targets else Row(label, measured)

    cpu_ms, resident = result.cpu_seconds / TOTAL * 1000, result.resident
    return [
        row(f"{title}: {TOTAL:,} Workloads, makespan", f"{result.seconds:.1f} s", result.seconds,
            f"<= {max_seconds:.0f} s", max_seconds),
        Row("... Workloads a second", f"{TOTAL / result.seconds:.0f}"),
        row("... CPU time of the controller by Workload", f"{cpu_ms:.1f} ms", cpu_ms, f"<= {MAX_CPU_MS:.0f} ms",
            MAX_CPU_MS),
        Row("... CPU time of kube-apiserver and etcd by Workload", _ms_by_workload(result.server_cpu)),
        row("... writes by Workload, without events", f"{result.writes:.2f}", result.writes, f"<= {MAX_WRITES}",
            MAX_WRITES),
        row("... resident memory", f"{resident >> 20} MiB", resident, f"<= {MAX_RESIDENT >> 20} MiB", MAX_RESIDENT),
        load_row("... "),
    ]  # fmt: skip


def _ms_by_workload(seconds: float) -> str:
    return f"{seconds / TOTAL * 1000:.1f} ms"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The live queue on a large cluster, as a whole process: `python -m benchmarks.live_cluster`.

The cluster has 5,000 nodes with reports and 50,000 pods. Of these, 20,000 belong to 1,000 running Workloads. Another
10,000 Workloads wait, and none of them fits at first. A server that only lists and watches replaces the API server, and
responds to each write with 404. One running Workload after another ends, and each end leads to a scheduling pass.
Passes and pauses of garbage collection are measured in CPU time, so that other programs change them little.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import parse_qs, urlsplit

import psutil

from benchmarks.support.agent_testbed import PROJECT
from benchmarks.support.extender_testbed import TemplatePod, build_objects, node_names
from benchmarks.support.fit_cluster import TWO_ZONES
from benchmarks.support.targets import Row, show
from zonewise_common.kube.events import timestamp
from zonewise_common.kube.resources import JOBS
from zonewise_scheduler.controller.planning.configuration import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

NODES, PODS, RUNNING, WAITING = 5000, 50_000, 1000, 10_000
GANG = 20
"""Pods of a running Workload, each on a different node."""
QUEUES = 30
ENDS = 40
MAX_RESIDENT = 600 << 20
MAX_SYNC = 6.0
MAX_PAUSE = 50.0
MAX_PASS = 100.0
"""Maximum milliseconds of a pass."""
_VERSION = 1000
"""Resource version of the lists."""
_NO_ITEMS = b'{"metadata":{"resourceVersion":"%d"},"items":[]}' % _VERSION
_LIMIT = 500.0
_HOUR_AGO = timestamp(datetime.now(UTC) - timedelta(hours=1))
_HOSTNAME = "kubernetes.io/hostname"
_KUEUE = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
_MEASURED = """
import atexit, gc, json, sys, time
from zonewise.cli import main
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed

pauses, passes, begin = [], [], [0.0]

def collect(phase, info):
    if phase == "start":
        begin[0] = time.thread_time()
    else:
        pauses.append((time.thread_time() - begin[0]) * 1000)

def run_pass(self, *arguments):
    start = time.thread_time()
    plan = original(self, *arguments)
    passes.append((time.thread_time() - start) * 1000)
    print("pass", flush=True)
    return plan

original, PlannerFeed.run_pass = PlannerFeed.run_pass, run_pass
gc.callbacks.append(collect)
atexit.register(lambda: print("measured", json.dumps({"pauses": pauses, "passes": passes}), flush=True))
sys.argv = ["zonewise", *sys.argv[1:]]
sys.exit(main())
"""


class Listing(NamedTuple):
    """The objects of a kind: their number, and the JSON of each."""

    size: int
    render: Callable[[int], bytes]


class ListServer:
    """Serves lists by page, and watches that send changes."""

    def __init__(self, listings: Mapping[str, Listing]) -> None:
        self.listings = listings
        self._condition = threading.Condition()
        self._changes: dict[str, list[bytes]] = {plural: [] for plural in listings}
        self._ended = False

    def change(self, plural: str, obj: Json) -> None:
        """Send a changed object to the watches of its kind."""
        event = json.dumps({"type": "MODIFIED", "object": obj}).encode() + b"\n"
        with self._condition:
            self._changes[plural].append(event)
            self._condition.notify_all()

    def end(self) -> None:
        """End all watches."""
        with self._condition:
            self._ended = True
            self._condition.notify_all()

    def page(self, plural: str, begin: int, limit: int) -> bytes:
        """Return a page of a list."""
        size, render = self.listings[plural]
        end = min(size, begin + (limit or size))
        metadata: Json = {"resourceVersion": str(_VERSION)} | ({"continue": str(end)} if end < size else {})
        items = b",".join(map(render, range(begin, end)))
        return b'{"metadata":%b,"items":[%b]}' % (json.dumps(metadata).encode(), items)

    def events(self, plural: str) -> Generator[bytes]:
        """Yield the events of a watch until the server ends."""
        changes, shown = self._changes[plural], 0
        while True:
            with self._condition:
                while not self._ended and len(changes) == shown:
                    self._condition.wait()
                if self._ended:
                    return
                events = changes[shown:]
            shown += len(events)
            yield from events


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts, lists = urlsplit(self.path), cast("_HttpServer", self.server).lists
        query, plural = parse_qs(parts.query), parts.path.rpartition("/")[2]
        if plural not in lists.listings:
            self.send_error(404)
        elif "watch" in query:
            self._head("Transfer-Encoding", "chunked")
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for event in lists.events(plural):
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(event), event))
        else:
            begin, limit = (int(query.get(name, ["0"])[0]) for name in ("continue", "limit"))
            is_probe = "fieldSelector" in query  # for a name that no object has
            body = _NO_ITEMS if is_probe else lists.page(plural, begin, limit)
            self._head("Content-Length", str(len(body)))
            self.wfile.write(body)

    def do_PATCH(self) -> None:
        self._reject()

    def do_POST(self) -> None:
        self._reject()

    def _head(self, name: str, value: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header(name, value)
        self.end_headers()

    def _reject(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name
        """Log nothing."""


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, lists: ListServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lists = lists


@contextmanager
def serving(lists: ListServer) -> Generator[str]:
    """Serve over HTTP; yield the URL."""
    server = _HttpServer(lists)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        lists.end()
        server.shutdown()


# --- the objects


def cluster(names: list[str]) -> dict[str, Listing]:
    """Return the objects of a cluster with nodes of these names, by plural."""
    reports: list[Json] = json.loads(build_objects(TWO_ZONES, names)["noderesourcetopologies"])["items"]
    template = TemplatePod()

    def workload(i: int) -> bytes:
        return json.dumps(_workload(i, names)).encode()

    def pod(i: int) -> bytes:
        return json.dumps(_pod(template, i, names)).encode()

    return {
        **{resource.plural: _listing([]) for resource in (*RESOURCES, JOBS)},
        "namespaces": _listing([{"metadata": {"name": "default"}}]),
        "topologies": _listing([_queue_object("nodes", {"levels": [{"nodeLabel": _HOSTNAME}]})]),
        "resourceflavors": _listing([_queue_object("all", {"nodeLabels": {"os": "linux"}, "topologyName": "nodes"})]),
        "clusterqueues": _listing([_queue_object(f"q-{i}", _queue_spec(i)) for i in range(QUEUES)]),
        "localqueues": _listing(
            [_queue_object(f"q-{i}", {"clusterQueue": f"q-{i}"}, namespace="default") for i in range(QUEUES)]
        ),
        "nodes": _listing([_node(name, i) for i, name in enumerate(names)]),
        "noderesourcetopologies": _listing(reports),
        "workloads": Listing(RUNNING + WAITING, workload),
        "pods": Listing(PODS, pod),
    }


def _listing(objects: list[Json]) -> Listing:
    encoded: list[bytes] = []
    for obj in objects:
        obj["metadata"] |= {"resourceVersion": str(_VERSION), "uid": f"uid-{obj['metadata']['name']}"}
        encoded.append(json.dumps(obj).encode())
    return Listing(len(encoded), encoded.__getitem__)


def _queue_object(name: str, spec: Json, **metadata: str) -> Json:
    return {**_KUEUE, "metadata": {"name": name, **metadata}, "spec": spec}


def _queue_spec(queue: int) -> Json:
    from support.queue_objects import cluster_queue_spec

    used = sum(1 for i in range(RUNNING) if i % QUEUES == queue) * GANG
    preemption = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
    return cluster_queue_spec({"cpu": str(used)}, "all", cohortName=f"cohort-{queue % 5}", preemption=preemption)


def _node(name: str, number: int) -> Json:
    amounts = {"cpu": "180", "memory": "900Gi", "pods": "250", "example.com/gpu": "8"}
    labels = {_HOSTNAME: name, "os": "linux", "rack": f"rack-{number // 40}"}
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    images = [{"names": [f"registry.example/image-{i}:v1"], "sizeBytes": 10**9} for i in range(30)]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions, "images": images}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def _workload(number: int, names: list[str]) -> Json:
    """Return a Workload: the first ones run; the others have waited for an hour, so no reservation is due."""
    queue, pods = f"q-{number % QUEUES}", GANG if number < RUNNING else 2
    requests = {"cpu": "1" if number < RUNNING else "20"}
    container = {"name": "c", "image": "registry.example/image-1:v1", "resources": {"requests": requests}}
    topology = {"required": _HOSTNAME} if number >= RUNNING else {"unconstrained": True}
    pod_set = {"name": "main", "count": pods, "topologyRequest": topology,
               "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}  # fmt: skip
    metadata = {"name": f"w-{number}", "namespace": "default", "uid": f"w-{number}", "generation": 1,
                "resourceVersion": str(_VERSION), "creationTimestamp": _HOUR_AGO}  # fmt: skip
    workload: Json = {**_KUEUE, "kind": "Workload", "metadata": metadata,
                      "spec": {"queueName": queue, "priority": 50, "podSets": [pod_set]}}  # fmt: skip
    if number < RUNNING:
        hosts = [names[(number * GANG + i) % NODES] for i in range(GANG)]
        slices = [{"domainCount": GANG, "podCounts": {"universal": 1},
                   "valuesPerLevel": [{"individual": {"roots": hosts}}]}]  # fmt: skip
        assignment = {"name": "main", "count": GANG, "flavors": {"cpu": "all"}, "resourceUsage": {"cpu": str(GANG)},
                      "topologyAssignment": {"levels": [_HOSTNAME], "slices": slices}}  # fmt: skip
        conditions = [
            {"type": name, "status": "True", "reason": name, "lastTransitionTime": "2026-01-01T00:00:10Z"}
            for name in ("QuotaReserved", "Admitted")
        ]
        admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        workload["status"] = {"admission": admission, "conditions": conditions}
    return workload


def _pod(template: TemplatePod, number: int, names: list[str]) -> Json:
    """Return a running pod: the first ones belong to Workloads, the others to nothing that the queue knows."""
    pod: Json = json.loads(template.render(number, 1, 2))
    pod["metadata"] |= {"resourceVersion": str(_VERSION), "creationTimestamp": "2026-01-01T00:00:20Z"}
    pod["spec"]["nodeName"] = names[number % NODES]
    pod["status"]["phase"] = "Running"
    if number < RUNNING * GANG:
        pod["metadata"]["namespace"] = "default"
        pod["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": f"w-{number // GANG}"}
        pod["metadata"]["labels"] |= {"kueue.x-k8s.io/managed": "true", "kueue.x-k8s.io/podset": "main"}
    return pod


# --- the measurement


class ClusterResult(NamedTuple):
    """The measurements of one run."""

    sync: float
    """CPU seconds from the start of the program to the end of its first pass."""
    resident: int
    """Resident bytes at the end."""
    pauses: list[float]
    """CPU milliseconds of each garbage collection."""
    passes: list[float]
    """CPU milliseconds of each pass after the first."""


def measure() -> ClusterResult:
    """Run the controller on the cluster. Raises RuntimeError with its log if it ends too early."""
    names = node_names(NODES)
    server = ListServer(cluster(names))
    with serving(server) as url, tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "controller.log"
        command = [sys.executable, "-c", _MEASURED, "controller", "--api-server", url, "--leader-election", "false",
                   "--metrics-listen", ""]  # fmt: skip
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as program:
            try:
                _until(program, log, 1)
                process = psutil.Process(program.pid)
                times = process.cpu_times()
                for i in range(ENDS):
                    passes = log.read_text().count("pass\n")
                    for pod in _ended_pods(i, names):
                        server.change("pods", pod)
                    server.change("workloads", _ended(i, names))
                    _until(program, log, passes + 1)
                resident = process.memory_info().rss
            finally:
                program.terminate()
        measured: Json = json.loads(log.read_text().partition("measured ")[2].splitlines()[0])
    return ClusterResult(times.user + times.system, resident, measured["pauses"], measured["passes"][1:])


def _ended_pods(number: int, names: list[str]) -> Generator[Json]:
    """Yield the pods of a Workload after their end. While one is active, the Workload holds its quota."""
    template = TemplatePod()
    for i in range(number * GANG, (number + 1) * GANG):
        pod = _pod(template, i, names)
        pod["metadata"]["resourceVersion"] = str(_VERSION + 1 + i)
        pod["status"]["phase"] = "Succeeded"
        yield pod


def _ended(number: int, names: list[str]) -> Json:
    workload = _workload(number, names)
    workload["metadata"]["resourceVersion"] = str(_VERSION + 1 + number)
    workload["status"]["conditions"].append({"type": "Finished", "status": "True", "reason": "JobFinished"})
    return workload


def _until(program: subprocess.Popen[bytes], log: Path, passes: int) -> None:
    """Wait until `passes` passes are done."""
    deadline = time.monotonic() + _LIMIT
    while log.read_text().count("pass\n") < passes:
        if program.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the controller does not go on: {log.read_text()[-2000:]}")
        time.sleep(0.05)


def main() -> int:
    """Run the measurement and print the table; return 1 if a target is missed."""
    result = measure()
    pause, worst = max(result.pauses), max(result.passes)
    return show([
        Row(f"{NODES:,} nodes with reports, {PODS:,} pods, {WAITING:,} Workloads wait: first sync, CPU",
            f"{result.sync:.1f} s", f"<= {MAX_SYNC:.0f} s", result.sync <= MAX_SYNC),
        Row("... resident memory", f"{result.resident >> 20} MiB", f"<= {MAX_RESIDENT >> 20} MiB",
            result.resident <= MAX_RESIDENT),
        Row(f"... longest of {len(result.pauses)} garbage collections, CPU", f"{pause:.0f} ms",
            f"<= {MAX_PAUSE:.0f} ms", pause <= MAX_PAUSE),
        Row(f"... longest of {len(result.passes)} passes, CPU", f"{worst:.0f} ms", f"<= {MAX_PASS:.0f} ms",
            worst <= MAX_PASS),
        Row("... median", f"{median(result.passes):.0f} ms"),
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

"""The processes around an extender under measurement, and the objects that they exchange."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from benchmarks.support.agent_testbed import CRD, PROJECT
from benchmarks.support.bindings import Bindings
from benchmarks.support.fit_cluster import GIB, NodeSpec, kind, states
from zonewise_scheduler.admission.node import idle_node

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Sequence

    from support.e2e.cluster import Cluster

sys.path.insert(0, str(PROJECT / "tests"))

Json = dict[str, Any]

TIMEOUT = 120.0
"""Seconds to wait for events that take a while on a busy machine."""
NAMESPACE = "bench"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_NRTS = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_NOTHING = """
import sys, threading
from zonewise_common.service.handlers import Response
from zonewise_common.service.http_server import HttpServer

class PassAll:
    max_body = 64 << 20

    def methods(self, path):
        return ("POST",)

    def handle(self, request):
        names = request.body[request.body.rindex(b'"NodeNames":') : -1]
        return Response(200, "application/json", b'{"Nodes":null,' + names + b',"FailedNodes":{},"Error":""}')

server = HttpServer("127.0.0.1:0", PassAll(), idle=60.0)
server.start()
print(server.port, flush=True)
threading.Event().wait()
"""


def node_names(count: int) -> list[str]:
    """Return names in the style of clusters."""
    return [f"node-{number:05}.cluster.example.com" for number in range(count)]


class TemplatePod:
    """A pod of a batch job as an API server returns it, most of which is never read: about 3 KB."""

    def __init__(self) -> None:
        fields: Json = {f"f:field-{number}": {".": {}, "f:value": {}} for number in range(25)}
        amounts = {"cpu": "@CPUS@", "memory": "@MEMORY@Gi", "example.com/gpu": "1"}
        container = {
            "name": "main", "image": "registry.example/team/training:v1.2.3", "imagePullPolicy": "IfNotPresent",
            "env": [{"name": f"VARIABLE_{number}", "value": f"value-{number}"} for number in range(15)],
            "resources": {"requests": amounts, "limits": amounts},
            "volumeMounts": [{"name": f"volume-{number}", "mountPath": f"/data/{number}"} for number in range(4)],
        }  # fmt: skip
        pod: Json = {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": "job-@NUMBER@", "namespace": NAMESPACE, "uid": "0f2b6e3c-5d0f-4d8a-9c1e-@NUMBER@",
                "labels": {f"example.com/label-{number}": f"value-{number}" for number in range(6)},
                "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": fields}],
            },
            "spec": {
                "containers": [container], "restartPolicy": "Never", "schedulerName": "default-scheduler",
                "volumes": [{"name": f"volume-{number}", "emptyDir": {}} for number in range(4)],
            },
            "status": {"phase": "Pending", "qosClass": "Guaranteed"},
        }  # fmt: skip
        self._text = json.dumps(pod, separators=(",", ":"))

    def render(self, number: int, cpus: int, memory: int) -> str:
        """Return a new pod that requests CPUs, GiB and a GPU."""
        some = {"@NUMBER@": f"{number:012}", "@CPUS@": str(cpus), "@MEMORY@": str(memory)}
        text = self._text
        for mark, value in some.items():
            text = text.replace(mark, value)
        return text


# --- without kube-scheduler


def build_objects(make: NodeSpec, names: Sequence[str]) -> dict[str, bytes]:
    """Return the lists that an API server would return, by resource, for nodes whose zones are each used at random."""
    from support.extender import build_nrt

    node_kind = kind(make)
    nodes = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in names]
    reports = [build_nrt(name, state) for name, state in zip(names, states(node_kind, make, len(names)), strict=True)]
    for report in reports:
        report["metadata"]["resourceVersion"] = "1"
    every: dict[str, list[Any]] = {"nodes": nodes, "noderesourcetopologies": reports, "pods": []}
    return {
        resource: json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
        for resource, items in every.items()
    }


@contextmanager
def serving_lists(lists: dict[str, bytes]) -> Generator[str]:
    """Serve lists of objects that never change, as an API server does; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            watching = "watch" in parse_qs(parts.query)
            if parts.path.rpartition("/")[2] not in lists:
                self.send_error(404)
                return
            body = b"" if watching else lists[parts.path.rpartition("/")[2]]
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header(*(("Transfer-Encoding", "chunked") if watching else ("Content-Length", str(len(body)))))
            self.end_headers()
            self.wfile.write(body)
            if watching:
                ended.wait()

        def do_PATCH(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name
            """Log nothing."""

    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        ended.set()
        server.shutdown()


class ExtenderProcess(NamedTuple):
    """An extender under measurement."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far (proc_pid_stat(5))."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def null_extender(core: set[int]) -> Generator[ExtenderProcess]:
    """Run an extender on our server that returns the names unchanged."""
    command = [sys.executable, "-c", _NOTHING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        os.sched_setaffinity(process.pid, core)
        assert process.stdout is not None
        yield ExtenderProcess(int(process.stdout.readline()), process.pid)
        process.kill()


@contextmanager
def real_extender(url: str, core: set[int]) -> Generator[ExtenderProcess]:
    """Run our extender, with all of its threads on some cores."""
    from support.extender import running_extender

    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, core)  # inherited by threads and processes that are created from now on
    try:
        stack = ExitStack()
        extender = stack.enter_context(running_extender("--api-server", url))
    finally:
        os.sched_setaffinity(0, before)
    with stack:
        extender.until(extender.ready, TIMEOUT)
        yield ExtenderProcess(extender.ports[0], extender.process.pid)


# --- with kube-scheduler


@contextmanager
def real_cluster(make: NodeSpec, count: int) -> Generator[Cluster | None]:
    """Run an API server and etcd with idle nodes without kubelets, and their reports; yield None if they cannot run."""
    import yaml

    from support.apiserver import binaries, real_apiserver
    from support.e2e.cluster import Cluster, write_kubeconfig
    from support.extender import build_nrt
    from support.programs import find_program, missing_program

    absent = binaries() if find_program("kube-scheduler") is not None else missing_program("kube-scheduler")
    if isinstance(absent, str):
        print(absent)
        yield None
        return
    free = idle_node(kind(make))
    with real_apiserver("--disable-admission-plugins=TaintNodesByCondition") as server, _directory() as directory:
        admin = server.admin
        admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(CRD.read_text())).ok()
        admin.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).ok()
        cluster = Cluster(server, write_kubeconfig(server, directory), directory, {}, {})
        cluster.until(lambda: admin.get(_NRTS).status == 200, lambda: "the resource is not served")

        def create(name: str) -> None:
            admin.post("/api/v1/nodes", _node(name, make)).ok()
            admin.post(_NRTS, build_nrt(name, free)).ok()

        _all(create, node_names(count))
        yield cluster


def bound_pods(cluster: Cluster, count: int, *, percentage: int = 0, extended: bool = False) -> float:
    """Create pods, then start kube-scheduler; return how many it binds per second, from the first to the last."""
    from support.e2e.cluster import extending, scheduling

    template, admin = TemplatePod(), cluster.server.admin
    _all(lambda number: admin.post(_PODS, json.loads(template.render(number, 4, 8))).ok(), range(count))
    with ExitStack() as stack:
        extender = stack.enter_context(extending(cluster)) if extended else None
        bindings = stack.enter_context(Bindings(cluster))
        stack.enter_context(scheduling(cluster, extender=extender, percentage=percentage))
        deadline = time.monotonic() + TIMEOUT
        while len(bindings.times) < count:
            assert time.monotonic() < deadline, f"{len(bindings.times)} of {count} pods are bound"
            time.sleep(0.2)
    _clear(cluster)
    return (count - 1) / (bindings.times[-1] - bindings.times[0])


def _node(name: str, make: NodeSpec) -> Json:
    amounts = {
        "cpu": str(2 * make.zones * (make.cores - 1)), "memory": f"{make.zones * make.memory}Gi", "pods": "250",
        "hugepages-1Gi": f"{make.zones * make.pages * GIB}", "ephemeral-storage": "1Ti",
    } | {name: str(make.zones * make.devices) for name in make.resources}  # fmt: skip
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": amounts, "capacity": amounts, "nodeInfo": _info()},
    }


def _info() -> Json:
    names = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
             "kubeProxyVersion", "operatingSystem", "architecture")  # fmt: skip
    return {**dict.fromkeys(names, ""), "kubeletVersion": "v1.36.3"}


def _clear(cluster: Cluster) -> None:
    admin = cluster.server.admin
    names = [pod["metadata"]["name"] for pod in admin.get(_PODS).ok()["items"]]
    _all(lambda name: admin.delete(f"{_PODS}/{name}", gracePeriodSeconds=0).ok(), names)


def _all(work: Callable[[Any], object], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(work, items):
            pass


@contextmanager
def _directory() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        yield Path(directory)

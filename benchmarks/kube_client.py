"""The API client: a list of 5,000 pods and 20,000 watch events, ours compared with the official client, in one run.

Run as `python -m benchmarks.kube_client`. The server is a thread of this process that sends prepared bytes. Each client
is a separate process, so only the clients' CPU time and memory are compared.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

PODS = 5_000
EVENTS = 20_000
PAGE = 500
RUNS = 3

PREAMBLE = """
import resource, sys, time
def report(begun, pods, events):
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(time.process_time() - begun, peak, pods, events)
url, pods, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
"""
REFLECTOR = """
import threading
import msgspec
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import PODS
updates = 0
done = threading.Event()
def handle(old, new):
    global updates
    updates += 1
    if updates == pods + events:
        done.set()
client = Client(Config.from_url(url))
begun = time.process_time()
reflector = Reflector(client, PODS, msgspec.json.Decoder(INTO).decode, handle)
reflector.start()
assert done.wait(120)
report(begun, len(reflector.values()), updates - pods)
reflector.close()
"""
STRUCT = """
import msgspec
class Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}
class Container(msgspec.Struct, gc=False):
    name: str
    resources: dict[str, dict[str, str]] = {}
class Spec(msgspec.Struct, gc=False):
    containers: list[Container] = []
    nodeName: str = ""
class Status(msgspec.Struct, gc=False):
    phase: str = ""
class INTO(msgspec.Struct, gc=False):
    metadata: Meta
    spec: Spec
    status: Status
"""
DICT = "from typing import Any\nINTO = dict[str, Any]\n"
OFFICIAL = """
from kubernetes import client, watch
configuration = client.Configuration()
configuration.host = url
api = client.CoreV1Api(client.ApiClient(configuration))
begun = time.process_time()
held, token = {}, None
while True:
    page = api.list_pod_for_all_namespaces(limit=PAGE, _continue=token)
    held.update({(pod.metadata.namespace, pod.metadata.name): pod for pod in page.items})
    token = page.metadata._continue
    if not token:
        break
event_count = 0
for event in watch.Watch().stream(api.list_pod_for_all_namespaces, resource_version=page.metadata.resource_version):
    pod = event["object"]
    held[pod.metadata.namespace, pod.metadata.name] = pod
    event_count += 1
    if event_count == events:
        break
report(begun, len(held), event_count)
""".replace("PAGE", str(PAGE))
CLIENTS = {"ours, structs": STRUCT + REFLECTOR, "ours, dicts": DICT + REFLECTOR, "official": OFFICIAL}


class Cost(NamedTuple):
    """The resources that a client needed."""

    cpu: float
    """CPU seconds."""
    peak: float
    """Peak resident MiB."""


def main() -> int:
    """Run all measurements and print the table; return 1 if the target is missed."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    costs = {name: _cost(program, server.server_address[1], name) for name, program in CLIENTS.items()}
    server.shutdown()
    print(f"{PODS} pods of {len(_pod(0, 1)) / 1000:.1f} KB listed, {EVENTS} events")
    official = costs["official"]
    for name, cost in costs.items():
        ratio = official.cpu / cost.cpu
        print(f"  {name:14} {cost.cpu:6.2f} CPU-s  {cost.peak:5.0f} MiB peak  official / this = {ratio:.1f}")
    ratio = official.cpu / costs["ours, structs"].cpu
    print(f"  structs at least 20 times cheaper than the official client: {'met' if ratio >= 20 else 'MISSED'}")
    return 0 if ratio >= 20 else 1


def _cost(program: str, port: int, name: str) -> Cost:
    runs = [_run(program, port) for _ in range(1 if name == "official" else RUNS)]  # a minute each
    return Cost(statistics.median(run.cpu for run in runs), statistics.median(run.peak for run in runs))


def _run(program: str, port: int) -> Cost:
    command = [sys.executable, "-c", PREAMBLE + program, f"http://127.0.0.1:{port}", str(PODS), str(EVENTS)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    cpu, peak, pods, events = said.split()
    assert (int(pods), int(events)) == (PODS, EVENTS), said
    return Cost(float(cpu), float(peak))


class Handler(BaseHTTPRequestHandler):
    """Lists pages of pods and sends events, one per chunk, as an API server does."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        if "watch" in query:
            return self._watch()
        return self._list(int(query.get("continue", ["0"])[0]))

    def _list(self, start: int) -> None:
        body = _page(start)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for number in range(EVENTS):
                self._chunk(b'{"type":"MODIFIED","object":%s}\n' % _pod(number % PODS, PODS + 1 + number))
            self.wfile.flush()
            self.rfile.read(1)  # until the client has read enough
        except OSError:
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- its name
        """Log nothing."""


@cache
def _page(start: int) -> bytes:
    end = min(start + PAGE, PODS)
    more = f',"continue":"{end}"' if end < PODS else ""
    items = b",".join(_pod(number, number + 1) for number in range(start, end))
    head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{PODS}"{more}}},"items":['
    return head.encode() + items + b"]}"


def _pod(number: int, version: int) -> bytes:
    """Return a pod like those of a real server: most of it is metadata that few clients read."""
    return _template().replace(b"@NUMBER@", b"%d" % number).replace(b"@VERSION@", b"%d" % version)


@cache
def _template() -> bytes:
    """Return a pod of a batch job: two containers, labels, conditions, and managed fields."""
    fields: dict[str, Any] = {
        f"f:{name}-{i}": {".": {}, "f:value": {}} for name in ("spec", "status", "env") for i in range(30)
    }
    managed: list[Any] = [
        {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
         "time": "2026-10-01T00:00:00Z", "fieldsV1": fields}
        for manager in ("kube-controller-manager", "kubelet")
    ]  # fmt: skip
    container = {
        "image": "registry.example/team/training:v1.2.3", "imagePullPolicy": "IfNotPresent",
        "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(20)],
        "resources": {kind: {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"} for kind in ("requests", "limits")},
        "volumeMounts": [{"name": f"volume-{i}", "mountPath": f"/data/{i}", "readOnly": True} for i in range(5)],
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-10-01T00:00:00Z"}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "job-@NUMBER@", "namespace": "batch", "uid": "0f2b6e3c-5d0f-4d8a-9c1e-@NUMBER@",
            "resourceVersion": "@VERSION@", "creationTimestamp": "2026-10-01T00:00:00Z",
            "labels": {f"example.com/label-{i}": f"value-{i}" for i in range(8)},
            "annotations": {f"example.com/annotation-{i}": "some longer text " * 3 for i in range(6)},
            "managedFields": managed,
        },
        "spec": {
            "containers": [{"name": name, **container} for name in ("main", "sidecar")],
            "volumes": [{"name": f"volume-{i}", "emptyDir": {}} for i in range(5)], "nodeName": "node-@NUMBER@",
            "restartPolicy": "Never", "schedulerName": "default-scheduler", "serviceAccountName": "default",
        },
        "status": {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1", "qosClass": "Guaranteed"},
    }  # fmt: skip
    return json.dumps(pod, separators=(",", ":")).encode()


if __name__ == "__main__":
    sys.exit(main())

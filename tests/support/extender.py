"""`zonewise scheduler --extender-only` as a process, and clusters of values on an embedded API server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from support.agents import CRD, TOPOLOGIES
from support.api import STRATEGIC, Api
from support.ledger_kubelets import GPU
from support.programs import Watched
from support.waiting import PATIENCE
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.attributes import write_pairs
from zonewise_common.nrt.cores import write_cores
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from support.ledger_kubelets import Kubelet
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import Container, PodShape
    from zonewise_scheduler.admission.report.node_report import PodsFingerprint

Json = dict[str, Any]

GRACE = PATIENCE
"""Seconds allowed for the extender to end; on an idle machine it takes one or two."""
NAMESPACE = "lab"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_PROGRAM = "import sys; from zonewise.cli import main; sys.exit(main())"


class Extender(Watched):
    def __init__(self, directory: Path, flags: Iterable[str]) -> None:
        log = directory / "extender.log"
        command = [sys.executable, "-c", _PROGRAM, "scheduler", "--extender-only", "--listen", "127.0.0.1:0"]
        with log.open("wb") as printed:
            process = subprocess.Popen(
                [*command, "--metrics-listen", "127.0.0.1:0", *flags],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                env={name: value for name, value in os.environ.items() if not name.startswith("ZONEWISE_")},
            )
        super().__init__(process, log)

    @property
    def ports(self) -> list[int]:
        """Return the ports of the extender and of its metrics, once they are served."""
        self.until(lambda: self.said.count("serving on port") == 2)
        return [int(part.split()[0].strip('"}')) for part in self.said.split("serving on port ")[1:]]

    @property
    def url(self) -> str:
        """Return the URL for kube-scheduler."""
        return f"http://127.0.0.1:{self.ports[0]}"

    def get(self, path: str) -> tuple[int, str]:
        """GET a path on the port for metrics and health."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.ports[1], timeout=PATIENCE)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def ready(self) -> bool:
        """Return whether the extender is ready."""
        return self.get("/readyz")[0] == 200

    def state(self, node: str) -> Json:
        """Return the extender's view of a node."""
        return json.loads(self.get("/debug/state")[1])["nodes"].get(node, {})

    def metric(self, name: str) -> float:
        """Return a sample of /metrics by its name with labels; 0 if the sample is absent."""
        for line in self.get("/metrics")[1].splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def terminate(self, number: signal.Signals = signal.SIGTERM, seconds: float = GRACE) -> int:
        """Send a signal and return the exit status; fail if the process takes longer than `seconds`."""
        self.process.send_signal(number)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"runs on after {seconds} s: {self.said}") from None

    def close(self) -> None:
        """Terminate the extender, and check that it logged no error."""
        assert self.terminate() == 0, self.said

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def running_extender(*flags: str) -> Generator[Extender]:
    """Run the extender inside a `with` block."""
    with tempfile.TemporaryDirectory(prefix="extender-") as index:
        extender = Extender(Path(index), flags)
        try:
            yield extender
        finally:
            extender.kill()


class Reply(NamedTuple):
    status: int
    text: str

    @property
    def json(self) -> Any:
        assert self.status == 200, f"{self.status}: {self.text}"
        return json.loads(self.text)

    @property
    def selected_node(self) -> str:
        """The only node that passes the filter; "" if no node does."""
        assert not self.json["Error"], self.text
        assert len(self.json["NodeNames"]) <= 1
        return next(iter(self.json["NodeNames"]), "")

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons for rejection by node."""
        return self.json["FailedAndUnresolvableNodes"]


class Caller:
    """Calls of kube-scheduler, on one persistent connection."""

    def __init__(self, extender: Extender) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", extender.ports[0], timeout=PATIENCE)

    def send(self, path: str, body: bytes | None, method: str = "POST", headers: Mapping[str, str] = {}) -> Reply:
        """Send arbitrary bytes."""
        self.connection.request(method, path, body, dict(headers))
        answer = self.connection.getresponse()
        return Reply(answer.status, answer.read().decode())

    def call(self, verb: str, arguments: object) -> Reply:
        """Call a verb with arguments."""
        return self.send(f"/{verb}", json.dumps(arguments).encode())

    def filter(self, pod: Json, nodes: Sequence[str]) -> Reply:
        """Call the filter verb with node names."""
        return self.call("filter", {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)})

    def close(self) -> None:
        self.connection.close()


class ExtenderCluster:
    """An in-memory API server with nodes, reports and pods."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.api = Api(server.url)
        self.api.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

    def add_node(self, name: str, release: str = "v1.36.0") -> None:
        amounts = {"cpu": "512", "memory": "8Ti", "pods": "500", GPU: "64"}
        status = {"nodeInfo": {"kubeletVersion": release}, "allocatable": amounts, "capacity": amounts}
        self.api.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status}).ok()
        # remove the not-ready taint, as a controller does for a ready node
        self.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}).ok()

    def publish(self, nrt: Json) -> None:
        """Create or replace a NodeResourceTopology."""
        path = f"{TOPOLOGIES}/{nrt['metadata']['name']}"
        result = self.api.get(path)
        if result.status == 404:
            self.api.post(TOPOLOGIES, nrt).ok()
        else:
            version = result.ok()["metadata"]["resourceVersion"]
            self.api.put(path, {**nrt, "metadata": {**nrt["metadata"], "resourceVersion": version}}).ok()

    def report(self, kubelet: Kubelet) -> None:
        """Publish the agent's report for a kubelet."""
        report = kubelet.report()
        assert report.state is not None
        self.publish(build_nrt(kubelet.node, report.state, report.fingerprints))

    def create(self, pod: Json) -> Json:
        """Create a pod; return the stored object."""
        return self.api.post(PODS, pod).ok()

    def pod(self, name: str) -> Json:
        return self.api.get(f"{PODS}/{name}").ok()

    def bind(self, pod: Json, node: str) -> None:
        """Bind a pod as kube-scheduler does."""
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        body = {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }  # fmt: skip
        self.api.post(f"{PODS}/{name}/binding", body).ok()

    def set_status(self, pod: Json, **status: Any) -> None:
        """Update a pod's status as its kubelet does."""
        self.api.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status}, STRATEGIC).ok()

    def reject(self, pod: Json, reason: str, message: str = "no") -> None:
        """Set the status of a pod that a kubelet rejects."""
        self.set_status(pod, phase="Failed", reason=reason, message=message)

    def delete(self, pod: Json) -> None:
        """Delete a pod at once."""
        self.api.delete(f"{PODS}/{pod['metadata']['name']}", gracePeriodSeconds=0).ok()


@contextlib.contextmanager
def new_cluster(port: int = 0) -> Generator[ExtenderCluster]:
    with ApiServer(port, crds=[CRD]) as server:
        world = ExtenderCluster(server)
        try:
            yield world
        finally:
            world.api.close()


def build_pod(name: str, shape: PodShape) -> Json:
    """Return a pod with plain containers."""
    guaranteed = shape.qos == "Guaranteed"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"containers": [_container(container, guaranteed=guaranteed) for container in shape.containers]},
    }


def _container(container: Container, *, guaranteed: bool) -> Json:
    devices = {name: str(count) for name, count in container.devices}
    amounts = {"cpu": f"{container.milli_cpus}m"} | {name: str(size) for name, size in container.memory}
    limits = (amounts if guaranteed else {}) | devices
    return {"name": container.name, "image": "none", "resources": {"requests": amounts | devices, "limits": limits}}


def build_nrt(node: str, state: NodeState, covered: Iterable[PodsFingerprint] = ()) -> Json:
    """Return the agent's report for a node on which each device is close to one zone."""
    kind = state.kind
    policies = kind.policies
    options = {"full-pcpus-only": policies.full_cores}
    reported = {
        names.USAGE: names.USAGE_KNOWN,
        names.TOPOLOGY_MANAGER_POLICY: policies.topology,
        names.TOPOLOGY_MANAGER_SCOPE: policies.scope,
        names.CPU_MANAGER_POLICY: policies.cpu,
        names.CPU_MANAGER_OPTIONS: write_pairs({name: "true" for name, given in options.items() if given}),
        names.MEMORY_MANAGER_POLICY: policies.memory,
        names.RESERVED_CPUS: str(CpuSet.from_bits(kind.cpus.reserved)),
        names.THREADS_PER_CORE: str(max(bits.bit_count() for _, bits in kind.cpus.cores)),
        names.MEMORY_ASSIGNED: str(CpuSet.from_bits(state.memory_assigned)),
    }
    reported |= {names.FINGERPRINTS[entry.method]: entry.value for entry in covered}
    packages = [
        {"name": f"package-{number}", "type": "Package", "attributes": _attribute_list({names.CPUS: _list(bits)})}
        for number, bits in kind.cpus.packages
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": _attribute_list({name: value for name, value in reported.items() if value}),
        "zones": [*(_zone(state, index) for index in range(len(kind.zones))), *packages],
    }


def plain_nrt(node: str, free: Sequence[int], size: int = 8, policy: str = "single-numa-node") -> Json:
    """Return the report of another agent: CPUs by zone, and a policy."""
    zones = [
        {
            "name": f"node-{zone}", "type": "Node",
            "resources": [{"name": "cpu", "capacity": str(size), "allocatable": str(size), "available": str(left)}],
        }
        for zone, left in enumerate(free)
    ]  # fmt: skip
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": _attribute_list(
            {names.TOPOLOGY_MANAGER_POLICY: policy, names.TOPOLOGY_MANAGER_SCOPE: "container"}
        ),
        "zones": zones,
    }


def _zone(state: NodeState, zone: int) -> Json:
    kind = state.kind
    zone = kind.zones[zone]
    cpus = dict(kind.cpus.zones)[zone]
    own = [CpuSet.from_bits(bits) for _, bits in kind.cpus.cores if bits & cpus]
    attributes = {names.CPUS: _list(cpus), names.CORES: write_cores(own)}
    if kind.policies.cpu == "static":
        attributes[names.FREE_CPUS] = _list(state.free_cpus & cpus)
    if state.memory_groups:
        attributes[names.MEMORY_GROUP] = str(CpuSet.from_bits(state.memory_groups[zone])).replace("-", ",")
    most, left = (cpus & ~kind.cpus.reserved).bit_count(), (state.free_cpus & cpus).bit_count()
    resources = [_amount("cpu", cpus.bit_count(), most, left)]
    if kind.allocatable:
        amounts = zip(kind.memory_types, kind.allocatable[zone], state.memory_free[zone], strict=True)
        resources += [_amount(name, size, size, free) for name, size, free in amounts]
    for device, free in zip(kind.devices, state.device_free, strict=True):
        if device.zones == 1 << zone:
            resources.append(_amount(device.resource, device.total, device.healthy, free))
    row = kind.distances[zone] if kind.distances else ()
    costs = [{"name": f"node-{other}", "value": value} for other, value in zip(kind.zones, row, strict=False)]
    return {
        "name": f"node-{zone}", "type": "Node", "attributes": _attribute_list(attributes), "resources": resources,
        "costs": costs,
    }  # fmt: skip


def _amount(name: str, capacity: int, allocatable: int, available: int) -> Json:
    return {"name": name, "capacity": str(capacity), "allocatable": str(allocatable), "available": str(available)}


def _attribute_list(values: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _list(bits: int) -> str:
    return str(CpuSet.from_bits(bits))

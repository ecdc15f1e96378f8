"""An in-memory cluster for user commands: nodes with zones, a queue, and the real controller with its read API."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

from support.api import Api
from support.kubelets import short_directory
from support.live_cluster import ControllerProcess, LiveCluster
from support.live_queue import KUEUE_CRDS
from support.snapshots import PROJECT
from support.waiting import eventually
from zonewise.cli import main
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_sandbox.podrunner import PodRunner, RunnerSettings
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    import pytest

Json = dict[str, Any]

NRT_CRD = PROJECT / "manifests/base/noderesourcetopologies.yaml"
GPU = "nvidia.com/gpu"
NODES = ("node-0", "node-1")
_TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
_READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
_KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: sandbox
clusters: [{{name: sandbox, cluster: {{server: "{url}"}}}}]
users: [{{name: me, user: {{}}}}]
contexts: [{{name: sandbox, context: {{cluster: sandbox, user: me, namespace: default}}}}]
"""


class CommandCluster(NamedTuple):
    """A cluster and the kubeconfig for it."""

    live: LiveCluster
    read_api: str
    """The URL of the controller's read API."""
    kubeconfig: Path

    @property
    def api(self) -> Api:
        """A client of the API server."""
        return self.live.api

    def arguments(self, *, read_api: bool = True) -> tuple[str, ...]:
        """Return the connection flags for the cluster, with or without the read API."""
        return ("--kubeconfig", str(self.kubeconfig), *(("--server", self.read_api) if read_api else ()))

    def run(self, capsys: pytest.CaptureFixture[str], command: str, *arguments: str) -> tuple[int, str, str]:
        """Run a command in this process; return its exit status, its output and its messages."""
        has_read_api = command in {"queue", "explain", "forecast", "check"}
        status = main([command, *arguments, *self.arguments(read_api=has_read_api)])
        said = capsys.readouterr()
        return status, said.out, said.err


@contextlib.contextmanager
def command_cluster() -> Generator[CommandCluster]:
    """Run two nodes of two zones with 8 CPUs and 4 GPUs each, a queue of 32 CPUs and 16 GPUs, and a controller."""
    with (
        ApiServer(crds=[*sorted(KUEUE_CRDS.glob("*s.yaml")), NRT_CRD]) as server,
        JobController(server.client_config()),
        PodRunner(server.client_config(), RunnerSettings()),
        short_directory() as directory,
        reserved_port() as port,
    ):
        live = LiveCluster(Api(server.url), directory, ("--api-server", server.url), real=False)
        for name in NODES:
            add_node(live.api, name)
        add_queue(live)
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(_KUBECONFIG.format(url=server.url))
        address = f"127.0.0.1:{port}"
        with live.controller("--metrics-listen", address) as process:
            yield CommandCluster(live, f"http://{address}", kubeconfig)
            assert isinstance(process, ControllerProcess)


def add_queue(live: LiveCluster) -> None:
    """Add the ClusterQueue `research` and its LocalQueue `gpu`."""
    live.create("resourceflavors", "ResourceFlavor", "h100", {})
    quotas = [{"name": "cpu", "nominalQuota": "32"}, {"name": "memory", "nominalQuota": "256Gi"},
              {"name": GPU, "nominalQuota": "16"}]  # fmt: skip
    groups = [{"coveredResources": ["cpu", "memory", GPU], "flavors": [{"name": "h100", "resources": quotas}]}]
    spec: Json = {"namespaceSelector": {}, "cohortName": "lab", "resourceGroups": groups}
    live.create("clusterqueues", "ClusterQueue", "research", spec)
    live.create("namespaces/default/localqueues", "LocalQueue", "gpu", {"clusterQueue": "research"})


def add_node(api: Api, name: str) -> None:
    """Add a node of two zones with its report."""
    amounts = {"cpu": "16", "pods": "110", "memory": "128Gi", GPU: "8"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    node = {"metadata": {"name": name, "labels": labels},
            "status": {"allocatable": amounts, "capacity": amounts, "conditions": [_READY]}}  # fmt: skip
    api.post("/api/v1/nodes", node).ok()
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": []}}).ok()
    api.post(_TOPOLOGIES, report(name)).ok()


def restore_nodes(api: Api) -> None:
    """Restore the reports and conditions that `command_cluster` gives the nodes."""
    for name in NODES:
        api.patch(f"{_TOPOLOGIES}/{name}", {"zones": report(name)["zones"]}).ok()
        api.patch(f"/api/v1/nodes/{name}/status", {"status": {"conditions": [_READY]}}).ok()


def report(name: str, free: tuple[tuple[int, int], ...] = ((8, 4), (8, 4))) -> Json:
    """Return the NodeResourceTopology of a node, with the free CPUs and GPUs of each zone."""
    zones: list[Json] = []
    for number, (cpus, gpus) in enumerate(free):
        rows = (("cpu", 8, cpus), ("memory", 64 << 30, cpus * 8 << 30), (GPU, 4, gpus))
        resources = [
            {"name": resource, "capacity": str(whole), "allocatable": str(whole), "available": str(available)}
            for resource, whole, available in rows
        ]
        last = 8 * number + 7
        attributes = [{"name": "zonewise.dev/free-cpus", "value": f"{last - cpus + 1}-{last}"}] if cpus else []
        zones.append({"name": f"node-{number}", "type": "Node", "resources": resources, "attributes": attributes})
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": "single-numa-node"},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": zones,
    }


def until_state(cluster: CommandCluster, job: str, state: str) -> None:
    """Wait until a condition of a Job's Workload is true, such as Admitted."""

    def has_condition() -> bool:
        workloads = [entry for entry in cluster.live.workloads() if _owner(entry) == job]
        conditions = [each for entry in workloads for each in entry.get("status", {}).get("conditions", ())]
        return any(each["type"] == state and each["status"] == "True" for each in conditions)

    eventually(has_condition)


def _owner(workload: Json) -> str:
    owners: list[Json] = workload["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))

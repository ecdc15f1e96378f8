"""A whole cluster with a real API server, etcd, kube-scheduler and kubelets, an agent on each node, and the extender.

No controllers run: the tests remove the nodes' taints, and kubelets remove deleted pods.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from support.agents import CRD, AgentProcess
from support.apiserver import real_apiserver
from support.e2e.kubelet import skip_reason as kubelet_skip_reason
from support.e2e.node import running_node
from support.extender import Extender, running_extender
from support.kubelets import short_directory
from support.programs import RestartableProcess, find_program, missing_program
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from support.apiserver import RealServer
    from support.e2e.node import Node
    from support.e2e.settings import Settings

Object = dict[str, Any]

LIMIT = 60.0
"""Seconds allowed for operations that take a few seconds on an idle machine."""
NAMESPACE = "lab"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"


def skip_reason() -> str | None:
    """Return why no cluster can run here; None if one can."""
    if find_program("kube-scheduler") is None:
        return missing_program("kube-scheduler")
    return kubelet_skip_reason()


class NodeAgent:
    """The agent of a node, which tests kill and start again."""

    def __init__(self, flags: Sequence[str], directory: Path) -> None:
        self._flags = flags
        self._directory = directory
        self.process: AgentProcess | None = None

    def start(self) -> None:
        self._directory.mkdir(exist_ok=True)
        self.process = AgentProcess(self._directory, self._flags, {}, "pass")

    def kill(self) -> None:
        """Kill it if it runs."""
        if self.process is not None:
            self.process.kill()


class Cluster(NamedTuple):
    """The parts of a cluster, all of them running; scheduling() starts kube-scheduler."""

    server: RealServer
    kubeconfig: Path
    directory: Path
    nodes: dict[str, Node]
    agents: dict[str, NodeAgent]

    def create(self, pods: Sequence[Object]) -> None:
        """Create pods, one after another."""
        for pod in pods:
            self.server.admin.post(PODS, pod).ok()

    def pods(self) -> dict[str, Object]:
        """Return all pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.server.admin.get(PODS).ok()["items"]}

    def settled(self, names: Sequence[str], ready: Callable[[Object], bool]) -> dict[str, Object]:
        """Wait until each of the pods satisfies a condition; return the pods."""
        found: dict[str, Object] = {}

        def all_ready() -> bool:
            found.update(self.pods())
            return all(name in found and ready(found[name]) for name in names)

        self.until(all_ready, lambda: str({name: found.get(name, {}).get("status") for name in names})[:4000])
        return {name: found[name] for name in names}

    def delete(self, name: str) -> None:
        """Delete a pod, and let its kubelet end it unless it has ended."""
        answer = self.server.admin.delete(f"{PODS}/{name}", gracePeriodSeconds=1)
        assert answer.status == 404 or answer.ok()

    def clear(self) -> None:
        """Delete all pods, and wait until the agents report that everything is available."""
        for name in self.pods():
            self.delete(name)
        self.until(lambda: not self.pods(), lambda: str(self.pods().keys()))
        self.until(self._idle, lambda: "the nodes are not idle")

    def reports(self) -> dict[str, Object]:
        """Return all NodeResourceTopologies by name."""
        return {made["metadata"]["name"]: made for made in self.server.admin.get(TOPOLOGIES).ok()["items"]}

    def until(self, holds: Callable[[], bool], say: Callable[[], str]) -> None:
        """Wait for a condition; on a timeout, fail with the message of `say`."""
        eventually(holds, LIMIT, say)

    def _idle(self) -> bool:
        return all(
            amount["available"] == amount["allocatable"]
            for report in self.reports().values()
            for zone in report["zones"]
            for amount in zone.get("resources", ())
        )


@contextlib.contextmanager
def running_cluster(
    nodes: Mapping[str, Settings], prepare: Callable[[Node], object] | None = None, *, flags: Sequence[str] = ()
) -> Generator[Cluster]:
    """Run a cluster of nodes with these kubelets; `prepare` runs for each node before its agent starts.

    `flags` are those of kube-apiserver.
    """
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(real_apiserver(*flags))
        directory = Path(stack.enter_context(short_directory()))
        kubeconfig = write_kubeconfig(server, directory)
        server.admin.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(CRD.read_text())
        ).ok()
        server.admin.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}).ok()
        made: dict[str, Node] = {}
        cluster = Cluster(server, kubeconfig, directory, made, {})
        for name, settings in nodes.items():
            made[name] = stack.enter_context(running_node(settings, name=name, kubeconfig=str(kubeconfig)))
            if prepare is not None:
                prepare(made[name])
        for name, node in made.items():
            _make_ready(cluster, name)
            cluster.agents[name] = NodeAgent(_agent_flags(cluster, node), cluster.directory / f"agent-{name}")
            cluster.agents[name].start()
            stack.callback(cluster.agents[name].kill)
        cluster.until(lambda: cluster.reports().keys() == made.keys(), lambda: str(cluster.reports().keys()))
        yield cluster


@contextlib.contextmanager
def scheduling(
    cluster: Cluster, *flags: str, extender: Extender | None = None, percentage: int = 100
) -> Generator[RestartableProcess]:
    """Run kube-scheduler, optionally with an extender. `percentage`: percentageOfNodesToScore (0: its default)."""
    config: Object = {"percentageOfNodesToScore": percentage}
    if extender is not None:
        config["extenders"] = [
            {
                "urlPrefix": extender.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1,
                "preemptVerb": "preempt",
                "nodeCacheCapable": True, "httpTimeout": "10s",
            }
        ]  # fmt: skip
    name = f"kube-scheduler-{extender is not None}"
    with running_scheduler(cluster.kubeconfig, cluster.directory, *flags, name=name, **config) as process:
        yield process


@contextlib.contextmanager
def running_scheduler(
    kubeconfig: Path,
    directory: Path,
    *flags: str,
    program: str = "kube-scheduler",
    name: str = "",
    **fields: object,
) -> Generator[RestartableProcess]:
    """Run kube-scheduler, or a build with other plugins, with more fields in its configuration.

    `name`: of its log file in the directory; by default, that of the program.
    """
    config: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 10000},
        **fields,
    }
    file = directory / "scheduler.json"
    file.write_text(json.dumps(config))
    access = [f"--{purpose}-kubeconfig={kubeconfig}" for purpose in ("authentication", "authorization")]
    log = directory / f"{name or program}.log"
    command = [
        str(find_program(program)),
        f"--config={file}",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        *access,
        *flags,
    ]
    with RestartableProcess(command, log) as process:
        yield process
        assert process.is_alive, log.read_text()[-4000:]


@contextlib.contextmanager
def extending(cluster: Cluster, *flags: str) -> Generator[Extender]:
    """Run the extender and wait until it has the cluster's objects."""
    with running_extender("--kubeconfig", str(cluster.kubeconfig), *flags) as extender:
        cluster.until(extender.ready, lambda: extender.said)
        yield extender
        extender.close()


def write_kubeconfig(server: RealServer, directory: Path, token: str = "") -> Path:
    """Write a kubeconfig for the administrator, or for the bearer of a token; return the file."""
    file = directory / "kubeconfig"
    content = {
        "apiVersion": "v1", "kind": "Config", "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server.url, "certificate-authority": server.ca}}],
        "users": [{"name": "admin", "user": {"token": token or server.token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
    }  # fmt: skip
    file.write_text(json.dumps(content))
    return file


def _make_ready(cluster: Cluster, name: str) -> None:
    """Wait until the kubelet reports the node as ready, and remove the taint that a controller would remove."""
    path = f"/api/v1/nodes/{name}"

    def is_ready() -> bool:
        answer = cluster.server.admin.get(path)
        conditions: list[Object] = answer.body.get("status", {}).get("conditions", []) if answer.status == 200 else []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    cluster.until(is_ready, lambda: str(cluster.server.admin.get(path).body)[:3000])
    cluster.server.admin.patch(path, {"spec": {"taints": []}}).ok()


def _agent_flags(cluster: Cluster, node: Node) -> list[str]:
    kubelet = node.kubelet
    return [
        "--kubeconfig", str(cluster.kubeconfig), "--node-name", kubelet.name, "--root", str(node.root),
        "--kubelet-dir", str(kubelet.directory), "--podresources-socket", str(kubelet.podresources),
        "--kubelet-config", str(kubelet.config), "--publish-labels", "off", "--listen", "127.0.0.1:0",
    ]  # fmt: skip


__all__ = [
    "Cluster",
    "Extender",
    "NodeAgent",
    "extending",
    "running_cluster",
    "scheduling",
    "skip_reason",
    "write_kubeconfig",
]

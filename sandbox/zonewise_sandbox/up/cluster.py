"""A whole cluster in one process: API server, nodes, Job controller, scheduler, extender, controller.

    with open_cluster(ClusterOptions(parse_nodes("4xhgx-h100"))) as cluster:
        print(cluster.url)

It listens only on loopback, and leaves no ports, threads or files behind.
"""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.jobcontroller import JobController
from zonewise_sandbox.podrunner import PodRunner, RunnerSettings
from zonewise_sandbox.up.cluster_clock import ClusterClock
from zonewise_sandbox.up.node_agents import NodeAgents, SimulatedNode
from zonewise_sandbox.up.ports import PortsInUse, listens, reserve_ports, reserved_port
from zonewise_sandbox.up.program_threads import ProgramThread, readiness_problem
from zonewise_sandbox.up.scheduler import PodScheduler
from zonewise_sandbox.up.shipped_objects import (
    NAMESPACE,
    NodeObjects,
    definitions,
    namespace_object,
    queue_objects,
    webhook_objects,
)
from zonewise_scheduler.controller import main as controller_main
from zonewise_scheduler.controller.settings import ControllerSettings
from zonewise_scheduler.extender import main as extender_main
from zonewise_scheduler.extender.settings import ExtenderSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from zonewise_common.kube.config import Config
    from zonewise_sandbox.up.node_descriptions import NodeSet

READY_TIMEOUT = 120.0
"""Seconds within which a cluster must be ready: ten times what 5,000 nodes need."""
_POLL = 0.01
"""Seconds between two checks whether a part is ready."""
CONTROLLER = "zonewise-controller"
"""The Service of the controller's page and read API, behind the API server's proxy."""
START_DELAY = 1.0
"""Seconds of the cluster's time from a pod's binding to its start."""


class ClusterError(Exception):
    """The cluster cannot start; the message states the reason."""


class ClusterStopped(Exception):
    """The cluster was stopped before it was ready."""


class ClusterOptions(NamedTuple):
    """The options of a cluster."""

    nodes: NodeSet
    port: int = 0
    """Port of the API server; 0 for any free one."""
    status_port: int = 0
    """Port of the controller's page and read API; 0 for any free one."""
    speed: float = 1.0
    """Number of the cluster's seconds per real second."""


class Cluster(NamedTuple):
    """A running cluster."""

    server: ApiServer
    clock: ClusterClock
    agents: NodeAgents
    status_url: str
    """URL of the controller's page, read API and metrics."""

    @property
    def url(self) -> str:
        """Return the URL of the API server."""
        return self.server.url

    @property
    def config(self) -> Config:
        """Return the configuration for a client."""
        return self.server.client_config()


@contextmanager
def open_cluster(
    options: ClusterOptions,
    progress: Callable[[str], object] = lambda _text: None,
    stop: threading.Event | None = None,
) -> Generator[Cluster]:
    """Run a cluster while the context is entered.

    `progress` is called with each part that is started next. Raises ClusterError, and ClusterStopped if `stop` is set
    before the cluster is ready.
    """
    stop = stop or threading.Event()
    clock = ClusterClock(options.speed)
    with ExitStack() as stack:
        webhook_port, extender_port = (stack.enter_context(reserved_port()) for _ in range(2))
        try:
            port, status_port = reserve_ports(stack, {"--port": options.port, "--status-port": options.status_port})
        except PortsInUse as error:
            raise ClusterError(str(error)) from error
        server = _open_server(port, clock, webhook_port, status_port)
        stack.callback(server.close)
        count = len(options.nodes.nodes)
        progress(f"{count} nodes, their kubelets and agents")
        _create_objects(server, options.nodes, clock, stop)
        server.start()
        config = server.client_config()
        nodes = (SimulatedNode(node.name, node.machine) for node in options.nodes.nodes)
        agents = stack.enter_context(NodeAgents(config, nodes))
        progress("the extender and the controller")
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="zonewise-up-"))
        programs = (
            ProgramThread("extender", _extender(server.url, extender_port, clock)),
            ProgramThread("controller", _controller(server.url, status_port, webhook_port, directory, clock)),
        )
        for program in programs:
            stack.enter_context(program)
        runner = RunnerSettings(start_delay=START_DELAY, schedulers=frozenset())
        speed = options.speed
        stack.enter_context(PodRunner(config, runner, clock=clock, speed=speed, kubelets=agents))
        stack.enter_context(JobController(config, clock=clock, speed=speed))
        _wait_until(lambda: listens(extender_port), programs, stop)
        stack.enter_context(PodScheduler(config, ("127.0.0.1", extender_port), clock=clock, speed=speed))
        # it leads once the webhooks are trusted, since the leader writes their CAs
        _wait_until(lambda: not readiness_problem(status_port) and _webhooks_are_trusted(server), programs, stop)
        yield Cluster(server, clock, agents, f"http://127.0.0.1:{status_port}/")


def _wait_until(condition: Callable[[], bool], programs: tuple[ProgramThread, ...], stop: threading.Event) -> None:
    """Wait for a condition. Raises ClusterError if a program ends first, or after READY_TIMEOUT seconds."""
    deadline = time.monotonic() + READY_TIMEOUT
    while not condition():
        ended = next((program for program in programs if not program.is_alive), None)
        if ended is not None:
            raise ClusterError(f"a part of the cluster has ended: {ended.error}")
        if time.monotonic() > deadline:
            raise ClusterError(f"the cluster is not ready after {READY_TIMEOUT:.0f} s")
        if stop.wait(_POLL):
            raise ClusterStopped


def _open_server(port: int, clock: ClusterClock, webhook_port: int, status_port: int) -> ApiServer:
    def resolve(_namespace: str, _name: str, _port: int) -> tuple[str, int]:
        return "127.0.0.1", webhook_port

    def services(namespace: str, name: str, _port: str) -> tuple[str, int] | None:
        return ("127.0.0.1", status_port) if (namespace, name) == (NAMESPACE, CONTROLLER) else None

    return ApiServer(port, crds=definitions(), resolve=resolve, services=services, clock=clock)


def _create_objects(server: ApiServer, nodes: NodeSet, clock: ClusterClock, stop: threading.Event) -> None:
    """Create the objects that exist before the controllers start; webhooks come last, since nothing serves them yet.

    Raises ClusterStopped.
    """
    server.create("", "namespaces", namespace_object())
    now = datetime.fromtimestamp(int(clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    objects = NodeObjects(now)
    for description in nodes.nodes:
        if stop.is_set():
            raise ClusterStopped
        node = server.create("", "nodes", objects.node(description))
        server.change("", "nodes", description.name, _without_taints)
        report = objects.report(description, node["metadata"]["uid"])
        server.create("topology.node.k8s.io", "noderesourcetopologies", report)
    plurals = {"Topology": "topologies", "ResourceFlavor": "resourceflavors", "ClusterQueue": "clusterqueues",
               "LocalQueue": "localqueues"}  # fmt: skip
    for obj in queue_objects(nodes):
        server.create("kueue.x-k8s.io", plurals[obj["kind"]], obj)
    for obj in webhook_objects():
        server.create("admissionregistration.k8s.io", f"{obj['kind'].lower()}s", obj)


def _without_taints(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node that is ready, without the taint of new nodes (pkg/controller/nodelifecycle)."""
    return {**node, "spec": {**node["spec"], "taints": []}}


def _extender(url: str, port: int, clock: ClusterClock) -> Callable[[threading.Event], object]:
    """Return the extender, whose API times follow the cluster's clock."""
    default = ExtenderSettings()
    settings = default._replace(
        api_server=url,
        listen=f"127.0.0.1:{port}",
        metrics_listen="",
        stale_after=default.stale_after * clock.speed,
        assume_timeout=default.assume_timeout * clock.speed,
    )
    return lambda stop: extender_main.run_until_stopped(settings, stop, clock)


def _controller(
    url: str, port: int, webhook_port: int, directory: str, clock: ClusterClock
) -> Callable[[threading.Event], object]:
    settings = ControllerSettings(
        api_server=url,
        namespace=NAMESPACE,
        leader_election=False,
        metrics_listen=f"127.0.0.1:{port}",
        webhook_listen=f"127.0.0.1:{webhook_port}",
        webhook_cert_dir=directory,
        kueue_lease="",
    )
    return lambda stop: controller_main.run_until_stopped(settings, stop, clock)


def _webhooks_are_trusted(server: ApiServer) -> bool:
    """Return whether every webhook configuration contains the CA of the controller's certificate."""
    configurations = [
        record.object
        for resource, _, record in server.store.everything()
        if resource[0] == "admissionregistration.k8s.io"
    ]
    return all(
        webhook["clientConfig"].get("caBundle")
        for configuration in configurations
        for webhook in configuration["webhooks"]
    )

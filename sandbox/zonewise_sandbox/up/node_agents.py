"""Simulated nodes: each has a kubelet's managers and the agent's own loop, which runs when pods are added or removed.

The agents share a few threads. A node whose pods change twice before its agent runs is reported once.
"""

from __future__ import annotations

import logging
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from zonewise.daemon.agent import Agent, AgentOptions
from zonewise.daemon.events import Reason
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.status import Status
from zonewise.objects.nrt import NrtOptions
from zonewise.publish.nrt_publisher import NrtPublisher
from zonewise.publish.object_watch import NEVER_OBSERVED, Observation
from zonewise.usage.node_usage import exclude_none
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.reflector import Reflector
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES
from zonewise_sandbox.kubelet.allocation import DoesNotFit
from zonewise_sandbox.kubelet.container_manager import ContainerManager
from zonewise_sandbox.up.kubelet_view import KubeletView, kubelet_report
from zonewise_sandbox.up.pod_specs import pod_spec
from zonewise_sandbox.workqueue import DelayingQueue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from zonewise.daemon.status import Snapshot
    from zonewise.kubelet.types import KubeletReport
    from zonewise.machine.discover import Run, Scan
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.problem import Source
    from zonewise_common.kube.config import Config
    from zonewise_sandbox.podrunner.types import RunnerPod
    from zonewise_sandbox.up.machines import SimulatedMachine

log = logging.getLogger(__name__)

_RETRY = 0.5
"""Seconds until a failed publication of a report is repeated."""
_INTERVAL = 60.0
"""The agent's default, in seconds. Only pods change on a simulated node, so no timer runs."""
_WORKERS = 2
_REPORT = frozenset({Reason.START})
_PODS = frozenset({Reason.PODS})

Object = dict[str, Any]


class _FixedScan(NamedTuple):
    """The constant result of a scan; same as zonewise.machine.discover.Scan, whose import is slow."""

    machine: Machine
    runs: tuple[Run, ...] = ()
    sources: Mapping[str, Source] = MappingProxyType({})


class _FixedScanner:
    """Scans a machine that never changes."""

    def __init__(self, machine: Machine) -> None:
        self._scan = _FixedScan(machine)

    def scan(self) -> Scan:
        return cast("Scan", self._scan)


class SimulatedNode:
    """A node: its kubelet's managers, thread-safe."""

    def __init__(self, name: str, machine: SimulatedMachine) -> None:
        self.name = name
        self.machine = machine
        self._lock = threading.Lock()
        self._managers = ContainerManager(machine.zones, machine.devices, machine.config)

    def admit(self, pod: RunnerPod) -> str:
        """Admit a pod, unless it is admitted already; return the reason for a rejection, or ""."""
        with self._lock:
            if pod.metadata.uid not in self._managers.pods:
                try:
                    self._managers.admit(pod_spec(pod))
                except DoesNotFit as error:
                    return str(error)
        return ""

    def remove(self, uid: str) -> bool:
        """Free the resources of a pod; return whether it was admitted."""
        with self._lock:
            if uid not in self._managers.pods:
                return False
            self._managers.remove(uid)
        return True

    def report(self) -> KubeletReport:
        """Return the current report of its kubelet."""
        with self._lock:
            return kubelet_report(self._managers)


class NodeReport(NamedTuple):
    """What the agent of an idle node publishes."""

    nrt: Object
    labels: dict[str, str]


class _LastSnapshot:
    """A sink that keeps the newest snapshot."""

    snapshot: Snapshot

    def submit(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot


def idle_report(node: SimulatedNode) -> NodeReport:
    """Return what the agent of an idle node publishes. Raises ValueError if it publishes no report."""
    sink = _LastSnapshot()
    _make_agent(node, sink, AgentMetrics()).run_once(_REPORT)
    nrt = sink.snapshot.nrt
    if nrt is None:
        raise ValueError("; ".join(sink.snapshot.problems) or "the agent has no report")
    return NodeReport(nrt, sink.snapshot.labels or {})


class _ReportCopy:
    """The API server's copy of one report, in place of the shared watch."""

    def __init__(self, reports: Reflector[int], name: str) -> None:
        self._reports = reports
        self._name = name
        self._observation = NEVER_OBSERVED

    @property
    def observation(self) -> Observation:
        version = self._reports.get(self._name)
        if version != self._observation.version:
            self._observation = Observation(version)
        return self._observation

    @property
    def age(self) -> float:
        return self._reports.age


class _ReportSink:
    """Publishes the report of each snapshot at once."""

    def __init__(self, publisher: NrtPublisher) -> None:
        self._publisher = publisher

    def submit(self, snapshot: Snapshot) -> None:
        if snapshot.nrt is not None:
            self._publisher.publish(snapshot.nrt)


class NodeAgents:
    """The kubelets and agents of all simulated nodes; they run while the context is entered."""

    def __init__(self, config: Config, nodes: Iterable[SimulatedNode]) -> None:
        """Create the agents; `config` is that of the API server's client."""
        self.nodes: Mapping[str, SimulatedNode] = {node.name: node for node in nodes}
        self._client = Client(config, timeout=60.0, user_agent="zonewise-agent")
        self._reports: Reflector[int] = Reflector(self._client, NODE_RESOURCE_TOPOLOGIES, _version, _ignore)
        self._meters = AgentMetrics()
        self._agents: dict[str, Agent] = {}
        self._queue: DelayingQueue[str] = DelayingQueue(time.monotonic)
        self._threads = [
            threading.Thread(target=self._work, name=f"agents-{number}", daemon=True) for number in range(_WORKERS)
        ]

    def __enter__(self) -> Self:
        self._reports.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._queue.close()
        self._reports.close()
        for thread in self._threads:
            thread.join(5.0)
        self._client.close()

    # --- the kubelets (zonewise_sandbox.podrunner.types.PodAdmission)

    def admit(self, pod: RunnerPod) -> str:
        """Let the pod's kubelet admit it; return the reason for a rejection, or ""."""
        node = self.nodes.get(pod.node)
        if node is None:
            return ""
        rejection = node.admit(pod)
        if not rejection:
            self._queue.add(node.name)
        return rejection

    def remove(self, pod: RunnerPod) -> None:
        """Let the pod's kubelet free its resources."""
        node = self.nodes.get(pod.node)
        if node is not None and node.remove(pod.metadata.uid):
            self._queue.add(node.name)

    # --- the agents

    def _work(self) -> None:
        while (name := self._queue.get()) is not None:
            try:
                self._agent(name).run_once(_PODS)
            except KubeError as error:
                log.warning("node %s: %s", name, error)
                self._queue.add_at(name, time.monotonic() + _RETRY)
            except Exception:  # a defect of this program must not end the worker
                log.exception("node %s", name)
            finally:
                self._queue.done(name)

    def _agent(self, name: str) -> Agent:
        """Return the agent of a node, which is created at the first change of its pods."""
        agent = self._agents.get(name)
        if agent is None:
            publisher = NrtPublisher(self._client, _ReportCopy(self._reports, name))
            agent = self._agents[name] = _make_agent(self.nodes[name], _ReportSink(publisher), self._meters)
        return agent


def _make_agent(node: SimulatedNode, sink: _LastSnapshot | _ReportSink, meters: AgentMetrics) -> Agent:
    options = AgentOptions(node.name, NrtOptions(), exclude_none, _INTERVAL)
    return Agent(
        _FixedScanner(node.machine.machine),
        KubeletView(node.report),
        (sink,),
        options,
        Status(time.monotonic),
        meters,
    )


class _Metadata(msgspec.Struct, gc=False):
    resource_version: str = msgspec.field(name="resourceVersion")


class _Versioned(msgspec.Struct, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Versioned)


def _version(raw: msgspec.Raw) -> int:
    return int(_DECODER.decode(raw).metadata.resource_version)


def _ignore(_old: int | None, _new: int | None) -> None:
    """Ignore a change of a report: the publishers read it when they publish."""

"""The parts of a real cluster that the soak kills and pauses, and the actual free resources of its nodes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.support.agent_testbed import PROJECT
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Generator

    from support.agents import AgentProcess
    from support.e2e.cluster import Cluster, NodeAgent
    from support.e2e.node import Node
    from support.extender import Extender
    from support.programs import RestartableProcess

sys.path.insert(0, str(PROJECT / "tests"))

RESERVED = CpuSet.parse_list("0,16")


class Part(NamedTuple):
    """A program that is killed and restarted, or paused and resumed."""

    name: str
    kill: Callable[[], object]
    start: Callable[[], object]
    pid: Callable[[], int]
    """Process id of its leader; signals go only to that process."""
    said: Callable[[], str] | None = None
    """Log of one of our programs since its last start; None for other programs."""

    def pause(self) -> None:
        """Pause it: its connections stay open and silent."""
        os.kill(self.pid(), signal.SIGSTOP)

    def resume(self) -> None:
        """Let it continue."""
        os.kill(self.pid(), signal.SIGCONT)


class ExtenderPart:
    """The extender on a fixed port, so that kube-scheduler finds it again."""

    def __init__(self, cluster: Cluster, directory: Path, port: int) -> None:
        self._flags = ["--kubeconfig", str(cluster.kubeconfig), "--listen", f"127.0.0.1:{port}"]
        self._directory = directory
        self.process: Extender | None = None

    def start(self) -> None:
        """Start it."""
        from support.extender import Extender

        self.process = Extender(self._directory, self._flags)

    def kill(self) -> None:
        """Kill it, if it runs."""
        if self.process is not None:
            self.process.kill()

    @property
    def running(self) -> Extender:
        """Return the process that was started last."""
        assert self.process is not None, "never started"
        return self.process


class CpuState(NamedTuple):
    """The CPU Manager's state."""

    free: CpuSet
    held: dict[str, CpuSet]
    """CPUs by pod UID."""
    zones: dict[int, CpuSet]

    def largest_free(self, living: Container[str]) -> int:
        """Return the free CPUs of the emptiest zone. The kubelet reclaims the CPUs of pods that no longer exist."""
        free = CpuSet.union([self.free, *(cpus for uid, cpus in self.held.items() if uid not in living)])
        return max(len(free & zone) for zone in self.zones.values())


class SoakCluster(NamedTuple):
    """A cluster with all its parts."""

    cluster: Cluster
    extender: ExtenderPart
    parts: dict[str, Part]

    def cpu_state(self, node: str) -> CpuState | None:
        """Return the content of the kubelet's state file; None if it cannot be read."""
        file = self.cluster.nodes[node].kubelet.directory / "cpu_manager_state"
        try:
            state = json.loads(file.read_text())
            entries: dict[str, dict[str, str]] = state.get("entries") or {}
            return CpuState(
                CpuSet.parse_list(state["defaultCpuSet"]) - RESERVED,
                {uid: CpuSet.union(map(CpuSet.parse_list, sets.values())) for uid, sets in entries.items()},
                {zone: self.cluster.nodes[node].hardware.cpus(zone) for zone in self.cluster.nodes[node].hardware.ids},
            )
        except (OSError, ValueError, KeyError):
            return None


@contextlib.contextmanager
def running_soak_cluster(nodes: int) -> Generator[SoakCluster]:
    """Run an API server, etcd, kube-scheduler, kubelets, agents and the extender."""
    from support.e2e.cluster import running_cluster, scheduling
    from support.e2e.settings import Settings
    from zonewise_sandbox.up.ports import reserved_port

    kubelets = {f"node-{index}": Settings(topology="single-numa-node") for index in range(nodes)}
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(kubelets))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        extender = ExtenderPart(cluster, directory, stack.enter_context(reserved_port()))
        extender.start()
        stack.callback(extender.kill)
        cluster.until(extender.running.ready, lambda: extender.running.said)
        scheduler = stack.enter_context(scheduling(cluster, extender=extender.running))
        yield SoakCluster(cluster, extender, _parts(cluster, extender, scheduler))


def _parts(cluster: Cluster, extender: ExtenderPart, scheduler: RestartableProcess) -> dict[str, Part]:
    processes = {
        "etcd": cluster.server.etcd, "kube-apiserver": cluster.server.apiserver, "kube-scheduler": scheduler,
    }  # fmt: skip
    parts = [_process_part(name, process) for name, process in processes.items()]
    parts += [_kubelet_part(name, node) for name, node in cluster.nodes.items()]
    parts += [_agent_part(name, agent) for name, agent in cluster.agents.items()]
    parts.append(
        Part("extender", extender.kill, extender.start, lambda: extender.running.process.pid,
             lambda: extender.running.said)
    )  # fmt: skip
    return {part.name: part for part in parts}


def _process_part(name: str, process: RestartableProcess) -> Part:
    return Part(name, process.kill, process.start, lambda: process.pid)


def _kubelet_part(name: str, node: Node) -> Part:
    kubelet = node.kubelet
    return Part(f"kubelet {name}", kubelet.stop, lambda: kubelet.start(wait=False), lambda: kubelet.pid)


def _agent_part(name: str, agent: NodeAgent) -> Part:
    def running() -> AgentProcess:
        assert agent.process is not None, "never started"
        return agent.process

    return Part(f"agent {name}", agent.kill, agent.start, lambda: running().process.pid, lambda: running().said)

"""`zonewise agent` as a process: on files of a machine, with an in-memory API server and a simulated kubelet."""

from __future__ import annotations

import atexit
import contextlib
import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.api import Api
from support.disk import lay_out
from support.kubelets import GPU, short_directory
from support.programs import Watched
from support.trees import GIB, Shape, machine_tree
from support.waiting import PATIENCE
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.kubelet import STATIC, SimulatedDevice, SimulatedKubelet, even_zones

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping

    from support.api import Json

NODE = "node-7"
CRD = Path(__file__).parents[2] / "manifests" / "base" / "noderesourcetopologies.yaml"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
TOPOLOGY = f"{TOPOLOGIES}/{NODE}"
NODE_PATH = f"/api/v1/nodes/{NODE}"
KUBELET_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: best-effort
systemReserved: {cpu: "1"}
"""
GRACE = PATIENCE
"""Seconds allowed for an agent to end. An idle machine needs at most one; the agent's pod has five."""

SHAPE = Shape(packages=2, zones=1, cores=8, threads=2, l3_cores=8)
"""The machine; its CPUs are numbered as even_server() numbers them."""
_MEMORY = {"memory": 4 * GIB, "hugepages-2Mi": 256 << 20, "hugepages-1Gi": GIB}
ZONES = tuple(zone._replace(memory=_MEMORY) for zone in even_zones(2, 8))
DEVICES = tuple(SimulatedDevice(GPU, f"gpu-{number}", (number // 2,)) for number in range(4))


_MAIN = """\
import signal, sys
from zonewise.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())"""
"""Restores Python's SIGINT handler, as in a terminal. A shell starts background processes with SIGINT ignored."""


class AgentProcess(Watched):
    def __init__(self, directory: Path, flags: Iterable[str], environment: Mapping[str, str], program: str) -> None:
        log = directory / "stderr"
        self._printed = directory / "stdout"
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "PYTHONPATH")}
        with log.open("wb") as said, self._printed.open("wb") as printed:
            process = subprocess.Popen(
                [sys.executable, "-c", f"{program}\n{_MAIN}", "agent", *flags],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=said,
                env={**kept, **environment},
            )
        super().__init__(process, log)

    @property
    def printed(self) -> str:
        """The text written to standard output so far."""
        return self._printed.read_text()

    def until_said(self, text: str) -> None:
        """Wait until the log contains a text."""
        self.until(lambda: text in self.said)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = GRACE) -> int:
        """Send a signal to end the process and return its exit status; fail if it takes longer than `seconds`."""
        self.send(number)
        return self.ended(seconds)

    def interrupt(self) -> int:
        """Send SIGINT, as Ctrl-C does, and return the exit status."""
        return self.end(signal.SIGINT)

    def ended(self, seconds: float = PATIENCE) -> int:
        """Wait for the process to end by itself and return its exit status."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"runs on after {seconds} s: {self.said}") from None

    def records(self) -> list[dict[str, Any]]:
        """Return the records of a JSON log."""
        return [json.loads(line) for line in self.said.splitlines()]

    def port(self) -> int:
        """Return the port that the agent serves on, from its latest log record about it."""
        self.until_said("serving on port")
        return int(self.said.rpartition("serving on port ")[2].split()[0].strip('"}'))

    def page(self, path: str) -> tuple[int, str]:
        """GET a path; return the status and the text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def metric(self, name: str) -> float:
        """Return a sample of /metrics by its name with labels; 0 if the sample is absent."""
        for line in self.page("/metrics")[1].splitlines():
            if line.rpartition(" ")[0] == name:
                return float(line.rpartition(" ")[2])
        return 0.0

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Site:
    """A node that has no agent yet: its kubelet, its files, and an API server with its Node object."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.root = _machine_files()
        self.config = directory / "kubelet.yaml"
        self.config.write_text(KUBELET_CONFIG)
        self.kubelet = SimulatedKubelet(directory / "k", ZONES, STATIC, devices=DEVICES)
        self._servers: list[ApiServer] = []
        self._agents: list[AgentProcess] = []
        self.open_server()

    # --- the API server

    def open_server(self, port: int = 0) -> None:
        """Start an API server that has only the Node."""
        server = ApiServer(port, crds=[CRD])
        server.start()
        self._servers = [server]
        self.api = Api(server.url)
        self.api.post("/api/v1/nodes", {"metadata": {"name": NODE, "labels": {"example.com/rack": "r1"}}}).ok()

    def close_server(self) -> None:
        self._servers[0].close()

    def break_connections(self) -> None:
        self._servers[0].disconnect()

    def remove_topology(self) -> None:
        self.api.delete(TOPOLOGY).ok()

    def topology(self) -> Json | None:
        """Return the published NodeResourceTopology; None if there is none."""
        answer = self.api.get(TOPOLOGY)
        return answer.ok() if answer.status != 404 else None

    def version(self) -> str:
        """Return the resourceVersion of the API server's whole store, which every write raises."""
        return self.api.get("/api/v1/nodes").ok()["metadata"]["resourceVersion"]

    def labels(self) -> dict[str, str]:
        return self.api.get(NODE_PATH).ok()["metadata"].get("labels", {})

    def available(self, resource: str = "cpu") -> tuple[int, ...] | None:
        """Return the available amount of each zone in the published object; None if nothing is published."""
        topology = self.topology()
        return None if topology is None else available(topology, resource)

    # --- the agent

    def flags(self) -> list[str]:
        """The flags common to all agents here."""
        return [
            "--api-server", self._servers[0].url, "--node-name", NODE, "--root", str(self.root),
            "--kubelet-dir", str(self.kubelet.directory), "--kubelet-config", str(self.config),
            "--publish-labels", "node", "--listen", "127.0.0.1:0", "--log-format", "json",
        ]  # fmt: skip

    def start(self, *flags: str, program: str = "pass", **environment: str) -> AgentProcess:
        """Start an agent. `flags` override the common flags; `program` is Python code that runs first."""
        directory = self.directory / f"agent-{len(self._agents)}"
        directory.mkdir()
        self._agents.append(AgentProcess(directory, [*self.flags(), *flags], environment, program))
        return self._agents[-1]

    def close(self) -> None:
        for agent in self._agents:
            agent.kill()
        self.api.close()
        self.kubelet.close()
        self._servers[0].close()


@functools.cache
def _machine_files() -> Path:
    """Return the directory of the machine's files. Agents only read them, so all sites of a process share it."""
    directory = tempfile.TemporaryDirectory(prefix="machine-")
    atexit.register(directory.cleanup)
    return lay_out(machine_tree(SHAPE), Path(directory.name))


@contextlib.contextmanager
def new_site(*, kubelet: bool = True) -> Generator[Site]:
    """Create a site; its kubelet serves unless `kubelet` is false."""
    with short_directory() as directory, contextlib.closing(Site(directory)) as site:
        if kubelet:
            site.kubelet.serve()
        yield site


def available(topology: Json, resource: str = "cpu") -> tuple[int, ...]:
    """Return the available amount of each zone of an object."""
    zones = [zone for zone in topology["zones"] if zone["type"] == "Node"]
    return tuple(
        int(amount["available"]) for zone in zones for amount in zone["resources"] if amount["name"] == resource
    )


__all__ = ["GPU", "NODE", "AgentProcess", "Site", "available", "new_site"]

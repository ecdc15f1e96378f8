"""The processes around an agent under measurement: API servers, the agent itself, and a watcher."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil

from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_RESOURCE_TOPOLOGIES
from zonewise_common.nrt.names import ALL_PODS, FINGERPRINTS
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

PROJECT = Path(__file__).resolve().parents[2]
CRD = PROJECT / "manifests" / "base" / "noderesourcetopologies.yaml"
NODE = "bench"
SERVICE = {"PYTHONOPTIMIZE": "2", "MALLOC_ARENA_MAX": "1"}
"""The environment of the agent in its image (tools/image/build.py)."""
TIMEOUT = 30.0
"""Seconds to wait for events that should occur soon."""


class Api(NamedTuple):
    """An API server under measurement."""

    name: str
    config: Config
    arguments: tuple[str, ...]
    """Arguments by which an agent reaches it."""


# --- API servers


@contextmanager
def embedded(_: Path) -> Generator[Api | None]:
    command = [sys.executable, "-m", "zonewise_sandbox.apiserver", "--crd", str(CRD), "--port"]
    with reserved_port() as port, subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        wait(lambda: responds(f"{url}/readyz"))
        yield Api("embedded API server", Config.from_url(url), ("--api-server", url))
        process.terminate()


@contextmanager
def real(directory: Path) -> Generator[Api | None]:
    sys.path.insert(0, str(PROJECT / "tests"))
    from support.apiserver import binaries, real_apiserver  # the test harness of the contract tests

    absent = binaries()
    if isinstance(absent, str):
        print(absent)
        yield None
        return
    with real_apiserver() as server:
        config = Config.from_url(server.url, server.token, ca=server.ca)
        _define(config)
        file = directory / "kubeconfig"
        file.write_text(json.dumps(_kubeconfig(server.url, server.token, server.ca)))
        yield Api("kube-apiserver and etcd", config, ("--kubeconfig", str(file)))


class PublishedReports:
    """Every version of the object, with the time at which a watcher received it."""

    def __init__(self, client: Client) -> None:
        self._watch = client.watch(NODE_RESOURCE_TOPOLOGIES, resource_version="0", seconds=600)
        self._versions: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def has(self, fingerprint: str) -> bool:
        """Return whether a report of a set of pods was received."""
        return any(published == fingerprint for _, published in self._versions)

    def delays(self, expected: list[tuple[float, str]]) -> list[float]:
        """Return for each state the time until that state or a later one was visible."""
        order = {fingerprint: number for number, (_, fingerprint) in enumerate(expected)}
        versions = [(moment, order[fingerprint]) for moment, fingerprint in self._versions if fingerprint in order]
        delays: list[float] = []
        for number, (moment, _) in enumerate(expected):
            delays.append(next(visible_at for visible_at, index in versions if index >= number) - moment)
        return delays

    def close(self) -> None:
        """Stop watching."""
        self._watch.abort()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            for event in self._watch:
                moment = time.monotonic()
                match = re.search(rf'"{FINGERPRINTS[ALL_PODS]}","value":"(\w+)"', bytes(event.object).decode())
                if match is not None:
                    self._versions.append((moment, match[1]))
        except KubeError:
            return


class AgentProcess:
    """A running agent."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self.port = port

    def writes(self) -> dict[str, int]:
        """Return the count and bytes of all writes, and the number of writes of at most 1,200 bytes."""
        totals = {"count": 0, "bytes": 0, "small": 0}
        for line in self._metrics().splitlines():
            if 'object="nrt"' not in line or not line.startswith("zonewise_publish_size_bytes"):
                continue
            value = int(float(line.rpartition(" ")[2]))
            name = line.partition("{")[0]
            totals["count"] += value if name.endswith("_count") else 0
            totals["bytes"] += value if name.endswith("_sum") else 0
            totals["small"] += value if 'le="1200.0"' in line else 0
        return totals

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def weight(self) -> tuple[float, float]:
        """Return the resident and the private memory, in MiB."""
        memory = psutil.Process(self.process.pid).memory_full_info()
        return memory.rss / (1 << 20), memory.uss / (1 << 20)

    def stop(self) -> None:
        """Stop the agent."""
        self.process.terminate()
        self.process.wait(10)

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as response:
            return response.read().decode()


@contextmanager
def running_agent(root: Path, directory: str, api: Api, *flags: str, node: str = NODE) -> Generator[AgentProcess]:
    with reserved_port() as port:
        command = [
            sys.executable, "-m", "zonewise", "agent", *api.arguments, "--root", str(root), "--kubelet-dir", directory,
            "--node-name", node, "--publish-labels", "node", "--listen", f"127.0.0.1:{port}", "--log-level", "error",
            *flags,
        ]  # fmt: skip
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {**SERVICE, "PYTHONPYCACHEPREFIX": os.path.join(directory, "bytecode")}
        # the first agent compiles the bytecode of all modules: a process that compiles at import has a fragmented heap
        with _started_agent(command, environment, port):
            pass
        with _started_agent(command, environment, port) as agent:
            yield agent


@contextmanager
def _started_agent(command: list[str], environment: dict[str, str], port: int) -> Generator[AgentProcess]:
    """Start an agent, wait until it is ready, and stop it."""
    with subprocess.Popen(command, env=environment) as process:
        agent = AgentProcess(process, port)
        wait(lambda: responds(f"http://127.0.0.1:{port}/readyz"))
        try:
            yield agent
        finally:
            agent.stop()


# --- helpers


def _define(config: Config) -> None:
    import yaml

    client = Client(config)
    client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(CRD.read_text()))
    wait(lambda: _served(client))
    client.close()


def _served(client: Client) -> bool:
    try:
        client.list(NODE_RESOURCE_TOPOLOGIES)
    except KubeError:
        return False
    return True


def _kubeconfig(url: str, token: str, ca: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Config", "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": url, "certificate-authority": ca}}],
        "users": [{"name": "bench", "user": {"token": token}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }  # fmt: skip


def responds(url: str) -> bool:
    """Return whether a URL responds with status 200."""
    try:
        with urllib.request.urlopen(url, timeout=1) as response:  # noqa: S310
            return response.status == 200
    except OSError:
        return False


def wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {TIMEOUT:g} s: {condition}")
        time.sleep(0.02)

"""The agent: how soon a change is visible, how much is written, what it weighs. Run by `make bench`.

Three processes as on a node: an API server (the embedded one; and a real kube-apiserver with etcd where their binaries
are found), `zonewise agent`, and here a simulated kubelet, which allocates, and a watcher, which sees.
"""

from __future__ import annotations

import compileall
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.kube.client import Client
from zonewise.kube.config import Config
from zonewise.kube.errors import KubeError
from zonewise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise.kubelet.simulated import ContainerSpec, PodSpec, SimulatedKubelet, SimulatedZone
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover
from zonewise.topology.fingerprint import fingerprint
from zonewise.topology.names import ALL_PODS, FINGERPRINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

PROJECT = Path(__file__).resolve().parents[1]
SNAPSHOT = PROJECT.parent / "shared" / "snapshots" / "hwloc" / "32intel64-2p8co2t+8ve.tar.bz2"
CRD = PROJECT / "manifests" / "base" / "noderesourcetopologies.yaml"
NODE = "bench"
PODS = 1000
RATE = 20.0
"""Pod starts a second."""
RUNNING = 12
"""Pods at a time."""
IDLE = 70.0
"""Seconds in which nothing happens but the slow rescan, once a minute."""
LOOKS = 10_000
PATIENCE = 30.0

KUBELET_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: best-effort
"""
SCANS = """
import sys, time
from zonewise.kubelet.podresources import client
client.RATE, client.BURST = 1e9, 1 << 20  # the simulated kubelet refuses nobody
from zonewise.daemon.events import Reason
from zonewise.daemon.metrics.meters import Meters
from zonewise.daemon.parts import make_agent, open_client, open_kubelet, open_publishing
from zonewise.daemon.settings import Settings
from zonewise.daemon.status import Status
root, directory, url, looks = sys.argv[1:]
settings = Settings(node_name="bench", root=root, kubelet_dir=directory, api_server=url, publish_labels="node")
settings = settings.completed()
meters, status = Meters(), Status(time.monotonic)
meters.watch(status)
api, kubelet = open_client(settings), open_kubelet(settings, meters)
def weight():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    found = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
    return found["Rss:"], found["Private_Clean:"] + found["Private_Dirty:"]
with open_publishing(settings, api, "", status, meters) as publishing:
    agent = make_agent(settings, kubelet, api, publishing, status, meters)
    agent.look(frozenset({Reason.START}))
    for number in range(1, int(looks) + 1):
        agent.look(frozenset({Reason.NOTIFY}))
        if number in (1000, int(looks)):
            publishing.wait(5.0)
            print(*weight())
"""


class Row(NamedTuple):
    """A figure beside its promise."""

    what: str
    found: str
    promise: str = ""
    kept: bool = True


class Api(NamedTuple):
    """An API server under measurement."""

    name: str
    config: Config
    arguments: tuple[str, ...]
    """By which an agent reaches it."""


def main() -> int:
    """Measure all, print the table; return 1 where a promise is not kept."""
    if not SNAPSHOT.exists():
        print("the captured machines are not beside the project: nothing was measured")
        return 0
    compileall.compile_dir(PROJECT / "agent", quiet=1)  # as it is installed for service
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        root = _unpack(Path(directory))
        for opened in (_embedded, _real):
            with opened(Path(directory)) as api:
                if api is not None:
                    rows += _measure(root, api)
    width = max(len(row.what) for row in rows)
    for row in rows:
        print(f"{row.what:{width}}  {row.found:>22}  {row.promise:>14}  {'kept' if row.kept else 'MISSED'}")
    return 0 if all(row.kept for row in rows) else 1


# --- API servers


@contextmanager
def _embedded(_: Path) -> Generator[Api | None]:
    port = _free_port()
    command = [sys.executable, "-m", "zonewise.kube.server", "--port", str(port), "--crd", str(CRD)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        _wait(lambda: _answers(f"{url}/readyz"))
        yield Api("embedded API server", Config.plain(url), ("--api-server", url))
        process.terminate()


@contextmanager
def _real(directory: Path) -> Generator[Api | None]:
    sys.path.insert(0, str(PROJECT / "tests"))
    from support.apiserver import binaries, real_apiserver  # the harness of the contract tests

    absent = binaries()
    if isinstance(absent, str):
        print(absent)
        yield None
        return
    with real_apiserver() as server:
        config = Config.plain(server.url, server.token, ca=server.ca)
        _define(config)
        file = directory / "kubeconfig"
        file.write_text(json.dumps(_kubeconfig(server.url, server.token, server.ca)))
        yield Api("kube-apiserver and etcd", config, ("--kubeconfig", str(file)))


# --- measuring


def _measure(root: Path, api: Api) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        kubelet = stack.enter_context(SimulatedKubelet(directory, _zones(root)))
        Path(directory, "config.yaml").write_text(KUBELET_CONFIG)
        client = Client(api.config)
        stack.callback(client.close)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        seen = Seen(client)
        stack.callback(seen.close)
        agent = stack.enter_context(_running_agent(root, directory, api))
        yield from _latency(kubelet, seen, agent, api)
        if "api-server" in api.arguments[0]:
            yield from _idle(agent)
            agent.stop()
            yield from _weight(root, directory, api.config.url)


def _latency(kubelet: SimulatedKubelet, seen: Seen, agent: AgentProcess, api: Api) -> Iterator[Row]:
    _wait(lambda: seen.has(fingerprint(())))
    before = agent.writes()
    pods = [PodSpec("bench", f"pod-{number}", (ContainerSpec("c", 1000, {"memory": 1 << 30}),), f"uid-{number}")
            for number in range(PODS)]  # fmt: skip
    expected: list[tuple[float, str]] = []
    started = time.monotonic()
    for number, pod in enumerate(pods):
        time.sleep(max(0.0, started + number / RATE - time.monotonic()))
        running = pods[max(0, number - RUNNING + 1) : number + 1]
        moment = time.monotonic()
        if number >= RUNNING:
            kubelet.stop(pods[number - RUNNING].uid)
        kubelet.start(pod)
        expected.append((moment, fingerprint((one.namespace, one.name) for one in running)))
    _wait(lambda: seen.has(expected[-1][1]))
    delays = sorted(seen.delays(expected))
    median, last = statistics.median(delays) * 1000, delays[int(len(delays) * 0.99)] * 1000
    after = agent.writes()
    count = after["count"] - before["count"]
    small = after["small"] - before["small"]
    mean = (after["bytes"] - before["bytes"]) / max(1, count)
    yield Row(f"{api.name}: allocated to visible, median", f"{median:.1f} ms", "<= 30 ms", median <= 30)
    yield Row("... 99th percentile", f"{last:.1f} ms", "<= 150 ms", last <= 150)
    yield Row(f"... writes for {PODS} pod starts", f"{count}", f"<= {PODS}", count <= PODS)
    yield Row("... of at most 1.2 KB", f"{small} of {count}", "all", small == count)
    yield Row("... bytes a write, mean", f"{mean:.0f}")


def _idle(agent: AgentProcess) -> Iterator[Row]:
    time.sleep(2)
    writes, cpu = agent.writes()["count"], agent.cpu_seconds()
    time.sleep(IDLE)
    share = (agent.cpu_seconds() - cpu) / IDLE * 100
    more = agent.writes()["count"] - writes
    yield Row(f"writes in {IDLE:.0f} idle seconds, a rescan among them", f"{more}", "0", more == 0)
    yield Row("CPU while idle", f"{share:.2f} % of a core", "<= 0.2 %", share <= 0.2)


def _weight(root: Path, directory: str, url: str) -> Iterator[Row]:
    command = [sys.executable, "-c", SCANS, str(root), directory, url, str(LOOKS)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (resident, private), (later, later_private) = (
        [int(number) / 1024 for number in line.split()] for line in printed.splitlines()
    )
    growth = max(later - resident, later_private - private)
    yield Row("resident after 1,000 scans", f"{resident:.1f} MiB", "<= 48 MiB", resident <= 48)
    yield Row("... of which private", f"{private:.1f} MiB", "<= 26 MiB", private <= 26)
    yield Row(f"... growth until {LOOKS:,} scans", f"{growth:.2f} MiB", "flat", growth <= 0.5)


class Seen:
    """Every version of the object, with the moment at which it was visible to a watcher."""

    def __init__(self, client: Client) -> None:
        self._watch = client.watch(NODE_RESOURCE_TOPOLOGIES, resource_version="0", seconds=600)
        self._versions: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def has(self, wanted: str) -> bool:
        """Tell whether a set of pods was seen."""
        return any(found == wanted for _, found in self._versions)

    def delays(self, expected: list[tuple[float, str]]) -> list[float]:
        """Return for each state how long it took until it, or a later one, was visible."""
        order = {found: number for number, (_, found) in enumerate(expected)}
        versions = [(moment, order[found]) for moment, found in self._versions if found in order]
        delays: list[float] = []
        for number, (moment, _) in enumerate(expected):
            delays.append(next(seen for seen, at in versions if at >= number) - moment)
        return delays

    def close(self) -> None:
        """Stop watching."""
        self._watch.abort()
        self._thread.join(5.0)

    def _run(self) -> None:
        try:
            for event in self._watch:
                moment = time.monotonic()
                found = re.search(rf'"{FINGERPRINTS[ALL_PODS]}","value":"(\w+)"', bytes(event.object).decode())
                if found is not None:
                    self._versions.append((moment, found[1]))
        except KubeError:
            return


class AgentProcess:
    """A running agent."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self.process = process
        self._port = port

    def writes(self) -> dict[str, int]:
        """Return the count and bytes of all writes, and how many of them were of at most 1,200 bytes."""
        found = {"count": 0, "bytes": 0, "small": 0}
        for line in self._metrics().splitlines():
            if 'object="nrt"' not in line or not line.startswith("zonewise_publish_size_bytes"):
                continue
            value = int(float(line.rpartition(" ")[2]))
            name = line.partition("{")[0]
            found["count"] += value if name.endswith("_count") else 0
            found["bytes"] += value if name.endswith("_sum") else 0
            found["small"] += value if 'le="1200.0"' in line else 0
        return found

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(10)

    def _metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=5) as answer:
            return answer.read().decode()


@contextmanager
def _running_agent(root: Path, directory: str, api: Api) -> Generator[AgentProcess]:
    port = _free_port()
    command = [
        sys.executable, "-m", "zonewise", "agent", *api.arguments, "--root", str(root), "--kubelet-dir", directory,
        "--node-name", NODE, "--publish-labels", "node", "--listen", f"127.0.0.1:{port}", "--log-level", "error",
    ]  # fmt: skip
    with subprocess.Popen(command) as process:
        agent = AgentProcess(process, port)
        _wait(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))
        try:
            yield agent
        finally:
            agent.stop()


# --- odds and ends


def _zones(root: Path) -> list[SimulatedZone]:
    machine = discover(open_root(str(root)))
    return [SimulatedZone(zone.id, zone.cpus, {"memory": zone.memory or 0}) for zone in machine.zones if zone.cpus]


def _define(config: Config) -> None:
    import yaml

    client = Client(config)
    client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(CRD.read_text()))
    _wait(lambda: _served(client))
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


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310
            return answer.status == 200
    except OSError:
        return False


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not so within {PATIENCE:g} s: {condition}")
        time.sleep(0.02)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _unpack(directory: Path) -> Path:
    with tarfile.open(SNAPSHOT) as tar:
        tar.extractall(directory, filter="fully_trusted")  # noqa: S202 -- our own data
    return directory / SNAPSHOT.name.removesuffix(".tar.bz2")


if __name__ == "__main__":
    sys.exit(main())

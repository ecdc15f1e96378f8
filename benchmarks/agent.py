"""The agent: how soon a change becomes visible, how much is written, and how much memory it uses. Run by `make bench`.

Three processes run, as on a node: an API server, `zonewise agent`, and this process. The API server is the embedded
one, and also a real kube-apiserver with etcd if their binaries are available. This process contains a simulated
kubelet, which allocates, and a watcher, which observes.
"""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.agent_testbed import (
    NODE,
    PROJECT,
    AgentProcess,
    Api,
    PublishedReports,
    embedded,
    real,
    running_agent,
    wait,
)
from benchmarks.support.targets import Row, show
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover
from zonewise_common.kube.client import Client
from zonewise_common.kube.resources import NODES
from zonewise_common.nrt.podfingerprint import fingerprint
from zonewise_sandbox.kubelet import ContainerSpec, PodSpec, SimulatedKubelet, SimulatedZone

if TYPE_CHECKING:
    from collections.abc import Iterator

SNAPSHOT = PROJECT.parent / "shared" / "snapshots" / "hwloc" / "32intel64-2p8co2t+8ve.tar.bz2"
PODS = 1000
RATE = 20.0
"""Pod starts per second."""
RUNNING = 12
"""Number of pods that run at the same time."""
IDLE = 70.0
"""Seconds in which only the slow rescan happens, once a minute."""
LOOKS = 10_000

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
client.RATE, client.BURST = 1e9, 1 << 20  # the simulated kubelet has no rate limit
from zonewise.daemon.events import Reason
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.components import make_agent, open_kubelet, open_publishing
from zonewise_common.service.api_client import open_client
from zonewise.daemon.settings import Settings
from zonewise.daemon.status import Status
root, directory, url, scans = sys.argv[1:]
settings = Settings(node_name="bench", root=root, kubelet_dir=directory, api_server=url, publish_labels="node")
settings = settings.completed()
metrics, status = AgentMetrics(), Status(time.monotonic)
metrics.watch(status)
api, kubelet = open_client(settings.api_server, settings.kubeconfig), open_kubelet(settings, metrics)
def weight():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    kilobytes = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
    return kilobytes["Rss:"], kilobytes["Private_Clean:"] + kilobytes["Private_Dirty:"]
with open_publishing(settings, api, "", status, metrics) as publishing:
    agent = make_agent(settings, kubelet, api, publishing, status, metrics)
    agent.run_once(frozenset({Reason.START}))
    for number in range(1, int(scans) + 1):
        agent.run_once(frozenset({Reason.NOTIFY}))
        if number in (1000, int(scans)):
            publishing.wait(5.0)
            print(*weight())
"""


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    if not SNAPSHOT.exists():
        print("the captured machines are not beside the project: nothing was measured")
        return 0
    compileall.compile_dir(PROJECT / "agent", quiet=1)  # as in the installed service
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        root = unpacked_machine(Path(directory))
        for opened in (embedded, real):
            with opened(Path(directory)) as api:
                if api is not None:
                    rows += _measure(root, api)
    return show(rows)


# --- measurements


def _measure(root: Path, api: Api) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        kubelet = stack.enter_context(SimulatedKubelet(directory, kubelet_zones(root)))
        Path(directory, "config.yaml").write_text(KUBELET_CONFIG)
        client = Client(api.config)
        stack.callback(client.close)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        reports = PublishedReports(client)
        stack.callback(reports.close)
        agent = stack.enter_context(running_agent(root, directory, api))
        yield from _latency(kubelet, reports, agent, api)
        if "api-server" in api.arguments[0]:
            yield from _weight(agent)
            yield from _idle(agent)
            agent.stop()
            yield from _growth(root, directory, api.config.url)


def _latency(kubelet: SimulatedKubelet, reports: PublishedReports, agent: AgentProcess, api: Api) -> Iterator[Row]:
    wait(lambda: reports.has(fingerprint(())))
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
        expected.append((moment, fingerprint((spec.namespace, spec.name) for spec in running)))
    wait(lambda: reports.has(expected[-1][1]))
    delays = sorted(reports.delays(expected))
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


def _weight(agent: AgentProcess) -> Iterator[Row]:
    """Measure the memory of the process after at least as many scans as there were pods."""
    resident, private = agent.weight()
    yield Row(f"resident after {PODS:,} pod starts", f"{resident:.1f} MiB", "<= 48 MiB", resident <= 48)
    yield Row("... of which private", f"{private:.1f} MiB", "<= 26 MiB", private <= 26)


def _growth(root: Path, directory: str, url: str) -> Iterator[Row]:
    command = [sys.executable, "-c", SCANS, str(root), directory, url, str(LOOKS)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    first, last = ([int(number) / 1024 for number in line.split()] for line in printed.splitlines())
    growth = max(after - before for before, after in zip(first, last, strict=True))
    yield Row(f"growth from 1,000 to {LOOKS:,} scans", f"{growth:.2f} MiB", "flat", growth <= 0.5)


# --- helpers


def kubelet_zones(root: Path) -> list[SimulatedZone]:
    machine = discover(open_root(str(root)))
    return [SimulatedZone(zone.id, zone.cpus, {"memory": zone.memory or 0}) for zone in machine.zones if zone.cpus]


def unpacked_machine(directory: Path) -> Path:
    with tarfile.open(SNAPSHOT) as tar:
        tar.extractall(directory, filter="fully_trusted")  # noqa: S202 -- our own data
    root = directory / SNAPSHOT.name.removesuffix(".tar.bz2")
    cgroups = root / "sys" / "fs" / "cgroup"
    (cgroups / "kubepods").mkdir(parents=True)  # as a kubelet with cgroupsPerQOS (default) does: no polling is needed
    (cgroups / "cgroup.controllers").touch()
    return root


if __name__ == "__main__":
    sys.exit(main())

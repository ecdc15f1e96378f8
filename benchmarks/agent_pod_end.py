"""The agent on a real kubelet: how soon the report shows the resources of a pod that has ended. Run by `make bench`.

The kubelet creates no cgroups and reconciles once an hour. The end of a pod then changes no file and removes no cgroup,
so the agent's slowest mechanism is measured: its polls. The time runs from the last List of the kubelet that contains
the pod until a watcher receives the report. List is read every 20 ms here.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from benchmarks.support.agent_testbed import CRD, PROJECT
from benchmarks.support.targets import Row, show, skip
from zonewise.kubelet.podresources.client import PodResourcesClient
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator

sys.path.insert(0, str(PROJECT / "tests"))
from support.agents import AgentProcess, available
from support.e2e.kubelet import NODE, skip_reason
from support.e2e.node import Node, running_node
from support.e2e.pods import container, pod
from support.e2e.settings import Settings

ENDS = 40
IDLE = (14, 16)
"""Free CPUs of the two zones of the idle node."""
LIMIT = 30.0


class _Reports:
    """The last report, and when a watcher received it."""

    def __init__(self, client: Client) -> None:
        self._watch = client.watch(NODE_RESOURCE_TOPOLOGIES, resource_version="0")
        self._seen: list[tuple[float, tuple[int, ...]]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def until(self, idle: bool, since: float) -> float:
        """Wait for a report of an idle or a busy node since a moment; return when it arrived."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            for moment, cpus in reversed(self._seen):
                if moment >= since and (cpus == IDLE) == idle:
                    return moment
            time.sleep(0.001)
        raise TimeoutError(f"no report after {LIMIT:g} s: {self._seen[-1:]}")

    def close(self) -> None:
        self._watch.abort()
        self._thread.join(5.0)

    def _run(self) -> None:
        with contextlib.suppress(KubeError):
            for event in self._watch:
                if event.type != "BOOKMARK":
                    self._seen.append((time.monotonic(), available(msgspec.json.decode(event.object))))


def main() -> int:
    """Run the measurement and print the table; return 1 if a target is missed."""
    reason = skip_reason()
    if reason is not None:
        return skip(reason)
    return show(list(_measure()))


def _measure() -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running_node(Settings(topology="single-numa-node", reconcile="1h")))
        node.run(pod("stays", container()))
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zw-")))
        server = stack.enter_context(ApiServer(crds=[CRD]))
        client = Client(server.client_config())
        stack.callback(client.close)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        reports = _Reports(client)
        stack.callback(reports.close)
        flags = [
            "--api-server", server.url, "--node-name", NODE, "--root", str(node.root),
            "--kubelet-dir", str(node.kubelet.directory), "--podresources-socket", str(node.kubelet.podresources),
            "--kubelet-config", str(node.kubelet.config), "--publish-labels", "off", "--listen", "127.0.0.1:0",
        ]  # fmt: skip
        stack.callback(AgentProcess(directory, flags, {}, "pass").kill)
        kubelet = stack.enter_context(contextlib.closing(PodResourcesClient(str(node.kubelet.podresources))))
        delays = sorted(_one_end(node, kubelet, reports, f"p{number}") for number in range(ENDS))
    median, last = statistics.median(delays) * 1000, delays[int(len(delays) * 0.99)] * 1000
    yield Row("from end in List to report, median", f"{median:.0f} ms", "<= 200 ms", median <= 200)
    yield Row("... 99th percentile", f"{last:.0f} ms", "<= 1000 ms", last <= 1000)


def _one_end(node: Node, kubelet: PodResourcesClient, reports: _Reports, name: str) -> float:
    """Run a pod and end it; return the seconds from the last List with the pod to the report."""
    started = time.monotonic()
    node.run(pod(name, container(cpu="4", memory="1Gi")))
    reports.until(idle=False, since=started)
    node.kubelet.remove(name)
    listed_at = removed_at = time.monotonic()
    while any(listed.name.startswith(f"{name}-") for listed in kubelet.list()):
        listed_at = time.monotonic()
        time.sleep(0.02)  # the kubelet accepts 100 calls a second from all clients together
    return reports.until(idle=True, since=removed_at) - listed_at


if __name__ == "__main__":
    sys.exit(main())

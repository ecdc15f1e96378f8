"""Runs the agent between an API server in memory and a simulated kubelet, and shows each change with its delay."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from demo.burst import run_burst
from demo.machine import DEVICES, GPU, ZONES, FixedScanner
from demo.steps import GIB, STEPS
from demo.watcher import Watcher
from zonewise.daemon.agent import Agent, AgentOptions
from zonewise.daemon.components import open_events, open_kubelet, open_publishing
from zonewise.daemon.events import Reason
from zonewise.daemon.events.wake import Wake
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.settings import Settings
from zonewise.daemon.status import Status
from zonewise.objects.nrt import NrtOptions
from zonewise.usage.node_usage import exclude_none
from zonewise_common.kube.client import Client
from zonewise_common.kube.resources import NODES
from zonewise_common.nrt.podfingerprint import fingerprint
from zonewise_common.service import logs
from zonewise_sandbox.apiserver import ApiServer
from zonewise_sandbox.kubelet import DoesNotFit, SimulatedKubelet

if TYPE_CHECKING:
    from collections.abc import Generator

    from zonewise.daemon.components import Publishers

NODE = "demo-node"
CRD = Path(__file__).parents[1] / "manifests" / "base" / "noderesourcetopologies.yaml"
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: best-effort
"""
PAUSE = 0.4
"""Seconds between two steps on a terminal, so that a viewer can follow them."""
WIDTH = 43  # characters of the longest step


class WriteStats(NamedTuple):
    """What the agent has written to the API server."""

    publishing: Publishers
    meters: AgentMetrics

    def bytes(self, operation: str) -> float:
        """Return the total bytes of all writes of one kind."""
        self.publishing.wait(1.0)  # the watcher may receive a write before the writer has counted it
        return self.value("sum", operation)

    def value(self, suffix: str, operation: str) -> float:
        """Return one value of the size metric."""
        labels = {"object": "nrt", "operation": operation}
        return self.meters.registry.get_sample_value(f"zonewise_publish_size_bytes_{suffix}", labels) or 0.0


def main() -> int:
    """Run the demonstration; return the exit status."""
    pause = PAUSE if sys.stdout.isatty() else 0.05
    with tempfile.TemporaryDirectory(prefix="zonewise-demo-") as directory, ExitStack() as stack:
        logs.configure_logging("error", "text")
        Path(directory, "config.yaml").write_text(CONFIG)
        server = stack.enter_context(ApiServer(crds=[CRD]))
        kubelet = stack.enter_context(SimulatedKubelet(directory, ZONES, devices=DEVICES))
        client = Client(server.client_config())
        stack.callback(client.close)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        watcher = Watcher(client)
        stack.callback(watcher.close)
        stats = stack.enter_context(_running_agent(directory, client))
        print(
            "The agent between a simulated kubelet and an API server in memory: free resources, as clients see them.\n"
        )
        print(_heading())
        _run_steps(kubelet, watcher, stats, pause)
        print(_summary(stats))
    print()
    run_burst()
    return 0


@contextmanager
def _running_agent(directory: str, client: Client) -> Generator[WriteStats]:
    """Run the agent's loop in a thread, as `zonewise agent` does in its main thread."""
    settings = Settings(node_name=NODE, kubelet_dir=directory, publish_labels="off").completed()
    meters, status = AgentMetrics(), Status(time.monotonic)
    with ExitStack() as stack:
        kubelet = open_kubelet(settings, meters)
        stack.callback(kubelet.close)
        publishing = stack.enter_context(open_publishing(settings, client, "", status, meters))
        options = AgentOptions(NODE, NrtOptions(), exclude_none, settings.interval)
        agent = Agent(FixedScanner(), kubelet, publishing.sinks, options, status, meters)
        wake = Wake()
        stack.callback(wake.close)
        events = stack.enter_context(open_events(settings, "", [wake]))
        thread = threading.Thread(target=agent.run, args=(events,), name="agent", daemon=True)
        thread.start()
        yield WriteStats(publishing, meters)
        wake(Reason.STOP)
        thread.join(5.0)


def _run_steps(kubelet: SimulatedKubelet, watcher: Watcher, stats: WriteStats, pause: float) -> None:
    running: dict[str, tuple[str, str]] = {}
    start = time.monotonic()
    report = watcher.wait_for(fingerprint(running.values()))
    print(_row(0.0, "the agent starts", report.object, f"{stats.bytes('apply'):4.0f} B"))
    for step in STEPS:
        time.sleep(pause)
        before, moment = stats.bytes("patch"), time.monotonic()
        try:
            if step.start is not None:
                kubelet.start(step.start)
                running[step.start.uid] = (step.start.namespace, step.start.name)
            else:
                kubelet.stop(step.stop)
                del running[step.stop]
        except DoesNotFit as error:
            print(_row(moment - start, f"{step.text}: rejected", report.object, f"({error})"))
            continue
        report = watcher.wait_for(fingerprint(running.values()))
        after = f"{stats.bytes('patch') - before:4.0f} B, {(report.moment - moment) * 1000:4.1f} ms"
        print(_row(moment - start, step.text, report.object, after))


def _heading() -> str:
    zones = "".join(f"  zone {zone.id}: CPUs GPUs GiB" for zone in ZONES)
    return f"{'':7} {'what happens':{WIDTH}}{zones}   written, visible after"


def _row(seconds: float, text: str, obj: dict[str, Any], after: str) -> str:
    zones = [zone for zone in obj["zones"] if zone["type"] == "Node"]
    return f"{seconds:5.2f} s {text:{WIDTH}}{''.join(map(_free, zones))}   {after}"


def _free(zone: dict[str, Any]) -> str:
    free = {resource["name"]: int(resource["available"]) for resource in zone["resources"]}
    return f"  {free['cpu']:12} {free[GPU]:4} {free['memory'] / GIB:3.0f}"


def _summary(stats: WriteStats) -> str:
    writes = stats.value("count", "patch")
    return f"\n{writes:.0f} patches of {stats.bytes('patch') / max(1.0, writes):.0f} bytes on average."


if __name__ == "__main__":
    sys.exit(main())

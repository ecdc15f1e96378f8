"""The whole system of a node: a real kubelet, the agent as a process, and an API server.

The agent publishes what the kubelet's own files contain, within a moment of each change, and never more.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pytest

from support.agents import CRD, AgentProcess, available
from support.e2e.kubelet import NODE, skip_reason
from support.e2e.node import running_node
from support.e2e.plugin import Device
from support.e2e.pods import GPU, container, init, pod
from support.e2e.settings import Settings, configuration
from support.e2e.truth import truth
from support.kubelets import short_directory
from zonewise_common.kube.client import Client
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import NODE_RESOURCE_TOPOLOGIES, NODES
from zonewise_sandbox.apiserver import ApiServer

if TYPE_CHECKING:
    from collections.abc import Generator

    from support.e2e.node import Node

pytestmark = pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason()))

RESTRICTED = Settings(topology="restricted", reconcile="1s")
SELF = "agent"
"""The pod that the agent considers its own."""
LIMIT = 30.0
"""Seconds: half of the agent's scan interval, so that only a notification can explain an observed change."""


class Versions:
    """Every version of the published object, in the order in which a watch received them."""

    def __init__(self, client: Client) -> None:
        self.seen: list[dict[str, Any]] = []
        self._watch = client.watch(NODE_RESOURCE_TOPOLOGIES, resource_version="0")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._watch.abort()
        self._thread.join(LIMIT)

    def _run(self) -> None:
        with contextlib.suppress(KubeError), self._watch as events:
            for event in events:
                if event.type != "BOOKMARK":
                    self.seen.append(msgspec.json.decode(event.object))


class Stage(NamedTuple):
    """A node with an agent, and the published versions."""

    node: Node
    agent: AgentProcess
    versions: Versions

    def published(self) -> dict[int, dict[str, tuple[int, int]]]:
        """Return the allocatable and available amounts of each zone in the last published version."""
        zones: list[dict[str, Any]] = self.versions.seen[-1]["zones"] if self.versions.seen else []
        return {
            int(zone["name"].removeprefix("node-")): {
                amount["name"]: (int(amount["allocatable"]), int(amount["available"])) for amount in zone["resources"]
            }
            for zone in zones
            if zone["type"] == "Node"
        }

    def looks(self) -> float:
        """Return how often the agent has scanned."""
        return self.agent.metric("zonewise_scan_duration_seconds_count")

    def has_looked(self, before: float) -> bool:
        return self.looks() > before

    def until_true(self) -> None:
        """Wait until the published amounts are those of the kubelet's files."""

        def is_true() -> bool:
            known = {
                zone: {name: tuple(stock) for name, stock in stocks.items() if any(stock)}
                for zone, stocks in truth(self.node).items()
            }
            told = {
                zone: {name: stock for name, stock in stocks.items() if any(stock)}
                for zone, stocks in self.published().items()
            }
            return known == told

        self.agent.until(is_true, LIMIT)


@contextlib.contextmanager
def staged(settings: Settings) -> Generator[Stage]:
    with contextlib.ExitStack() as stack:
        node = stack.enter_context(running_node(settings))
        node.run(pod(SELF, container(cpu="1", memory="64Mi")))
        directory = Path(stack.enter_context(short_directory()))
        server = stack.enter_context(ApiServer(crds=[CRD]))
        client = Client(server.client_config())
        stack.callback(client.close)
        client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        config = directory / "kubelet.json"
        written = configuration(settings, runtime="unix:///none", manifests="/none", port=1)
        config.write_bytes(msgspec.json.encode(written))
        flags = [
            "--api-server", server.url, "--node-name", NODE, "--root", str(node.root),
            "--kubelet-dir", str(node.kubelet.directory), "--podresources-socket", str(node.kubelet.podresources),
            "--kubelet-config", str(config), "--publish-labels", "off", "--listen", "127.0.0.1:0",
            "--pod-name", f"{SELF}-{NODE}", "--namespace", "lab",
        ]  # fmt: skip
        versions = Versions(client)
        stack.callback(versions.close)
        agent = AgentProcess(directory, flags, {}, "pass")
        stack.callback(agent.kill)
        stage = Stage(node, agent, versions)
        stage.until_true()
        yield stage


def test_published_amounts_are_those_of_the_kubelet() -> None:
    """Tested with pods that use CPUs, memory and devices, ended init containers, ended pods, and a late plugin."""
    with staged(RESTRICTED) as stage:
        node = stage.node
        node.run(pod("a", container(cpu="4", memory="1Gi")))
        stage.until_true()
        node.run(pod("b", container(cpu="2", memory="1Gi"), inits=(init("i", cpu="6", memory="1Gi"),)))
        stage.until_true()
        node.plug(GPU, [Device("g0", (0,)), Device("g1", (1,)), Device("both", (0, 1))])
        stage.until_true()
        node.run(pod("c", container(cpu="1", memory="64Mi", gpu="1")))
        stage.until_true()
        node.run(pod("wide", container(cpu="1500m", memory="9Gi")))
        stage.until_true()
        node.end("a", "b")
        node.run(pod("d", container(cpu="1", memory="64Mi")))  # its admission clears the kubelet's files
        stage.until_true()
        assert stage.agent.end() == 0


def test_a_restart_never_frees_allocated_resources() -> None:
    """While the kubelet restarts and has not listed its pods yet, none of their resources is published as free."""
    with staged(RESTRICTED) as stage:
        stage.node.run(*(pod(f"p{number}", container(cpu="3", memory="1Gi")) for number in range(4)))
        stage.until_true()
        held = available(stage.versions.seen[-1])
        memory = available(stage.versions.seen[-1], "memory")
        count = len(stage.versions.seen)
        stage.node.kubelet.restart()
        stage.node.run(pod("later", container(cpu="2", memory="1Gi")))
        stage.until_true()
        for version in stage.versions.seen[count:]:
            assert all(now <= before for now, before in zip(available(version), held, strict=True))
            assert all(now <= before for now, before in zip(available(version, "memory"), memory, strict=True))


def test_nothing_is_written_while_nothing_happens() -> None:
    """Neither a file that the kubelet rewrites with the same content nor a scan causes a write."""
    with staged(RESTRICTED) as stage:
        count = len(stage.versions.seen)
        state = stage.node.kubelet.directory / "cpu_manager_state"
        content = state.read_bytes()
        for _ in range(3):
            looks = stage.looks()
            fresh = state.with_name(".fresh")
            fresh.write_bytes(content)
            fresh.replace(state)
            stage.agent.until(functools.partial(stage.has_looked, looks), LIMIT)
        assert len(stage.versions.seen) == count
        assert re.search(r"\bERROR\b", stage.agent.said) is None

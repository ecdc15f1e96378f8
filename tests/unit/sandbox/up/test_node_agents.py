"""Simulated nodes: their kubelets' admissions, and their agents' reports."""

from __future__ import annotations

from typing import Any

from zonewise_sandbox.podrunner.types import RunnerMetadata, RunnerPod, RunnerPodStatus
from zonewise_sandbox.up.node_agents import SimulatedNode, idle_report
from zonewise_sandbox.up.node_descriptions import parse_nodes

GPU = "nvidia.com/gpu"


def simulated_node(policy: str = "best-effort") -> SimulatedNode:
    return SimulatedNode("node", parse_nodes("1xhgx-h100", policy).nodes[0].machine)


def pod(name: str, gpus: int, cpus: int = 8, **spec: Any) -> RunnerPod:
    limits = {"cpu": str(cpus), "memory": "1Gi", GPU: str(gpus)}
    containers = [{"name": "main", "resources": {"limits": limits, "requests": limits}}]
    metadata = RunnerMetadata(name, f"uid-{name}", "default")
    return RunnerPod(metadata, {"containers": containers, **spec}, RunnerPodStatus("Pending", "Guaranteed"))


def test_a_pod_is_admitted_once() -> None:
    """Admitting an admitted pod again allocates nothing."""
    node = simulated_node()
    assert node.admit(pod("a", 2)) == node.admit(pod("a", 2)) == ""
    assert [len(entry.containers[0].cpus) for entry in node.report().pods] == [8]
    assert node.remove("uid-a")
    assert not node.remove("uid-a")
    assert node.report().pods == ()


def test_a_kubelet_rejects_a_pod_that_spans_zones() -> None:
    """Only single-numa-node rejects it."""
    assert "single zone" in simulated_node("single-numa-node").admit(pod("wide", 8))
    assert simulated_node().admit(pod("wide", 8)) == ""


def test_an_init_container_that_ends_holds_nothing() -> None:
    node = simulated_node()
    init = [{"name": "init", "resources": {"limits": {"cpu": "32", "memory": "1Gi"}}}]
    assert node.admit(pod("a", 1, initContainers=init)) == ""
    assert [container.name for entry in node.report().pods for container in entry.containers] == ["main"]


def test_the_report_of_an_idle_node() -> None:
    report = idle_report(simulated_node())
    zones = [zone for zone in report.nrt["zones"] if zone["type"] == "Node"]
    resources = [{entry["name"]: entry["available"] for entry in zone["resources"]} for zone in zones]
    assert [(amounts["cpu"], amounts[GPU]) for amounts in resources] == [("111", "4"), ("112", "4")]
    attributes = {entry["name"]: entry["value"] for entry in report.nrt["attributes"]}
    assert attributes["topologyManagerPolicy"] == "best-effort"
    assert any(name.startswith("zonewise.dev/") for name in report.labels)

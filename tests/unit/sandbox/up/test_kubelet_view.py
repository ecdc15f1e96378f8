"""The in-memory kubelet reports what the simulated kubelet serves over gRPC and writes to its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.kubelets import GPU, pod, short_directory
from zonewise.daemon.components import open_kubelet
from zonewise.daemon.events import Reason
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.settings import Settings
from zonewise.usage.node_usage import node_usage
from zonewise_sandbox.kubelet import STATIC, SimulatedDevice, SimulatedKubelet, even_zones
from zonewise_sandbox.kubelet.container_manager import ContainerManager
from zonewise_sandbox.up.kubelet_view import KubeletView, kubelet_report
from zonewise_sandbox.up.node_descriptions import parse_nodes

if TYPE_CHECKING:
    from zonewise_sandbox.kubelet import PodSpec

GIB = 1 << 30
ZONES = even_zones(2, 8)
DEVICES = [SimulatedDevice(GPU, f"gpu-{number}", (number // 4,)) for number in range(8)]
CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
memoryManagerPolicy: Static
topologyManagerPolicy: best-effort
systemReserved: {cpu: "1"}
"""
PODS = (
    pod("both-zones", 24, memory=80 * GIB, gpus=5),
    pod("small", 2, memory=4 * GIB, gpus=1),
    pod("shared", 3, guaranteed=False),
)


@pytest.mark.parametrize("pods", [(), PODS[:1], PODS])
def test_it_is_what_the_agent_reads_of_a_served_kubelet(pods: tuple[PodSpec, ...]) -> None:
    managers = ContainerManager(ZONES, DEVICES, STATIC)
    with short_directory() as directory, SimulatedKubelet(directory, ZONES, devices=DEVICES) as kubelet:
        (directory / "config.yaml").write_text(CONFIG)
        for spec in pods:
            kubelet.start(spec)
            managers.admit(spec)
        settings = Settings(node_name="node", kubelet_dir=str(directory)).completed()
        poller = open_kubelet(settings, AgentMetrics())
        try:
            served = poller.poll(frozenset({Reason.START})).report
        finally:
            poller.close()
    report = KubeletView(lambda: kubelet_report(managers)).poll(frozenset()).report
    assert sorted(report.pods) == sorted(served.pods)
    assert (report.config, report.state.cpu, report.state.memory) == (
        served.config,
        served.state.cpu,
        served.state.memory,
    )
    assert report.allocatable.cpus == served.allocatable.cpus
    assert sorted(report.allocatable.memory) == sorted(served.allocatable.memory)
    machine = parse_nodes("1xgb200").nodes[0].machine.machine
    in_memory, over_grpc = (node_usage(machine, entry._replace(active=None)) for entry in (report, served))
    assert in_memory == over_grpc

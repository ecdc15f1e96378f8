"""`zonewise agent` checks the hardware: a line of the kernel log becomes a condition of the Node, over restarts too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.agents import NODE, NODE_PATH, SHAPE, Site, new_site
from support.api import STRATEGIC
from support.disk import lay_out
from support.gpus import information
from support.kubelets import pod
from support.trees import machine_tree, server_tree
from support.waiting import eventually
from zonewise_common.k8s.hardware_conditions import POD_CONDITION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

XID = "NVRM: Xid (PCI:0000:3b:00): 119, pid=4242, name=python, Timeout waiting for RPC from GSP0!"
METRIC = 'zonewise_hardware_fault{device="0000:3b:00.0",kind="gpu",rule="xid-119",severity="failed",verdict="driver"}'


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with new_site() as site:
        yield site


def conditions(site: Site) -> dict[str, str]:
    status = site.api.get(NODE_PATH).ok().get("status", {})
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status.get("conditions", [])}


def test_a_line_of_the_kernel_log_is_a_condition_also_after_a_restart(site: Site) -> None:
    log, state = site.directory / "kmsg", site.directory / "health.json"
    os.mkfifo(log)
    # opened for reading and writing, so that the log always has a writer, as the kernel's log has
    kernel = os.open(log, os.O_RDWR)
    flags = ["--health-mode", "publish", "--health-kernel-log", str(log), "--health-state-file", str(state)]
    agent = site.start(*flags)
    eventually(lambda: conditions(site).get("GPUHardwareFault") == "False NoFault")
    os.write(kernel, f"4,9,1000000,-;{XID}\n".encode())
    eventually(lambda: conditions(site)["GPUHardwareFault"] == "True XID119")
    assert agent.metric(METRIC) == 1.0
    assert "verdict driver" in agent.said
    events = site.api.get("/api/v1/namespaces/default/events").ok()["items"]
    assert [event["reason"] for event in events] == ["XID119"]
    assert agent.end() == 0
    assert conditions(site)["GPUHardwareFault"] == "True XID119"
    # so that only the second agent can have written the condition that is read below
    lost = {"type": "GPUHardwareFault", "status": "Unknown", "reason": "Lost"}
    site.api.patch(f"{NODE_PATH}/status", {"status": {"conditions": [lost]}}, STRATEGIC).ok()
    again = site.start(*flags)
    eventually(lambda: conditions(site)["GPUHardwareFault"] == "True XID119")
    eventually(lambda: again.metric(METRIC) == 1.0)
    assert again.end() == 0
    os.close(kernel)


def test_the_pod_that_held_the_gpu_gets_the_condition(site: Site, tmp_path: Path) -> None:
    """The fault goes from a line of the kernel log, through PodResources, to the pod at the API server."""
    devices = {path: content for path, content in server_tree().items() if "pci0000:10" in f"{path} {content}"}
    driver = {"proc/driver/nvidia/gpus/0000:13:00.0/information": information("gpu-0")}
    root = lay_out({**machine_tree(SHAPE), **devices, **driver}, tmp_path / "machine")
    log = tmp_path / "kmsg"
    os.mkfifo(log)
    kernel = os.open(log, os.O_RDWR)
    pods = [pod(name, 1, gpus=1) for name in ("first", "second")]
    site.api.post("/api/v1/namespaces", {"metadata": {"name": pods[0].namespace}}).ok()
    for one in pods:
        spec = {"nodeName": NODE, "containers": [{"name": "main", "image": "i"}]}
        site.api.post(f"/api/v1/namespaces/{one.namespace}/pods", {"metadata": {"name": one.name}, "spec": spec}).ok()
        site.kubelet.start(one)
    agent = site.start("--root", str(root), "--health-mode", "publish", "--health-kernel-log", str(log))
    agent.until(lambda: agent.page("/readyz")[0] == 200)
    os.write(kernel, b"4,1,9999000000000,-;NVRM: Xid (PCI:0000:13:00): 79, pid=1, GPU has fallen off the bus.\n")

    def reasons() -> dict[str, str]:
        path = f"/api/v1/namespaces/{pods[0].namespace}/pods"
        return {
            one["metadata"]["name"]: condition["reason"]
            for one in site.api.get(path).ok()["items"]
            for condition in one.get("status", {}).get("conditions", [])
            if condition["type"] == POD_CONDITION
        }

    eventually(lambda: reasons() == {"first": "XID79"})
    assert agent.end() == 0
    os.close(kernel)

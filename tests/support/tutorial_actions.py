"""What the tutorials need and no command causes: a GPU that fails, a program that ends, the capture of a server.

The agent's own code evaluates a fault and publishes its consequences.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from support.disk import lay_out
from support.health_stories import FIRST_GPU, Story, xid
from support.trees import server_tree
from support.waiting import eventually
from zonewise.cli import main
from zonewise.health.types import PodName
from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
from zonewise.machine.nvml.facts_json import to_json
from zonewise.publish.fault_publisher import FaultPublisher
from zonewise_common.kube.client import Client, PatchKind
from zonewise_common.kube.resources import JOBS, PODS

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from zonewise_common.kube.config import Config

KERNEL_LOG = "[1795403520.000000] NVRM: Xid (PCI:0000:13:00): 79, pid=77, name=python, GPU has fallen off the bus.\n"


def end_by_fault(config: Config, job: str, code: int) -> None:
    """Raise an XID for a GPU of the first pod of a running Job, and end the pod with status 1."""
    with contextlib.closing(Client(config)) as client:
        pod = next(pod for pod in _pods(client, job) if pod["status"].get("phase") == "Running")
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        story = Story()
        story.now = time.time()  # a fault before a pod's start is not attributed to the pod
        story.held = {FIRST_GPU: [PodName("default", name, "main")]}
        story.observe(events=xid(code, story.now + 1))
        publisher = FaultPublisher(client, pod["spec"]["nodeName"])
        assert publisher.publish(story.state.active).pods == 1
        annotations = {"zonewise.dev/simulated-exit-code": "1", "zonewise.dev/simulated-run-seconds": "0"}
        patch = {"metadata": {"uid": uid, "annotations": annotations}}
        client.patch(PODS, name, patch, kind=PatchKind.MERGE, namespace="default")
        eventually(lambda: _reacted(client, job, uid))


def _reacted(client: Client, job: str, uid: str) -> bool:
    """Return whether a Job has failed, or all of its pods run and none has this UID."""
    obj = client.get(JOBS, job, namespace="default")
    if any(entry["type"] == "Failed" for entry in obj["status"].get("conditions", ())):
        return True
    running = {pod["metadata"]["uid"] for pod in _pods(client, job) if pod["status"].get("phase") == "Running"}
    return uid not in running and len(running) == obj["spec"]["parallelism"]


def _pods(client: Client, job: str) -> list[dict[str, Any]]:
    pods = client.list(PODS, namespace="default", label_selector=f"batch.kubernetes.io/job-name={job}").items
    return sorted(pods, key=lambda pod: pod["metadata"]["name"])


def write_capture(archive: Path, directory: Path) -> None:
    """Capture the server of the tutorials: two GPUs, of which the kernel log says that one fell off the bus."""
    root = lay_out(server_tree(), directory)
    gpus = tuple(
        NvmlGpu(
            number,
            address,
            f"GPU-{number}",
            "NVIDIA H100 80GB HBM3",
            architecture=9,
            memory=81559 << 20,
            compute_capability=(9, 0),
        )
        for number, address in enumerate(("0000:13:00.0", "0000:83:00.0"))
    )
    (root / "zonewise").mkdir()
    facts = NvmlFacts(driver_version="570.86.10", cuda_version=12080, gpus=gpus)
    (root / "zonewise" / "nvml.json").write_text(to_json(facts))
    (root / "zonewise" / "kernel.log").write_text(KERNEL_LOG)
    assert main(["capture", str(archive), "--root", str(root), "--force"]) == 0

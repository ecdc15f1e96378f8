"""docs/guides/deploy-queue.md: jobs continue while the queue is removed, and kubectl releases pods that it held."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import RealServer, real_apiserver
from support.e2e.cluster import write_kubeconfig
from support.live_cluster import WORKLOADS, real_live_cluster
from support.programs import find_program, missing_program
from support.snapshots import PROJECT
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GUIDE = (PROJECT / "docs/guides/deploy-queue.md").read_text()
ADMISSION, TOPOLOGY, MANAGED = "kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology", "kueue.x-k8s.io/managed"


def documented_loop() -> str:
    section = GUIDE.split("\n## Remove the queue\n")[1].split("\n## ")[0]
    [loop] = re.findall(r"```bash\n(.*?)```", section, re.S)
    return str(loop)


def pod(name: str, label: str, gates: list[str], finalizers: list[str]) -> dict[str, Any]:
    metadata = {"name": name, "labels": {f"kueue.x-k8s.io/{label}": "true"}, "finalizers": finalizers}
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "schedulingGates": [{"name": gate} for gate in gates],
        "terminationGracePeriodSeconds": 0,
    }
    return {"metadata": metadata, "spec": spec}


@pytest.fixture
def server() -> Iterator[RealServer]:
    """Yield a server of its own, since the loop changes pods of all namespaces."""
    with real_apiserver() as running:
        yield running


def test_pods_are_released_after_the_removal(server: RealServer, tmp_path: Path) -> None:
    kubectl = find_program("kubectl")
    if kubectl is None:
        pytest.skip(missing_program("kubectl"))
    path = f"/api/v1/namespaces/{server.new_namespace()}/pods"
    pods = (
        pod("waits", "managed", [ADMISSION, "example.com/other"], [MANAGED, "example.com/other"]),
        pod("runs", "managed", [], [MANAGED]),
        pod("replaces", "tas", [TOPOLOGY], []),
        pod("deleted", "managed", [ADMISSION], [MANAGED]),
    )
    for each in pods:
        server.admin.post(path, each).ok()
    server.admin.delete(f"{path}/deleted").ok()
    environment = {
        "PATH": f"{kubectl.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(write_kubeconfig(server, tmp_path)),
    }
    subprocess.run(["bash", "-euc", documented_loop()], env=environment, check=True, capture_output=True, timeout=100)
    remaining = {each["metadata"]["name"]: each for each in server.admin.get(path).ok()["items"]}
    gates = {
        name: [gate["name"] for gate in each["spec"].get("schedulingGates", ())] for name, each in remaining.items()
    }
    assert gates == {"waits": ["example.com/other"], "runs": [], "replaces": []}
    finalizers = {name: each["metadata"].get("finalizers", []) for name, each in remaining.items()}
    assert finalizers == {"waits": ["example.com/other"], "runs": [], "replaces": []}


def test_running_jobs_continue_if_kueues_kinds_are_deleted() -> None:
    """Their Workloads are deleted first. A job that only loses its Workload is stopped, and starts with a new one."""
    kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/workloads.kueue.x-k8s.io"
    with real_live_cluster() as cluster:
        cluster.add_nodes(1)
        cluster.add_queue(8)

        def running() -> set[str]:
            return {each["metadata"]["uid"] for each in cluster.running_pods("train")}

        with cluster.controller() as controller:
            cluster.submit("train")
            eventually(running)
            first = running()
            [workload] = cluster.workloads()
            cluster.api.delete(f"{WORKLOADS}/{workload['metadata']['name']}").ok()
            eventually(lambda: running() - first)
            second = running() - first
            cluster.api.delete(kind).ok()
            eventually(lambda: "no workloads.kueue.x-k8s.io can be created" in controller.said)
            eventually(lambda: cluster.api.get(WORKLOADS).status == 404)
        assert not cluster.is_held("train")
        assert running() == second

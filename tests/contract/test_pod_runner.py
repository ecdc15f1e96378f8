"""Simulated nodes: pods are bound and run on the embedded API server, and on the real one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import pytest

from support.apiserver import real_server
from support.clusters import Cluster, cluster, embedded_server, pod
from support.waiting import eventually
from zonewise_common.kube.config import Config
from zonewise_sandbox.podrunner import PodRunner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.api import Json

__all__ = ["cluster", "embedded_server", "real_server"]

GATES = [{"name": "example.com/gate"}]


@pytest.fixture
def runner(cluster: Cluster) -> Iterator[PodRunner]:
    with PodRunner(Config.from_url(cluster.api.url, cluster.api.token, ca=cluster.api.ca or "")) as running:
        yield running


@pytest.fixture(autouse=True)
def stray_pod(cluster: Cluster) -> Iterator[None]:
    """Create a pending pod, like those that tests of other files leave on the shared server."""
    stray = pod("stray")
    stray["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    cluster.api.post(cluster.pods, stray).ok()
    yield
    cluster.api.delete(f"{cluster.pods}/stray", {"gracePeriodSeconds": 0}).ok()


@pytest.fixture
def node(cluster: Cluster) -> Iterator[str]:
    """Create a node with two CPUs and a taint, which keeps pods of all other namespaces away, also pending ones."""
    name = f"node-{secrets.token_hex(4)}"
    status = {"allocatable": {"cpu": "2", "pods": "110"}, "capacity": {"cpu": "2", "pods": "110"}}
    cluster.api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"only": name}}, "status": status}).ok()
    cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": name, "effect": "NoSchedule"}]}}).ok()
    yield name
    cluster.api.delete(f"/api/v1/nodes/{name}").ok()


def body(name: str, node: str, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    tolerations = [{"key": node, "operator": "Exists"}]
    made = pod(name, nodeSelector={"only": node}, tolerations=tolerations, restartPolicy="Never", **spec)
    made["metadata"]["annotations"] = annotations or {}
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return made


def phase(cluster: Cluster, name: str) -> str:
    return cluster.api.get(f"{cluster.pods}/{name}").ok()["status"]["phase"]


def test_a_pod_is_bound_runs_and_ends(cluster: Cluster, node: str, runner: PodRunner) -> None:
    cluster.api.post(cluster.pods, body("one", node, {"zonewise.dev/simulated-run-seconds": "0"})).ok()
    failing = {"zonewise.dev/simulated-run-seconds": "0", "zonewise.dev/simulated-exit-code": "3"}
    cluster.api.post(cluster.pods, body("two", node, failing)).ok()
    eventually(lambda: (phase(cluster, "one"), phase(cluster, "two")) == ("Succeeded", "Failed"))
    ended = cluster.api.get(f"{cluster.pods}/two").ok()
    assert ended["spec"]["nodeName"] == node
    (container,) = ended["status"]["containerStatuses"]
    assert container["state"]["terminated"]["exitCode"] == 3


def test_a_pod_waits_for_its_gate_and_for_free_cpus(cluster: Cluster, node: str, runner: PodRunner) -> None:
    for name in ("one", "two", "three"):
        cluster.api.post(cluster.pods, body(name, node, schedulingGates=GATES)).ok()
    for name in ("one", "two"):
        cluster.api.patch(f"{cluster.pods}/{name}", {"spec": {"schedulingGates": []}}).ok()
    eventually(lambda: phase(cluster, "one") == phase(cluster, "two") == "Running")
    assert phase(cluster, "three") == "Pending"
    waiting = runner.waiting
    cluster.api.patch(f"{cluster.pods}/three", {"spec": {"schedulingGates": []}}).ok()
    eventually(lambda: runner.waiting > waiting)
    cluster.api.delete(f"{cluster.pods}/one").ok()
    eventually(lambda: phase(cluster, "three") == "Running")


def test_a_pod_of_a_gang_works_once_all_run(cluster: Cluster, node: str, runner: PodRunner) -> None:
    annotations = {"zonewise.dev/simulated-run-seconds": "0", "zonewise.dev/simulated-gang-pods": "2"}

    def member(name: str, **spec: Any) -> Json:
        made = body(name, node, annotations, **spec)
        made["metadata"]["labels"] = {"batch.kubernetes.io/job-name": "gang"}
        return made

    cluster.api.post(cluster.pods, member("one")).ok()
    cluster.api.post(cluster.pods, member("two", schedulingGates=GATES)).ok()
    cluster.api.post(cluster.pods, body("alone", node, {"zonewise.dev/simulated-run-seconds": "0"})).ok()
    eventually(lambda: phase(cluster, "alone") == "Succeeded")
    eventually(lambda: phase(cluster, "one") == "Running")
    cluster.api.patch(f"{cluster.pods}/two", {"spec": {"schedulingGates": []}}).ok()
    eventually(lambda: phase(cluster, "one") == phase(cluster, "two") == "Succeeded")


def test_a_deleted_pod_ends_before_it_is_removed(cluster: Cluster, node: str, runner: PodRunner) -> None:
    made = body("one", node)
    made["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.api.post(cluster.pods, made).ok()
    eventually(lambda: phase(cluster, "one") == "Running")
    cluster.api.delete(f"{cluster.pods}/one").ok()
    eventually(lambda: phase(cluster, "one") == "Failed")
    cluster.api.patch(f"{cluster.pods}/one", {"metadata": {"finalizers": None}}).ok()
    eventually(lambda: cluster.api.get(f"{cluster.pods}/one").status == 404)

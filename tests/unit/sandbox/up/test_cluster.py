"""A whole in-process cluster: jobs run on it, and it leaves nothing behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import tempfile
import threading
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.resources import JOBS, NODE_RESOURCE_TOPOLOGIES, NODES, PODS, WORKLOADS
from zonewise_sandbox.up.cluster import Cluster, ClusterError, ClusterOptions, ClusterStopped, open_cluster
from zonewise_sandbox.up.kubeconfig import written_kubeconfig
from zonewise_sandbox.up.load import LoadSubmitter, load_jobs
from zonewise_sandbox.up.node_descriptions import parse_nodes
from zonewise_sandbox.up.observer import open_observer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
HOUR = 3600
SPEED = 3000.0
NODES_TEXT = "4xhgx-h100"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with open_cluster(ClusterOptions(parse_nodes(NODES_TEXT), speed=SPEED)) as running:
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with contextlib.closing(Client(cluster.config)) as one:
        yield one


def job(name: str, pods: int, cpus: int, gpus: int, *, run: int = HOUR) -> Json:
    """Return a Job without a queue name."""
    limits = {"cpu": str(cpus), "memory": "8Gi", **({GPU: str(gpus)} if gpus else {})}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    template = {
        "metadata": {"annotations": {"zonewise.dev/simulated-run-seconds": str(run)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    spec = {"completions": pods, "parallelism": pods, "completionMode": "Indexed", "template": template}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def submit(client: Client, body: Json) -> None:
    client.create(JOBS, body, namespace="default")


def pods_of(client: Client, name: str) -> list[Json]:
    return client.list(PODS, label_selector=f"batch.kubernetes.io/job-name={name}").items


def is_complete(client: Client, name: str) -> bool:
    status = client.get(JOBS, name, namespace="default")["status"]
    return any(entry["type"] == "Complete" for entry in status.get("conditions", ()))


def available(client: Client, node: str) -> list[tuple[int, int]]:
    """Return the available CPUs and GPUs of a node's zones, from its agent's report."""
    zones = client.get(NODE_RESOURCE_TOPOLOGIES, node)["zones"]
    resources = [
        {entry["name"]: int(entry["available"]) for entry in zone["resources"]}
        for zone in zones
        if zone["type"] == "Node"
    ]
    return [(amounts["cpu"], amounts[GPU]) for amounts in resources]


def test_nodes_are_as_described(client: Client) -> None:
    """Each node is ready, has no taints, and has its agent's labels and report."""
    nodes = client.list(NODES).items
    assert [node["metadata"]["name"] for node in nodes] == [f"hgx-h100-{i}" for i in range(4)]
    for node in nodes:
        assert not node["spec"].get("taints")
        assert node["status"]["allocatable"][GPU] == "8"
        assert node["status"]["allocatable"]["cpu"] == "223"
        assert [entry["status"] for entry in node["status"]["conditions"] if entry["type"] == "Ready"] == ["True"]
        assert any(label.startswith("zonewise.dev/") for label in node["metadata"]["labels"])
        assert available(client, node["metadata"]["name"]) == [(111, 4), (112, 4)]


def test_a_job_runs_zone_by_zone(cluster: Cluster, client: Client) -> None:
    """The job has no queue name and waits in the default queue. Its pods are placed in zones, which are then freed."""
    submit(client, job("aligned", 5, 50, 2))
    eventually(lambda: [pod["status"].get("phase") for pod in pods_of(client, "aligned")] == ["Running"] * 5)
    pods = pods_of(client, "aligned")
    used = {pod["spec"]["nodeName"] for pod in pods}
    assert len(used) < 5, "two pods fit in a zone"
    eventually(lambda: sum(223 - sum(cpus for cpus, _ in available(client, node)) for node in used) == 250)
    for node in used:
        assert all(gpus in {0, 2, 4} for _, gpus in available(client, node))
    assert all("zonewise.dev/predicted-admission" in pod["metadata"]["annotations"] for pod in pods)
    eventually(lambda: is_complete(client, "aligned"))
    eventually(lambda: all(available(client, f"hgx-h100-{i}") == [(111, 4), (112, 4)] for i in range(4)))
    workloads = client.list(WORKLOADS, namespace="default").items
    assert any(workload["metadata"]["name"].startswith("job-aligned") for workload in workloads)


def test_time_runs_at_the_requested_speed(client: Client) -> None:
    """A job of an hour takes an hour of the cluster's time, and a few seconds of real time."""
    submit(client, job("hour", 1, 1, 1))
    eventually(lambda: is_complete(client, "hour"))
    status = client.get(JOBS, "hour", namespace="default")["status"]
    begin, end = (status[field] for field in ("startTime", "completionTime"))
    took = (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()
    assert HOUR <= took < 10 * HOUR


def test_a_job_that_does_not_fit_waits(client: Client) -> None:
    """The job's Workload has the reason."""
    submit(client, job("too-wide", 33, 1, 1))

    def message() -> str:
        workloads = client.list(WORKLOADS, namespace="default").items
        named = [entry for entry in workloads if entry["metadata"]["name"].startswith("job-too-wide")]
        conditions = [entry for workload in named for entry in workload.get("status", {}).get("conditions", ())]
        return next((entry["message"] for entry in conditions if entry["type"] == "QuotaReserved"), "")

    eventually(lambda: GPU in message())
    client.delete(JOBS, "too-wide", namespace="default", propagation="Background")


def test_a_kubelet_rejects_a_pod_that_its_node_cannot_hold(client: Client) -> None:
    """A pod with a node name passes no scheduler; its kubelet sets its status."""
    body = job("unused", 1, 1, 9)["spec"]["template"]
    pod = {"metadata": {"name": "greedy", "namespace": "default"}, "spec": {**body["spec"], "nodeName": "hgx-h100-3"}}
    client.create(PODS, pod, namespace="default")
    eventually(lambda: client.get(PODS, "greedy", namespace="default")["status"]["phase"] == "Failed")
    assert client.get(PODS, "greedy", namespace="default")["status"]["reason"] == "TopologyAffinityError"
    client.delete(PODS, "greedy", namespace="default")


def test_the_jobs_of_a_load_are_submitted(cluster: Cluster, client: Client) -> None:
    nodes = parse_nodes(NODES_TEXT)
    with LoadSubmitter(cluster.config, load_jobs("ai", nodes, seed=1), cluster.clock):
        eventually(lambda: any(name.startswith("small-") for name in _job_names(client)))
        eventually(lambda: any(pods_of(client, name) for name in _job_names(client) if name.startswith("small-")))
    for name in _job_names(client):
        client.delete(JOBS, name, namespace="default", propagation="Background")


def _job_names(client: Client) -> list[str]:
    return [entry["metadata"]["name"] for entry in client.list(JOBS).items]


def test_an_observer_shows_the_cluster(cluster: Cluster) -> None:
    """An observer serves the page of an existing cluster by its kubeconfig, and writes nothing."""
    with written_kubeconfig(cluster.url, "") as path, open_observer(path, "", 0, threading.Event) as observer:
        assert observer.cluster_url == cluster.url
        path_of_queues = "/api/v1/queues"
        eventually(lambda: _get(observer.status_url, path_of_queues)["clusterQueues"])
        shown = _get(observer.status_url, path_of_queues)
        assert not shown["leads"]
        assert [queue["name"] for queue in shown["clusterQueues"]] == ["default"]
    assert not os.path.exists(path)


def test_the_read_api_is_behind_the_proxy_of_services(cluster: Cluster) -> None:
    """A kubeconfig therefore suffices for client commands."""
    proxied = "/api/v1/namespaces/zonewise/services/zonewise-controller:metrics/proxy"
    shown = _get(cluster.url, f"{proxied}/api/v1/workloads?limit=1")
    assert shown.keys() == {"total", "offset", "items"}
    assert _get(cluster.url, proxied.replace("-controller", "-other"))["code"] == 404


def _get(url: str, path: str) -> Json:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())


# --- the end of a cluster


def test_nothing_remains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No port, thread or file remains after a job has run."""
    before = set(threading.enumerate())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with open_cluster(ClusterOptions(parse_nodes("2xxeon-8358"), speed=SPEED)) as cluster:
        urls = (cluster.url, cluster.status_url)
        with contextlib.closing(Client(Config.from_url(cluster.url))) as client:
            submit(client, job("short", 2, 4, 0, run=60))
            eventually(lambda: is_complete(client, "short"))
    for url in urls:
        with contextlib.closing(socket.socket()) as connection:
            assert connection.connect_ex(("127.0.0.1", urlsplit(url).port or 0)) != 0
    eventually(lambda: not [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("field", ["port", "status_port"])
def test_a_port_in_use(field: str) -> None:
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        options = ClusterOptions(parse_nodes("1"))._replace(**{field: port})
        flag = f"--{field.replace('_', '-')}"
        with pytest.raises(ClusterError, match=f"port {port} is in use: .* {flag}"), open_cluster(options):
            pass


def test_a_stop_before_the_cluster_is_ready() -> None:
    stop = threading.Event()
    stop.set()
    before = set(threading.enumerate())
    with pytest.raises(ClusterStopped), open_cluster(ClusterOptions(parse_nodes("1")), stop=stop):
        pass
    eventually(lambda: not [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()])

"""The live queue on real kubelets with two zones, with a real kube-scheduler: no kubelet rejects a pod of a Job."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from support.controller_manager import real_controller_manager
from support.e2e.cluster import NAMESPACE, Cluster, running_cluster, scheduling, skip_reason
from support.e2e.pods import container, pod
from support.e2e.settings import Settings
from support.live_cluster import KUEUE, QUEUE_LABEL, ControllerProcess, add_queue_kinds
from support.published_faults import FAULT_REASON, published_fault
from support.queue_objects import cluster_queue_spec
from support.waiting import eventually
from zonewise_common.kube.config import Config

if TYPE_CHECKING:
    from collections.abc import Generator

pytestmark = [pytest.mark.skipif(skip_reason() is not None, reason=str(skip_reason())), pytest.mark.timeout(600)]

Object = dict[str, Any]

NODES = ("n0", "n1", "n2", "n3")
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
WORKLOADS = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
TOPOLOGY_REQUEST = "kueue.x-k8s.io/podset-unconstrained-topology"


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    """Yield one queue for four nodes with two zones of 16 CPUs, of which the kubelet reserves two in the first zone."""
    settings = Settings(topology="single-numa-node", reconcile="1s")
    with running_cluster(dict.fromkeys(NODES, settings)) as cluster, real_controller_manager(cluster.server):
        admin = cluster.server.admin
        add_queue_kinds(admin)
        flavor = {"nodeLabels": {"kubernetes.io/os": "linux"}, "topologyName": "nodes"}
        quotas = {"cpu": "1000", "memory": "1000Ti"}
        for path, kind, name, spec in (
            ("topologies", "Topology", "nodes", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}),
            ("resourceflavors", "ResourceFlavor", "all", flavor),
            ("clusterqueues", "ClusterQueue", "queue", cluster_queue_spec(quotas, "all")),
            (f"namespaces/{NAMESPACE}/localqueues", "LocalQueue", "queue", {"clusterQueue": "queue"}),
        ):
            body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
            admin.post(f"{KUEUE}/{path}", body).ok()
        yield cluster


@pytest.fixture
def queue(cluster: Cluster) -> Generator[ControllerProcess]:
    with running_queue(cluster) as process:
        yield process


@contextlib.contextmanager
def running_queue(cluster: Cluster, *flags: str) -> Generator[ControllerProcess]:
    """Run a controller, and kube-scheduler without our extender: only the controller considers nodes and zones."""
    access = ("--kubeconfig", str(cluster.kubeconfig), "--leader-election", "false", "--namespace", NAMESPACE,
              "--requeue-backoff", "2s")  # fmt: skip
    with scheduling(cluster):
        process = ControllerProcess(cluster.directory, *access, *flags)
        try:
            yield process
            assert process.process.poll() is None, process.said
        finally:
            process.kill()
    assert "Traceback" not in process.said, process.said


def job(name: str, cpus: int, pods: int = 1, node: str = "") -> Object:
    """Return a suspended Job, each of whose pods gets whole CPUs of one zone."""
    spec = pod(name, container(cpu=str(cpus), memory="64Mi"), restart="Never")["spec"]
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    template = {"metadata": {"annotations": {TOPOLOGY_REQUEST: "true"}}, "spec": spec}
    return {
        "metadata": {"name": name, "labels": {QUEUE_LABEL: "queue"}},
        "spec": {"completionMode": "Indexed", "suspend": True, "parallelism": pods, "completions": pods,
                 "backoffLimit": 0, "template": template},
    }  # fmt: skip


def condition(obj: Object, kind: str) -> Object:
    conditions: list[Object] = obj.get("status", {}).get("conditions", [])
    empty: Object = {}
    return next((entry for entry in conditions if entry["type"] == kind), empty)


def finish_running(cluster: Cluster) -> None:
    """End the container of each running pod."""
    for node in cluster.nodes.values():
        for name, own in node.runtime.running():
            node.runtime.finish(name, own)


def clear(cluster: Cluster) -> None:
    for entry in cluster.server.admin.get(JOBS).ok()["items"]:
        cluster.server.admin.delete(f"{JOBS}/{entry['metadata']['name']}", propagationPolicy="Background")
    eventually(lambda: not cluster.server.admin.get(JOBS).ok()["items"])
    cluster.clear()


def waits_for(cluster: Cluster) -> str:
    """Return why a Job waits; "" if none does."""
    reserved = [condition(each, "QuotaReserved") for each in cluster.server.admin.get(WORKLOADS).ok()["items"]]
    return next((each["message"] for each in reserved if each.get("status") == "False"), "")


def test_three_jobs_that_need_most_of_a_zone_each(cluster: Cluster, queue: ControllerProcess) -> None:
    """A node has two zones: two Jobs start; the third waits with a reason, and starts when one of them has ended."""
    admin = cluster.server.admin
    for name in "abc":
        admin.post(JOBS, job(name, 9, node="n0")).ok()

    def started() -> list[str]:
        return [each["metadata"]["name"] for each in admin.get(JOBS).ok()["items"] if not each["spec"]["suspend"]]

    cluster.until(
        lambda: len(started()) == 2 and "kubelet: 1" in waits_for(cluster),
        lambda: f"{started()} {waits_for(cluster)} {queue.said[-2000:]}",
    )
    cluster.until(lambda: [each["status"].get("phase") for each in cluster.pods().values()] == ["Running"] * 2,
                  lambda: str(cluster.pods()))  # fmt: skip
    finish_running(cluster)
    cluster.until(lambda: len(started()) == 3, lambda: queue.said[-4000:])

    def all_complete() -> bool:
        finish_running(cluster)
        return all(condition(each, "Complete").get("status") == "True" for each in admin.get(JOBS).ok()["items"])

    cluster.until(all_complete, lambda: str({name: each["status"] for name, each in cluster.pods().items()}))
    clear(cluster)


def test_a_gang_whose_pods_are_rejected_is_placed_again(cluster: Cluster, queue: ControllerProcess) -> None:
    """While its agent is stopped, a node gets pods from outside the queue, so its report becomes wrong. Its kubelet
    rejects a pod of a Job, and the replacement. The Job is stopped, and starts when the report is correct.
    """
    admin = cluster.server.admin
    cluster.agents["n0"].kill()
    strangers = [pod(f"stranger-{number}", container(cpu="8", memory="64Mi")) for number in range(2)]
    for obj in strangers:
        obj["spec"]["nodeName"] = "n0"
    cluster.create(strangers)
    cluster.settled([obj["metadata"]["name"] for obj in strangers], lambda obj: obj["status"]["phase"] == "Running")
    placed = job("rejected", 9, node="n0")
    placed["spec"]["backoffLimit"] = 6
    admin.post(JOBS, placed).ok()

    def messages(reason: str) -> list[str]:
        events = admin.get(f"/api/v1/namespaces/{NAMESPACE}/events", fieldSelector=f"reason={reason}").ok()["items"]
        return [each["message"] for each in events]

    cluster.until(lambda: bool(messages("EvictedDueToKubeletRejections")), lambda: queue.said)
    assert "the kubelet of n0 rejected pod rejected-" in messages("PodRejected")[0]
    assert "TopologyAffinityError" in messages("EvictedDueToKubeletRejections")[0]
    for obj in strangers:
        cluster.delete(obj["metadata"]["name"])
    cluster.agents["n0"].start()

    def is_complete() -> bool:
        finish_running(cluster)
        return condition(admin.get(f"{JOBS}/rejected").ok(), "Complete").get("status") == "True"

    eventually(is_complete)
    clear(cluster)


def test_a_gang_of_the_queue_avoids_a_suspect_until_its_condition_is_over(cluster: Cluster) -> None:
    """Six pods use the zones of the other nodes. A gang of two waits, although the zones of the suspect are free."""
    server = cluster.server

    def nodes_of(name: str) -> list[str]:
        own = [each for pod_name, each in cluster.pods().items() if pod_name.startswith(f"{name}-")]
        return sorted(each["spec"]["nodeName"] for each in own if each["status"].get("phase") == "Running")

    with running_queue(cluster, "--avoid-conditions", "hardware") as queue:
        with published_fault(Config.from_url(server.url, server.token, ca=server.ca), "n0"):
            server.admin.post(JOBS, job("small", 9, pods=6)).ok()
            cluster.until(lambda: nodes_of("small") == ["n1", "n1", "n2", "n2", "n3", "n3"], lambda: queue.said[-4000:])
            server.admin.post(JOBS, job("large", 9, pods=2)).ok()
            cluster.until(lambda: f'avoided "n0: {FAULT_REASON}": 1' in waits_for(cluster), lambda: waits_for(cluster))
            assert server.admin.get(f"{JOBS}/large").ok()["spec"]["suspend"]
        cluster.until(lambda: nodes_of("large") == ["n0", "n0"], lambda: waits_for(cluster) + queue.said[-4000:])
    clear(cluster)


@pytest.mark.long
def test_a_burst_of_200_pods(cluster: Cluster, queue: ControllerProcess) -> None:
    """Twenty gangs of ten pods with 3 to 7 CPUs arrive at once; the nodes have 120 CPUs.

    Each Job completes without a failed pod. No pod of a started Job is ever unschedulable.
    """
    admin = cluster.server.admin
    names = [f"burst-{number}" for number in range(20)]
    for number, name in enumerate(names):
        admin.post(JOBS, job(name, 3 + number % 5, pods=10)).ok()
    unschedulable: set[str] = set()

    def all_complete() -> bool:
        pods = cluster.pods()
        unschedulable.update(
            name for name, each in pods.items() if condition(each, "PodScheduled").get("reason") == "Unschedulable"
        )
        finish_running(cluster)
        jobs = admin.get(JOBS).ok()["items"]
        failed = [each["metadata"]["name"] for each in jobs if condition(each, "Failed").get("status") == "True"]
        assert not failed, {name: each["status"] for name, each in pods.items() if each["status"]["phase"] == "Failed"}
        return all(condition(each, "Complete").get("status") == "True" for each in jobs)

    eventually(all_complete, 400)
    assert not unschedulable
    clear(cluster)
